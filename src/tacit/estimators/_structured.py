"""What low-rank, group-sparse and decomposed estimators share."""

from __future__ import annotations

import dataclasses
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.estimators._base import Learned, outputs
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._hierarchical import HierarchicalPrior
from tacit.estimators._private import Sizes
from tacit.joint.structured import (
    StructuredFit,
    choose_strength,
    prepare,
    solve_structured,
)
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.numerics.logistic_dual import are_many
from tacit.privacy.accounting import geometric, power
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger
from tacit.privacy.plan import Plan
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Unit
from tacit.protocols._row_protection import RowProtection
from tacit.protocols._theory import theory_rounds, theory_tasks, theory_threshold
from tacit.protocols.hierarchical import HierarchicalPublic
from tacit.protocols.model_protected import ModelProtectedProtocol
from tacit.protocols.protocol import Protocol
from tacit.protocols.proximal_protected import Maps, ProximalProtocol
from tacit.tasks import TaskSet

__all__ = ["StructuredEstimator", "alone"]

PUBLISHED = "wishart-published"
_STRENGTH = {"optimal": 0.005, "soft-threshold": 0.1}


def alone(tasks: TaskSet, loss: Loss, *, fit_intercept: bool) -> StructuredFit:
    """Return the single-task fit: one task by itself has nothing to share."""
    many = are_many(tasks.n_tasks, tasks.n_features)
    fit = local_fit(tasks, loss, intercept=fit_intercept, many=many)
    return StructuredFit(fit.coef, fit.intercept, 0.0)


class StructuredEstimator(HierarchicalPrior):
    """Private by the hierarchical prior or releases of a moment; open by a penalty on all models.

    The hierarchical prior of the estimator's pattern is learned unless noise is too loud for it, or
    a parameter asks for the paper's releases of second moments: an alpha, a clip, a number of
    rounds, an allocation, another update, or protected rows. One release with all of the budget can
    show a direction where some twenty cannot.
    """

    _pattern: ClassVar[str] = "low-rank"
    _parameter_constraints: ClassVar[Constraints] = {
        "mechanism": [
            rule(_check.one_of, choices=("auto", "gaussian", "two-sided-wishart", PUBLISHED))
        ],
        "update": [rule(_check.one_of, choices=("fit", "proximal"))],
        "shrinkage": [rule(_check.one_of, choices=tuple(_STRENGTH))],
        "alpha": ["auto", "theory", rule(_check.positive, remedy='use "auto" or a strength')],
        "n_rounds": [
            "auto",
            "theory",
            rule(_check.positive_integer, remedy='use "auto" or at least 1'),
        ],
        "iterate": [rule(_check.one_of, choices=("last", "average"))],
        "accelerated": [rule(_check.flag)],
        "strong_convexity": [rule(_check.non_negative, remedy="use 0.0 for none")],
        "allocation": ["auto", rule(_check.number, remedy='use "auto", 0 or 0.4')],
        "allocation_ratio": [None, rule(_check.positive, remedy="use None, or a public ratio")],
        "epsilon_rows": [None, rule(_check.positive, remedy="use None for no row protection")],
        "row_norm": [rule(_check.positive, remedy="give a public norm of rows")],
        "target_bound": [None, rule(_check.positive, remedy="give a public bound of |y|")],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        alpha: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
        n_rounds: int | str = "auto",
        update: str = "fit",
        shrinkage: str = "optimal",
        iterate: str = "last",
        accelerated: bool = True,
        strong_convexity: float = 0.0,
        allocation: float | str = "auto",
        allocation_ratio: float | None = None,
        fit_intercept: bool = True,
        epsilon_rows: float | None = None,
        row_norm: float = 1.0,
        target_bound: float | None = None,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.mechanism = mechanism
        self.clip = clip
        self.n_rounds = n_rounds
        self.update = update
        self.shrinkage = shrinkage
        self.iterate = iterate
        self.accelerated = accelerated
        self.strong_convexity = strong_convexity
        self.allocation = allocation
        self.allocation_ratio = allocation_ratio
        self.fit_intercept = fit_intercept
        self.epsilon_rows = epsilon_rows
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_published()
        self._check_theory()
        self._check_rows()

    def _check_published(self) -> None:
        if self.mechanism == PUBLISHED and (self.clip == "auto" or self.update != "proximal"):
            raise InvalidInput(
                f'mechanism={PUBLISHED!r}: reproduces the printed algorithm; use update="proximal" '
                "and give its clip"
            )
        if self.shrinkage == "soft-threshold" and self.update != "proximal":
            raise InvalidInput(
                'shrinkage="soft-threshold": is a map of update="proximal"; use that or "optimal"'
            )

    def _check_theory(self) -> None:
        if self.n_rounds == "theory" and self.update != "proximal":
            raise InvalidInput('n_rounds="theory": is for update="proximal"; use that or "auto"')
        wrong = [
            name
            for name, asked in (
                ('alpha="theory"', self.alpha == "theory" and not (self._soft and self._private)),
                ('iterate="average"', self.iterate == "average" and not self._soft),
            )
            if asked
        ]
        if wrong:
            raise InvalidInput(
                f'{wrong[0]}: is for private rounds, update="proximal" with '
                'shrinkage="soft-threshold"; use those, or the default'
            )

    @property
    def _soft(self) -> bool:
        """Whether the paper's own map is asked for."""
        printed = self.mechanism == PUBLISHED or self.shrinkage == "soft-threshold"
        return self.update == "proximal" and printed

    def _check_rows(self) -> None:
        if self.epsilon_rows is None:
            return
        if self.update != "fit" or self.clip != "auto" or not self._private:
            raise InvalidInput(
                f"epsilon_rows={self.epsilon_rows!r}: needs a finite epsilon for the tasks, "
                'update="fit" and clip="auto"'
            )
        if self._loss.name == "squared" and self.target_bound is None:
            raise InvalidInput("target_bound=None: epsilon_rows needs a public bound on |y|")

    def _rounds(self, sizes: Sizes, exponent: float = 0.0, ratio: float | None = None) -> int:
        if self.n_rounds == "auto":
            return 1 if self.update == "fit" else 10
        if self.n_rounds == "theory":
            return theory_rounds(
                sizes.n_tasks,
                sizes.n_features,
                self.epsilon,
                self._delta(sizes.n_tasks),
                diagonal=self._pattern == "group-sparse",
                accelerated=self.accelerated,
                exponent=exponent,
                ratio=ratio,
                rate=self._rate,
            )
        return int(self.n_rounds)

    @property
    def _rate(self) -> float:
        """μ/L, with L the public curvature of rows of norm ``row_norm``."""
        if self.strong_convexity == 0:
            return 0.0
        curvature = self._loss.curvature * self.row_norm**2 + self.strong_convexity
        return float(self.strong_convexity / curvature)

    def _shares(self, sizes: Sizes) -> Array:
        """Return the budget's weights over the rounds, from public quantities only.

        The optimal exponents and ratios of the paper: Theorem 6, and with ``delta=0`` Theorem 11 of
        its supplement.
        """
        pure = self._delta(sizes.n_tasks) == 0
        if self.allocation_ratio is not None:
            ratio = self.allocation_ratio
            return geometric(self._rounds(sizes, ratio=ratio), ratio)
        if self.allocation != "auto":
            exponent = float(self.allocation)
            return power(self._rounds(sizes, exponent), exponent)
        if self.update == "fit":
            return power(self._rounds(sizes))
        if self._rate > 0:
            power_of_rate = 2 / 3 if pure else 2 / 5
            base = (1 - self._rate**0.5) ** 0.5 if self.accelerated else 1 - self._rate
            ratio = base**power_of_rate
            return geometric(self._rounds(sizes, ratio=ratio), ratio)
        exponent = (2 / 3 if pure else 2 / 5) if self.accelerated else 0.0
        return power(self._rounds(sizes, exponent), exponent)

    def plan(
        self,
        n_tasks: int,
        n_features: int,
        *,
        n_outputs: int = 1,
        n_rows: int | None = None,
    ) -> Plan:
        """Return what a fit would release and cost, and how many tasks Assumption 1 asks for.

        The assumption is that of the paper's utility theorems, with its constant taken as 1: an
        order of magnitude from which on their bounds say something, no threshold of use.
        """
        planned = super().plan(n_tasks, n_features, n_outputs=n_outputs, n_rows=n_rows)
        if not self._private:
            return planned
        needed = theory_tasks(
            n_features,
            self.epsilon,
            self._delta(n_tasks),
            diagonal=self._pattern == "group-sparse",
        )
        return dataclasses.replace(planned, tasks_needed=needed)

    @property
    def _asked_for_moments(self) -> bool:
        chosen = (self.alpha, self.clip, self.n_rounds, self.allocation)
        if any(value != "auto" for value in chosen) or self.update != "fit":
            return True
        return self.allocation_ratio is not None or self.epsilon_rows is not None

    def _settings(self, sizes: Sizes) -> dict[str, Any]:
        return {
            "loss": self._loss,
            "n_tasks": sizes.n_tasks,
            "n_features": sizes.n_features,
            "n_outputs": sizes.n_outputs,
            "shares": tuple(float(w) for w in self._shares(sizes)),
            "clip": None if self.clip == "auto" else float(self.clip),
            "diagonal": self._pattern == "group-sparse",
            "fit_intercept": self.fit_intercept,
        }

    def _protocol(self, sizes: Sizes) -> Protocol[Any, Any]:
        if not self._asked_for_moments:
            hierarchical = self._hierarchical(sizes, pattern=self._pattern)
            if hierarchical.rounds():
                return hierarchical
        if self.update == "fit":
            return ModelProtectedProtocol(**self._settings(sizes), rows=self._row_protection(sizes))
        return ProximalProtocol(**self._settings(sizes), **self._proximal_settings(sizes))

    def _strength(self, sizes: Sizes) -> float:
        if self.alpha == "theory":
            clip = 1.0 if self.clip == "auto" else float(self.clip)
            return theory_threshold(sizes.n_tasks, sizes.n_features, clip)
        return _STRENGTH[self.shrinkage] if self.alpha == "auto" else float(self.alpha)

    def _proximal_settings(self, sizes: Sizes) -> dict[str, Any]:
        printed = self.mechanism == PUBLISHED
        return {
            "strength": self._strength(sizes),
            "shrinkage": "soft-threshold" if printed else self.shrinkage,
            "accelerated": self.accelerated,
            "strong_convexity": float(self.strong_convexity),
            "as_printed": printed,
            "average": self.iterate == "average",
        }

    def _row_protection(self, sizes: Sizes) -> RowProtection | None:
        if self.epsilon_rows is None:
            return None
        bound = None if self._loss.name == "logistic" else self.target_bound
        return RowProtection(sizes.n_outputs, float(self.row_norm), bound)

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        """Calibrate the rounds of either unit for its own budget."""
        if self.epsilon_rows is None:
            return super()._schedule(protocol, sizes)
        first, *others = protocol.rounds()
        tasks = Schedule.calibrate(
            others,
            epsilon=self.epsilon,
            delta=self._delta(sizes.n_tasks),
            mechanism=self.mechanism,
        )
        rows = Schedule.calibrate(
            [first], epsilon=float(self.epsilon_rows), delta=self._delta(sizes.n_tasks)
        )
        return rows.joined(tasks)

    def _total(self, sizes: Sizes) -> tuple[float, float]:
        # δ is that of the tasks for rows too: how many rows there are is not public.
        epsilon, delta = super()._total(sizes)
        if self.epsilon_rows is None:
            return epsilon, delta
        return max(epsilon, float(self.epsilon_rows)), delta

    def _read_public(self, public: Any, sizes: Sizes) -> dict[str, Any]:
        if isinstance(public, HierarchicalPublic):
            found = self._shared_model(public, sizes)
            if public.covariance is not None:
                found["extra"] = {"shared_covariance_": public.covariance}
            return found
        moment = public.moment if isinstance(public, Maps) else public
        if moment.shape is None:
            return {}
        return {"extra": {"shared_covariance_": moment.shape.covariance()}}

    def _statements(self, schedule: Schedule, billboard: Billboard, sizes: Sizes) -> dict[str, Any]:
        found = super()._statements(schedule, billboard, sizes)
        if self.epsilon_rows is None:
            return found
        rows = Statement.of_run(
            billboard,
            unit=Unit.ROW,
            definition="joint differential privacy",
            adjacency=schedule.adjacency,
            delta=self._delta(sizes.n_tasks),
            curator=schedule.trust(Unit.ROW),
            assumptions=(
                "the number of rows of every task stays the same",
                f"rows were clipped to norm {self.row_norm:g} before anything was sent",
            ),
            not_protected=self._not_protected,
        )
        task = found["privacy_"]
        words = (*task.assumptions, _row_text(rows))
        return {"privacy_": dataclasses.replace(task, assumptions=words), "row_privacy_": rows}

    def _learn_open(self, tasks: TaskSet, targets: Array) -> Learned:
        fits = [
            alone(output, self._loss, fit_intercept=self.fit_intercept)
            if tasks.n_tasks == 1 and self.alpha == "auto"
            else self._open_fit(output)
            for output in outputs(tasks, targets)
        ]
        return Learned(
            coef=np.stack([fit.coef for fit in fits], axis=1),
            intercept=np.stack([fit.intercept for fit in fits], axis=1),
            statement=Statement.non_private(n_units=tasks.n_tasks),
            extra={"alpha_": np.array([fit.strength for fit in fits])},
        )

    def _open_fit(self, tasks: TaskSet) -> StructuredFit:
        strength = (
            choose_strength(tasks, self._loss, self._pattern, fit_intercept=self.fit_intercept)
            if self.alpha == "auto"
            else float(self.alpha)
        )
        ready = prepare(tasks, self._loss, fit_intercept=self.fit_intercept)
        W = solve_structured(ready, self._pattern, strength)
        return ready.restored(W, strength)


def _row_text(statement: Statement) -> str:
    return (
        f"besides, every single row is protected against all others, the curator included, with "
        f"ε = {statement.epsilon:g} at δ = {statement.delta:.3g} (see row_privacy_)"
    )
