"""Released moments of rows, a personal fit under what the others' moments say."""

from __future__ import annotations

import math
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar

from tacit import _check
from tacit.errors import InvalidInput
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import DEFINITIONS
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol
from tacit.protocols.shared_moments import (
    AGGREGATIONS,
    SharedMomentsProtocol,
    SharedMomentsPublic,
)

__all__ = ["SharedMomentsClassifier", "SharedMomentsRegressor"]

# Of `SharedMomentsProtocol.information`: below the first nothing is sent; from the second on a
# classifier's first model is good enough to be worth a second Newton step.
_LEAST_INFORMATION, _ENOUGH_FOR_TWO = 3.0, 30.0
_MOST_SITES = 10**5
_PUBLIC = "the number of sites and the features are public"
_BOUNDS = "the number of rows of every site is public, and row_norm and target_bound are"
_SECURE = (
    "sums are made by a protocol for secure sums, which shows nobody anything but the total",
    "at least {honest} of the sites, the protected row's own among them, keep messages and noise "
    "shares to themselves",
)


class _SharedMoments(PrivateEstimator):
    _unit = Unit.ROW
    _definition = DEFINITIONS[0]  # personal models stay at their sites
    _parameter_constraints: ClassVar[Constraints] = {
        "mechanism": [rule(_check.one_of, choices=("auto", "gaussian", "two-sided-wishart"))],
        "aggregation": [rule(_check.one_of, choices=AGGREGATIONS)],
        "row_norm": ["auto", rule(_check.positive, remedy='use "auto" or a public norm of rows')],
        "target_bound": [rule(_check.positive, remedy="give a public bound of |y|")],
        "min_honest": [
            "auto",
            rule(_check.positive_integer, remedy='use "auto" for a majority of the sites'),
        ],
        "n_moments": ["auto", rule(_check.whole, least=1, most=2, remedy='use 1, 2 or "auto"')],
        "gate": [rule(_check.flag)],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        mechanism: str = "auto",
        aggregation: str = "untrusted",
        row_norm: float | str = "auto",
        target_bound: float = 1.0,
        min_honest: int | str = "auto",
        n_moments: int | str = "auto",
        gate: bool = True,
        fit_intercept: bool = True,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.aggregation = aggregation
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.min_honest = min_honest
        self.n_moments = n_moments
        self.gate = gate
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.delta == 0 and self.mechanism == "gaussian":
            raise InvalidInput(
                'mechanism="gaussian": has no pure ε; use delta > 0 or mechanism="auto"'
            )

    @property
    def _assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.aggregation != "secure":
            return (_PUBLIC, _BOUNDS)
        honest = "a majority" if self.min_honest == "auto" else str(self.min_honest)
        return (_PUBLIC, _BOUNDS, *(text.format(honest=honest) for text in _SECURE))

    def _protocol(self, sizes: Sizes) -> SharedMomentsProtocol:
        squared = self._loss.name == "squared"
        counts = sizes.counts
        if counts is None:  # a plan: sites are taken to be alike
            if sizes.n_tasks > _MOST_SITES:
                raise InvalidInput(
                    f"n_tasks={sizes.n_tasks}: at most {_MOST_SITES} sites release moments of "
                    "their rows; protect whole tasks with another method"
                )
            counts = (max(1, self._n_units(sizes) // sizes.n_tasks),) * sizes.n_tasks
        automatic = self.row_norm == "auto"
        once = SharedMomentsProtocol(
            loss=self._loss,
            n_features=sizes.n_features,
            counts=counts,
            n_outputs=sizes.n_outputs,
            row_norm=math.sqrt(sizes.n_features) if automatic else float(self.row_norm),
            target_bound=float(self.target_bound) if squared else 1.0,
            fit_intercept=self.fit_intercept,
            aggregation=self.aggregation,
            n_moments=1,
            min_honest=None if self.min_honest == "auto" else int(self.min_honest),
        )
        if self.n_moments != "auto":
            return replace(once, n_moments=int(self.n_moments))
        again = squared or once.information(super()._schedule(once, sizes)) >= _ENOUGH_FOR_TWO
        return replace(once, n_moments=2 if again else 1)

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        """Return the calibrated rounds; none where public numbers say that they cannot help."""
        schedule = super()._schedule(protocol, sizes)
        if sizes.n_tasks < 2:
            return Schedule((), ())
        if self.gate and isinstance(protocol, SharedMomentsProtocol):
            worth = protocol.information(schedule) >= _LEAST_INFORMATION
            return schedule if worth else Schedule((), ())
        return schedule

    def _read_public(self, public: SharedMomentsPublic, sizes: Sizes) -> dict[str, Any]:  # noqa: ARG002
        if public.sites is None:
            return {}
        coef, intercept = public.frame.model(public.models().bayes[0])
        return {"shared_coef": coef, "shared_intercept": intercept}


class SharedMomentsRegressor(MultiTaskRegressor, _SharedMoments):
    """Ridge regression of every site under the common model that the other sites' rows give.

    The unit is one row of one site: this is for a few to a few thousand sites of many rows each,
    which together hide every single row and need not hide that they took part.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget of a row; ``float("inf")`` learns together without privacy.
    delta : "auto" or float
        "auto" is min(1e-5, 1/n²) for n rows of all sites; 0 asks for pure ε.
    mechanism : "auto", "gaussian" or "two-sided-wishart"
        Noise of the moments; "auto" is Gaussian where δ > 0.
    aggregation : "untrusted", "trusted" or "secure"
        "untrusted": every site adds the noise to its own sums. "trusted": the curator adds it once,
        to the sum of all sites. "secure": every site adds a share of that noise and a protocol
        for secure sums shows the curator the total alone; with δ > 0.
    min_honest : "auto" or int
        With "secure": how many sites at least keep message and share to themselves; "auto" is a
        majority. Fewer mean larger shares.
    row_norm : "auto" or float
        Public limit of a row's norm; longer ones are scaled down. "auto" is √d, for features of
        about unit size.
    target_bound : float, default 1.0
        Public limit of the target's size; larger ones are clipped in what is sent, never at
        home. Subtract a public centre from y first.
    n_moments : "auto", 1 or 2
        How often moments are sent; "auto" is 2 for regression; for classification public
        numbers decide.
    gate : bool, default True
        Decide from the public numbers of rows, before anything is spent, whether to send at all.
    fit_intercept : bool, default True
        Fit an unpenalised intercept for each site, at home.
    ledger, data, random_state, engine, progress
        As in every private estimator.
    unknown_task : "error" or "shared"
        "shared" answers sites it has not seen with the released common model.

    Guarantee: (ε, δ) joint differential privacy with the row as unit, under replace-one with public
    numbers of rows; see `tacit.protocols.shared_moments.SharedMomentsProtocol`.
    """


class SharedMomentsClassifier(MultiTaskClassifier, _SharedMoments):
    """Logistic regression of every site under the common model that the other sites' rows give.

    Parameters are those of `SharedMomentsRegressor`; ``target_bound`` has no effect, since classes
    are 0 and 1. What is sent are the statistics of a Newton step: from the shares of the classes,
    and with ``n_moments=2`` again from the model that gave. More than two classes are learned one
    against the rest from the same moments.

    Guarantee: (ε, δ) joint differential privacy with the row as unit, under replace-one with public
    numbers of rows; see `tacit.protocols.shared_moments.SharedMomentsProtocol`.
    """
