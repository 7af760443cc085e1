"""Multi-task learning with a structured penalty on all models together, without privacy.

Minimises Σ_i L_i(w_i) + λ·penalty(W) by accelerated proximal gradient (Ji & Ye 2009 for the trace
norm, Liu et al. 2009 for ℓ2,1). Rows are centred within their task (intercepts are not penalised)
and columns scaled to unit variance over all rows, so that λ means the same in any unit. λ is chosen
by cross-validation within tasks along a warm-started path from the λ that makes all models zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.descent import proximal_gradient
from tacit.numerics.objective import Objective
from tacit.penalties import SHARED_PENALTIES, Penalty
from tacit.tasks import TaskSet

__all__ = [
    "OnFeatures",
    "Prepared",
    "StructuredFit",
    "choose_strength",
    "held_out_error",
    "largest_strength",
    "prepare",
    "solve_structured",
    "validation_folds",
]

# Keeps the intercept of a task with one class finite; for a few rows it is a prior of two log-odds.
_INTERCEPT_RIDGE, _LEVEL_PRECISION = 1e-3, 0.25
_PATH = np.logspace(-0.25, -3.5, 14)
_PATIENCE = 3


@dataclass(frozen=True)
class StructuredFit:
    """Models (m, d) and intercepts (m,) in the units of the data, and the strength used."""

    coef: Array
    intercept: Array
    strength: float


@dataclass(frozen=True)
class OnLevels:
    """Half the squared intercepts (m, 1), each times a ridge of its task (m, 1)."""

    ridge: Array
    task_separable: ClassVar[bool] = True
    strength: ClassVar[float] = 1.0

    def value(self, W: Array) -> float:
        """Penalty of all intercepts."""
        return 0.5 * float(np.sum(self.ridge * W**2))

    def prox(self, W: Array, step: float | Array) -> Array:
        """Minimiser of ``½‖· − W‖² + step · value(·)``."""
        return np.asarray(W / (1 + np.asarray(step * self.ridge, dtype=W.dtype)))


@dataclass(frozen=True)
class Prepared:
    """Rows ready for a penalty, and the way back to the units of the data.

    For the squared loss targets are centred too; for others a last column of ones is appended.
    """

    objective: Objective
    x_mean: Array  # (m, d)
    spread: Array  # (d,)
    level: Array  # (m,) mean of the targets
    appended: bool

    @property
    def n_features(self) -> int:
        """Number of features without the intercept column."""
        return len(self.spread)

    @property
    def levels(self) -> OnLevels:
        """The penalty of an appended intercept column: losses are means, so that few rows weigh."""
        counts = self.objective.tasks.counts[:, None]
        return OnLevels(np.maximum(_LEVEL_PRECISION / counts, _INTERCEPT_RIDGE))

    def restored(self, W: Array, strength: float) -> StructuredFit:
        """Return models in the units of the data."""
        coef = np.asarray(W[:, : self.n_features], dtype=np.float64) / self.spread
        level = W[:, -1] if self.appended else self.level
        return StructuredFit(coef, level - np.einsum("md,md->m", coef, self.x_mean), strength)


def prepare(tasks: TaskSet, loss: Loss, *, fit_intercept: bool) -> Prepared:
    """Centre rows within tasks and scale columns over all rows."""
    X = np.asarray(tasks.X, dtype=np.float64)
    y = np.asarray(tasks.y, dtype=np.float64)
    x_mean = np.zeros((tasks.n_tasks, X.shape[1]))
    level = np.zeros(tasks.n_tasks)
    if fit_intercept:
        x_mean = tasks.task_sums(X) / tasks.counts[:, None]
        X = X - x_mean[tasks.task_of_row]
        if loss.name == "squared":
            level = tasks.task_sums(y) / tasks.counts
            y = y - level[tasks.task_of_row]
    spread = np.sqrt(np.mean(X * X, axis=0))
    spread = np.where(spread > 1e-12 * max(float(spread.max(initial=0.0)), 1e-300), spread, 1.0)
    ready = tasks.replace(X=X / spread, y=y)
    appended = fit_intercept and loss.name != "squared"
    ready = ready.with_intercept() if appended else ready
    return Prepared(Objective(ready, loss), x_mean, spread, level, appended)


@dataclass(frozen=True)
class OnFeatures:
    """A penalty on the features only; an appended intercept column has its own."""

    inner: Penalty
    n_features: int
    levels: OnLevels
    task_separable: ClassVar[bool] = False

    @property
    def strength(self) -> float:
        """Multiplier of the penalty."""
        return self.inner.strength

    def value(self, W: Array) -> float:
        """Penalty of all models together."""
        d = self.n_features
        return self.inner.value(W[:, :d]) + self.levels.value(W[:, d:])

    def prox(self, W: Array, step: float | Array) -> Array:
        """Minimiser of ``½‖· − W‖² + step · value(·)``."""
        d = self.n_features
        return np.hstack([self.inner.prox(W[:, :d], step), self.levels.prox(W[:, d:], step)])


def largest_strength(ready: Prepared, pattern: str) -> float:
    """Return the least strength that makes all models zero: the dual norm of the gradient there."""
    gradient = ready.objective.gradient(np.zeros(ready.objective.shape))[:, : ready.n_features]
    if pattern == "low-rank":
        return max(float(np.linalg.norm(gradient, 2)), 1e-12)
    return max(float(np.linalg.norm(gradient, axis=0).max(initial=0.0)), 1e-12)


def solve_structured(
    ready: Prepared,
    pattern: str,
    strength: float,
    *,
    start: Array | None = None,
    max_rounds: int = 500,
    tolerance: float = 1e-4,
) -> Array:
    """Return the models (m, d or d + 1) of prepared rows."""
    penalty = OnFeatures(SHARED_PENALTIES[pattern](strength), ready.n_features, ready.levels)
    return proximal_gradient(
        ready.objective,
        penalty,
        start=start,
        max_rounds=max_rounds,
        tolerance=tolerance,
    ).W


def validation_folds(tasks: TaskSet, *, n_folds: int = 5) -> Iterator[tuple[TaskSet, TaskSet]]:
    """Yield folds within tasks; none where no task has two rows."""
    most = int(tasks.counts.max())
    if most < 2:
        return
    yield from tasks.kfold(min(n_folds, most), random_state=0)


def held_out_error(fit: StructuredFit, tasks: TaskSet, held: TaskSet, loss: Loss) -> float:
    """Return the summed loss of held-out rows; ``held`` may lack some of the tasks."""
    position = {name: number for number, name in enumerate(tasks.names)}
    index = np.array([position[name] for name in held.names])[held.task_of_row]
    z = np.einsum("nd,nd->n", held.X, fit.coef[index]) + fit.intercept[index]
    return float(np.sum(loss.value(z, np.asarray(held.y, dtype=np.float64))))


def choose_strength(tasks: TaskSet, loss: Loss, pattern: str, *, fit_intercept: bool) -> float:
    """Return the strength with the least cross-validated loss, along a warm-started path.

    A fold's path ends once the error, over all folds, can no longer be the least: after three
    strengths in a row without improvement.
    """
    full = prepare(tasks, loss, fit_intercept=fit_intercept)
    strengths = largest_strength(full, pattern) * _PATH
    folds = [
        (train, held, prepare(train, loss, fit_intercept=fit_intercept))
        for train, held in validation_folds(tasks)
    ]
    if not folds:
        return float(strengths[len(strengths) // 2])
    return _walk(strengths, _path_errors(folds, loss, pattern, strengths))


def _path_errors(
    folds: list[tuple[TaskSet, TaskSet, Prepared]], loss: Loss, pattern: str, strengths: Array
) -> Callable[[int], float]:
    """Return a function of the path's index that continues every fold's path by one strength."""
    starts: list[Array | None] = [None] * len(folds)

    def error(number: int) -> float:
        total = 0.0
        for fold, (train, held, ready) in enumerate(folds):
            W = solve_structured(
                ready,
                pattern,
                float(strengths[number]),
                start=starts[fold],
                max_rounds=100,
                tolerance=2e-3,
            )
            starts[fold] = W
            fit = ready.restored(W, float(strengths[number]))
            total += held_out_error(fit, train, held, loss)
        return total

    return error


def _walk(strengths: Array, error: Callable[[int], float]) -> float:
    best, least, since = 0, np.inf, 0
    for number in range(len(strengths)):
        value = error(number)
        if value < least:
            best, least, since = number, value, 0
        else:
            since += 1
        if since >= _PATIENCE:
            break
    return float(strengths[best])
