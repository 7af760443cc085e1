"""A prior learned from all tasks, a personal fit under it."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from tacit import _check
from tacit.errors import InvalidInput
from tacit.estimators._base import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.privacy.ledger import Ledger
from tacit.protocols.shared_prior import SharedPriorProtocol, SharedPriorPublic

__all__ = ["SharedPriorClassifier", "SharedPriorRegressor"]

_MECHANISMS = ("auto", "gaussian", "two-sided-wishart")


class _SharedPrior(PrivateEstimator):
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
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
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.clip != "auto":
            _check.positive("clip", self.clip, remedy='use clip="auto" or a public radius')
        _check.one_of("mechanism", self.mechanism, _MECHANISMS)
        if self.delta == 0 and self.mechanism == "gaussian":
            raise InvalidInput(
                'mechanism="gaussian": has no pure ε; use delta > 0 or mechanism="auto"'
            )

    def _protocol(self, sizes: Sizes) -> SharedPriorProtocol:
        return SharedPriorProtocol(
            loss=self._loss,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_outputs=sizes.n_outputs,
            clip=None if self.clip == "auto" else float(self.clip),
            fit_intercept=self.fit_intercept,
            share_intercept=self.unknown_task == "shared" and self.fit_intercept,
        )

    def _read_public(self, public: SharedPriorPublic, sizes: Sizes) -> dict[str, Any]:
        if self.unknown_task != "shared":
            return {}
        mean, levels = public.mean, public.intercepts
        empty = np.zeros((sizes.n_outputs, sizes.n_features))
        return {
            "shared_coef": empty if mean is None else mean,
            "shared_intercept": np.zeros(sizes.n_outputs) if levels is None else levels,
        }


class SharedPriorRegressor(MultiTaskRegressor, _SharedPrior):
    """Ridge regression of every task under a Gaussian prior learned from all tasks.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget; ``float("inf")`` learns together without privacy.
    delta : "auto" or float
        "auto" is min(1e-5, 1/m²) for m tasks; 0 asks for pure ε.
    mechanism : "auto", "gaussian" or "two-sided-wishart"
        Noise of the second moment; "auto" is Gaussian where δ > 0. The pure one goes with Laplace
        noise on the ballots.
    clip : "auto" or float
        "auto" sends directions of models and settles their length by a ballot. A number is a
        public radius of a model: no ballot is needed then.
    fit_intercept : bool, default True
        Fit an unpenalised intercept for each task, at home.
    ledger : Ledger, path or None
        Where the spend is recorded before anything is released.
    data : str or None
        The ledger's name for these rows; None counts on every line. See `Ledger`.
    random_state : int or None
        For tests only: a value makes the noise repeatable and the statement say "not private".
    engine : "local"
    progress : callable(round, n_rounds) or None
    unknown_task : "error" or "shared"
        "shared" spends a further small share of the budget on a ballot on the intercept, and
        answers tasks it has not seen with the released mean model.

    Features should have comparable, publicly known scales (percentages as fractions, say): noise
    is the same in every direction of the model.

    Guarantee: (ε, δ) joint differential privacy with the task as unit, under replace-one; see
    `tacit.protocols.shared_prior.SharedPriorProtocol`.
    """


class SharedPriorClassifier(MultiTaskClassifier, _SharedPrior):
    """Logistic regression of every task under a Gaussian prior learned from all tasks.

    Parameters are those of `SharedPriorRegressor`. More than two classes are learned one against
    the rest; a task's models of all classes are one message.

    Guarantee: (ε, δ) joint differential privacy with the task as unit, under replace-one; see
    `tacit.protocols.shared_prior.SharedPriorProtocol`.
    """
