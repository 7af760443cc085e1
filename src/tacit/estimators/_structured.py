"""What low-rank, group-sparse and decomposed estimators share."""

from __future__ import annotations

import dataclasses
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.baselines.structured import (
    StructuredFit,
    choose_strength,
    prepare,
    solve_structured,
)
from tacit.errors import InvalidInput
from tacit.estimators._base import Learned, outputs
from tacit.estimators._private import PrivateEstimator, RowNoise
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.privacy.accounting import geometric, power, scale_gaussian, scale_pure
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.samplers import Entropy, SeededEntropy, SystemEntropy
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.model_protected import (
    ModelProtectedProtocol,
    moment_bound,
    moment_mechanism,
)
from tacit.protocols.protocol import Protocol
from tacit.protocols.proximal_protected import ProximalProtocol
from tacit.protocols.row_protection import RowProtection, row_mechanism
from tacit.tasks import TaskSet

__all__ = ["StructuredEstimator", "alone"]

PUBLISHED = "wishart-published"
_STRENGTH = {"optimal": 0.005, "soft-threshold": 0.1}
_ASSUMPTION = "the number of tasks and the features are public"


def alone(tasks: TaskSet, loss: Loss, *, fit_intercept: bool) -> StructuredFit:
    """Return the single-task fit: one task by itself has nothing to share."""
    fit = local_fit(tasks, loss, intercept=fit_intercept)
    return StructuredFit(fit.coef, fit.intercept, 0.0)


class StructuredEstimator(PrivateEstimator):
    """Private by one or more releases of a second moment; open by a penalty on all models."""

    _pattern: ClassVar[str] = "low-rank"
    _mechanisms: ClassVar[tuple[str, ...]] = ("gaussian", "two-sided-wishart")

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
        engine: str = "local",
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
        if self.alpha != "auto":
            _check.positive("alpha", self.alpha, remedy='use alpha="auto" or a strength')
        if self.clip != "auto":
            _check.positive("clip", self.clip, remedy='use clip="auto" or a public radius')
        if self.n_rounds != "auto":
            _check.positive_integer("n_rounds", self.n_rounds, remedy='use "auto" or at least 1')
        _check.one_of("mechanism", self.mechanism, ("auto", *self._mechanisms, PUBLISHED))
        _check.one_of("update", self.update, ("fit", "proximal"))
        _check.one_of("shrinkage", self.shrinkage, ("optimal", "soft-threshold"))
        _check.non_negative("strong_convexity", self.strong_convexity, remedy="use 0.0 for none")
        _check.positive("row_norm", self.row_norm, remedy="give a public norm of rows")
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
        _check.positive("epsilon_rows", self.epsilon_rows, remedy="use None for no row protection")
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

    def _noise_name(self, delta: float) -> str:
        if self.mechanism != "auto":
            return self.mechanism
        return "gaussian" if delta > 0 else self._mechanisms[-1]

    def _noise(self, n_tasks: int) -> tuple[Mechanism, ...]:
        """Return one calibrated mechanism a round."""
        delta = self._delta(n_tasks)
        shares = self._shares(delta)
        clip = None if self.clip == "auto" else float(self.clip)
        name = self._noise_name(delta)
        if name == "gaussian" and delta == 0:
            raise InvalidInput('delta=0: Gaussian noise has no pure ε; use mechanism="auto"')
        diagonal = self._pattern == "group-sparse" and name != PUBLISHED
        bound = moment_bound(clip, diagonal=diagonal)
        if name == "gaussian":
            strengths = scale_gaussian(shares, self.epsilon, delta)
        else:
            rule = "published" if name == PUBLISHED else "optimal"
            strengths = scale_pure(shares, self.epsilon, delta, bound=rule)
        return tuple(moment_mechanism(name, bound, float(value)) for value in strengths)

    def _settings(self, tasks: TaskSet, targets: Array) -> dict[str, Any]:
        return {
            "loss": self._loss,
            "n_tasks": tasks.n_tasks,
            "mechanisms": self._noise(tasks.n_tasks),
            "n_outputs": targets.shape[1],
            "clip": None if self.clip == "auto" else float(self.clip),
            "diagonal": self._pattern == "group-sparse",
            "fit_intercept": self.fit_intercept,
        }

    def _protocol(self, tasks: TaskSet, targets: Array) -> Protocol[Any]:
        settings = self._settings(tasks, targets)
        if self.update == "fit":
            return ModelProtectedProtocol(**settings, rows=self._row_protection(tasks, targets))
        return ProximalProtocol(**settings, **self._proximal_settings())

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

    def _row_protection(self, tasks: TaskSet, targets: Array) -> RowProtection | None:
        if self.epsilon_rows is None:
            return None
        bound = None if self._loss.name == "logistic" else self.target_bound
        radius = RowProtection.radius(self._loss, self.row_norm, bound, targets.shape[1])
        delta = self._delta(tasks.n_tasks)  # the number of rows is not public
        noise = row_mechanism(radius, epsilon=self.epsilon_rows, delta=delta)
        return RowProtection(noise, self._row_entropy(), self.row_norm, bound)

    def _row_entropy(self) -> Entropy:
        """Return a source apart from the one of the task-level noise."""
        if self.random_state is None:
            return SystemEntropy()
        if isinstance(self.random_state, Entropy):
            return self.random_state
        seed = self.random_state if isinstance(self.random_state, int) else 0
        return SeededEntropy(2**40 + int(seed))

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        if not self._private:
            return self._learn_open(tasks, targets)
        protocol = self._protocol(tasks, targets)
        rows = getattr(protocol, "rows", None)
        noise = None if rows is None else self._row_noise(rows, tasks)
        outcome, statement, billboard = self._run(
            protocol, tasks, assumptions=(_ASSUMPTION,), rows=noise
        )
        extra: dict[str, Any] = {}
        shape = getattr(outcome.state, "shape", None)
        if shape is not None:
            extra["shared_covariance_"] = shape.covariance()
        if rows is not None and noise is not None:
            row_statement = self._row_statement(rows, noise)
            extra["row_privacy_"] = row_statement
            statement = dataclasses.replace(
                statement, assumptions=(*statement.assumptions, _row_text(row_statement))
            )
        return Learned(
            coef=outcome.models[..., :-1],
            intercept=outcome.models[..., -1],
            statement=statement,
            history=outcome.history,
            billboard=billboard,
            extra=extra,
        )

    def _row_noise(self, rows: RowProtection, tasks: TaskSet) -> RowNoise:
        """Return what the noise on rows costs.

        Guarantee: one event for all tasks, as every row is in one task (parallel composition), and
        for all rounds, as they use messages that are made once.
        """
        delta = self._delta(tasks.n_tasks)  # the number of rows is not public
        return RowNoise(rows.mechanism.event, float(self.epsilon_rows or 0.0), delta)

    def _row_statement(self, rows: RowProtection, noise: RowNoise) -> Statement:
        return Statement(
            unit=Unit.ROW,
            definition="joint differential privacy",
            adjacency=Adjacency.REPLACE_ONE,
            epsilon=noise.epsilon,
            delta=noise.delta,
            accountant="gdp" if noise.delta > 0 else "optimal",
            mechanisms=(rows.mechanism.name,),
            n_releases=1,
            seeded=self.random_state is not None,
            curator="untrusted",
            assumptions=(
                "the number of rows of every task stays the same",
                f"rows were clipped to norm {self.row_norm:g} before anything was sent",
            ),
        )

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
