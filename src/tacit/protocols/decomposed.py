"""Shared part plus own part: w_i = p_i + q_i (supplement, Algorithm 4 and its remark).

The message, its bound, the release and the shape are those of `ModelProtectedProtocol`. At home a
task then solves

    min L_i(p + q) + (α/2) pᵀ C⁻¹ p + β·penalty(q),

C being the released shape and the penalty of q the ℓ1 norm ("entries"), the ℓ2 norm of the whole
vector ("tasks": a task is an outlier or is not) or a ridge. β, whether q is used at all, and
whether the task does better on its own, are weighed by its own cross-validated errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit._rows import row_dots
from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.buckets import task_products
from tacit.numerics.descent import proximal_gradient
from tacit.numerics.local_fit import leave_one_out_weights
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.objective import Objective
from tacit.penalties import OWN_PENALTIES, Penalty, Ridge
from tacit.protocols._home import Outputs, fitted
from tacit.protocols._shrinkage import Shape
from tacit.protocols.model_protected import (
    ModelProtectedHome,
    ModelProtectedProtocol,
    candidate_priors,
)
from tacit.protocols.proximal_protected import (
    Maps,
    ProximalHome,
    ProximalProtocol,
)
from tacit.tasks import TaskSet

__all__ = ["DecomposedProtocol", "ProximalDecomposedProtocol", "SplitPenalty"]

_FLOOR_SHARE = 0.02
_SHARED_STRENGTH = 0.03
_OWN_STRENGTHS = (0.1, 0.03)
_INTERCEPT_RIDGE = 1e-4
_FOLDS = 3
_ROUNDS = 40


@dataclass(frozen=True)
class SplitPenalty:
    """Different penalties on consecutive blocks of columns of W."""

    parts: tuple[tuple[Penalty, int], ...]
    strength: float = 1.0

    @property
    def task_separable(self) -> bool:
        """Whether every part is a sum of one term per task."""
        return all(penalty.task_separable for penalty, _ in self.parts)

    def _blocks(self, W: Array) -> Iterator[tuple[Penalty, Array]]:
        first = 0
        for penalty, width in self.parts:
            yield penalty, W[:, first : first + width]
            first += width

    def value(self, W: Array) -> float:
        """Penalty of all models together."""
        return sum(penalty.value(block) for penalty, block in self._blocks(W))

    def prox(self, W: Array, step: float | Array) -> Array:
        """Minimiser of ``½‖· − W‖² + step · value(·)``, block by block."""
        return np.concatenate([p.prox(block, step) for p, block in self._blocks(W)], axis=1)


@dataclass(frozen=True)
class _Home:
    """A stack of tasks in coordinates (p̃, q[, intercept]): p = S p̃ with C = S Sᵀ.

    Rows are scaled task by task to mean squared norm d, targets of the squared loss to variance 1;
    all of it is local.
    """

    objective: Objective
    root: Array
    x_mean: Array
    x_scale: Array
    y_mean: Array
    y_scale: Array
    appended: bool

    @classmethod
    def build(cls, tasks: TaskSet, loss: Loss, root: Array, *, fit_intercept: bool) -> _Home:
        X, y = np.asarray(tasks.X, dtype=np.float64), np.asarray(tasks.y, dtype=np.float64)
        counts, index = tasks.counts, tasks.task_of_row
        x_mean, y_mean = np.zeros((tasks.n_tasks, X.shape[1])), np.zeros(tasks.n_tasks)
        y_scale = np.ones(tasks.n_tasks)
        squared = loss.name == "squared"
        if fit_intercept:
            x_mean = tasks.task_sums(X) / counts[:, None]
            X = X - x_mean[index]
        if squared:
            if fit_intercept:
                y_mean = tasks.task_sums(y) / counts
            y = y - y_mean[index]
            spread = np.sqrt(tasks.task_sums(y * y) / counts)
            y_scale = np.where(spread > 0, spread, 1.0)
            y = y / y_scale[index]
        energy = tasks.task_sums(row_dots(X, X)) / (counts * X.shape[1])
        x_scale = np.sqrt(np.where(energy > 0, energy, 1.0))
        X = X / x_scale[index][:, None]
        appended = fit_intercept and not squared
        blocks = [task_products(X, tasks.offsets, root), X]
        blocks += [np.ones((len(X), 1))] if appended else []
        rows = TaskSet.from_arrays(np.hstack(blocks), y, index)
        return cls(Objective(rows, loss), root, x_mean, x_scale, y_mean, y_scale, appended)

    def solve(self, own: str, alpha: float, beta: float, start: Array | None) -> Array:
        """Return (m, 2d [+ 1]) solutions in these coordinates."""
        d = self.root.shape[0]
        parts: list[tuple[Penalty, int]] = [(Ridge(alpha), self.root.shape[1])]
        parts.append((OWN_PENALTIES[own](beta), d))
        if self.appended:
            parts.append((Ridge(_INTERCEPT_RIDGE), 1))
        # A fixed number of rounds and steps of the task's own: a stopping rule over all tasks would
        # carry one task's data into another's model.
        curvature = self.objective.curvature()
        return proximal_gradient(
            self.objective,
            SplitPenalty(tuple(parts)),
            start=start,
            step=1 / np.where(curvature > 0, curvature, 1.0),
            max_rounds=_ROUNDS,
            tolerance=0.0,
        ).W

    def models(self, V: Array) -> Array:
        """Return (m, d + 1) models in the units of the data, the intercept last."""
        d, r = self.root.shape
        coef = (V[:, None, :r] @ self.root.T)[:, 0] + V[:, r : r + d]
        coef = coef * (self.y_scale / self.x_scale)[:, None]
        level = V[:, -1] if self.appended else self.y_mean
        return np.column_stack([coef, level - row_dots(coef, self.x_mean)])


@dataclass(frozen=True)
class DecomposedProtocol(ModelProtectedProtocol):
    """`ModelProtectedProtocol` with a part q of its own for every task.

    Guarantee: that of `ModelProtectedProtocol`; q is computed at home and never sent.
    """

    sparse: str = "entries"

    def under(self, home: ModelProtectedHome, shape: Shape) -> Array:
        """Return every task's models under a shape that stands out."""
        return self.decomposed(home.outputs, shape)

    def decomposed(self, outputs: Outputs, shape: Shape) -> Array:
        """Return p + q of every task and output, (m, k, d + 1)."""
        return np.stack([self._one_output(rows, shape) for rows in outputs], axis=1)

    def _one_output(self, tasks: TaskSet, shape: Shape) -> Array:
        errors = self._validation_errors(tasks, shape)
        weights = leave_one_out_weights(errors, tasks.counts, self.loss)
        candidates = self._candidates(tasks, shape)
        return sum(weight[:, None] * W for weight, W in zip(weights, candidates, strict=True))

    def _candidates(self, tasks: TaskSet, shape: Shape) -> Iterator[Array]:
        """Yield models (m, d + 1) to weigh: on its own, with q = 0, then p + q by strengths."""
        many = are_many(self.n_tasks, self.n_features)
        for known in (None, shape):
            priors = [candidate_priors(known)]
            models = fitted((tasks,), self.loss, priors, intercept=self.fit_intercept, many=many)
            yield models[:, 0]
        values, vectors = np.linalg.eigh(shape.covariance(_FLOOR_SHARE))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        home = _Home.build(tasks, self.loss, root, fit_intercept=self.fit_intercept)
        for V in self._path(home):
            yield home.models(V)

    def _path(self, home: _Home) -> Iterator[Array]:
        V = None
        for beta in _OWN_STRENGTHS:
            V = home.solve(self.sparse, _SHARED_STRENGTH, beta, V)
            yield V

    def _validation_errors(self, tasks: TaskSet, shape: Shape) -> Array:
        """Return mean held-out losses (candidates, m); tasks of one row see no difference."""
        size = 2 + len(_OWN_STRENGTHS)
        errors, seen = np.zeros((size, tasks.n_tasks)), np.zeros(tasks.n_tasks)
        position = {name: number for number, name in enumerate(tasks.names)}
        # Rows are dealt to folds task by task; a shared shuffle would depend on others' rows.
        rank = np.arange(tasks.n_rows) - tasks.offsets[tasks.task_of_row]
        fold = np.where(tasks.counts[tasks.task_of_row] > 1, rank % _FOLDS, -1)
        for number_held in range(_FOLDS):
            if not (fold == number_held).any():
                continue
            train = tasks.take_rows(fold != number_held)
            held = tasks.take_rows(fold == number_held)
            index = np.array([position[name] for name in held.names])[held.task_of_row]
            np.add.at(seen, index, 1.0)
            for number, models in enumerate(self._candidates(train, shape)):
                W = models[index]
                z = row_dots(held.X, W[:, :-1]) + W[:, -1]
                loss = self.loss.value(z, np.asarray(held.y, dtype=np.float64))
                np.add.at(errors[number], index, loss)
        return np.where(seen > 0, errors / np.maximum(seen, 1.0), 1.0)


@dataclass(frozen=True)
class ProximalDecomposedProtocol(ProximalProtocol):
    """`ProximalProtocol` whose "optimal" form ends with the whole fit at home, q included.

    Guarantee: that of `ProximalProtocol`; q is computed at home and never sent.
    """

    sparse: str | None = "entries"

    def finish(self, home: ProximalHome, public: Maps) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        shape = public.moment.shape
        if self.shrinkage != "optimal" or self.sparse is None or shape is None or shape.flat:
            return super().finish(home, public)
        fits = DecomposedProtocol(
            self.loss,
            self.n_tasks,
            self.n_features,
            fit_intercept=self.fit_intercept,
            sparse=self.sparse,
        )
        return fits.decomposed(home.outputs, shape)
