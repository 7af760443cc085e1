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
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.joint.structured import (
    StructuredFit,
    choose_strength,
    prepare,
    solve_structured,
)
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.privacy.accounting import geometric, power
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Unit
from tacit.protocols._row_protection import RowProtection
from tacit.protocols.model_protected import ModelProtectedProtocol
from tacit.protocols.protocol import Protocol
from tacit.protocols.proximal_protected import Maps, ProximalProtocol
from tacit.tasks import TaskSet

__all__ = ["StructuredEstimator", "alone"]

PUBLISHED = "wishart-published"
_STRENGTH = {"optimal": 0.005, "soft-threshold": 0.1}


def alone(tasks: TaskSet, loss: Loss, *, fit_intercept: bool) -> StructuredFit:
    """Return the single-task fit: one task by itself has nothing to share."""
    fit = local_fit(tasks, loss, intercept=fit_intercept)
    return StructuredFit(fit.coef, fit.intercept, 0.0)


class StructuredEstimator(PrivateEstimator):
    """Private by one or more releases of a second moment; open by a penalty on all models."""

    _pattern: ClassVar[str] = "low-rank"
    _parameter_constraints: ClassVar[Constraints] = {
        "mechanism": [
            rule(_check.one_of, choices=("auto", "gaussian", "two-sided-wishart", PUBLISHED))
        ],
        "update": [rule(_check.one_of, choices=("fit", "proximal"))],
        "shrinkage": [rule(_check.one_of, choices=tuple(_STRENGTH))],
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

    @property
    def _rounds(self) -> int:
        if self.n_rounds == "auto":
            return 1 if self.update == "fit" else 10
        return int(self.n_rounds)

    def _shares(self, delta: float) -> Array:
        """Return the budget's weights over the rounds, from public quantities only.

        The optimal exponents and ratios of the paper: Theorem 6, and with ``delta=0`` Theorem 11 of
        its supplement. L is the public curvature of rows of norm ``row_norm``.
        """
        if self.allocation_ratio is not None:
            return geometric(self._rounds, self.allocation_ratio)
        if self.allocation != "auto":
            return power(self._rounds, float(self.allocation))
        if self.update == "fit":
            return power(self._rounds)
        if self.strong_convexity > 0:
            rate = self.strong_convexity / (
                self._loss.curvature * self.row_norm**2 + self.strong_convexity
            )
            power_of_rate = 2 / 5 if delta > 0 else 2 / 3
            base = (1 - rate**0.5) ** 0.5 if self.accelerated else 1 - rate
            return geometric(self._rounds, base**power_of_rate)
        if not self.accelerated:
            return power(self._rounds)
        return power(self._rounds, 2 / 5 if delta > 0 else 2 / 3)

    def _settings(self, sizes: Sizes) -> dict[str, Any]:
        return {
            "loss": self._loss,
            "n_tasks": sizes.n_tasks,
            "n_features": sizes.n_features,
            "n_outputs": sizes.n_outputs,
            "shares": tuple(float(w) for w in self._shares(self._delta(sizes.n_tasks))),
            "clip": None if self.clip == "auto" else float(self.clip),
            "diagonal": self._pattern == "group-sparse",
            "fit_intercept": self.fit_intercept,
        }

    def _protocol(self, sizes: Sizes) -> Protocol[Any, Any]:
        if self.update == "fit":
            return ModelProtectedProtocol(**self._settings(sizes), rows=self._row_protection(sizes))
        return ProximalProtocol(**self._settings(sizes), **self._proximal_settings())

    def _proximal_settings(self) -> dict[str, Any]:
        strength = _STRENGTH[self.shrinkage] if self.alpha == "auto" else float(self.alpha)
        printed = self.mechanism == PUBLISHED
        return {
            "strength": strength,
            "shrinkage": "soft-threshold" if printed else self.shrinkage,
            "accelerated": self.accelerated,
            "strong_convexity": float(self.strong_convexity),
            "as_printed": printed,
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

    def _read_public(self, public: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ARG002
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
