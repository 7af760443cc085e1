"""Every task's mean loss as a function of all models: values, gradients, steps, curvature."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.losses import Loss
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.kernels import choose_kernel, row_predictions, task_chunks
from tacit.numerics.stacks import eigvalsh
from tacit.numerics.threads import batched_map

if TYPE_CHECKING:
    from tacit.tasks import TaskSet

__all__ = ["Objective", "objectives", "row_targets"]

# Eigenvalues of all tasks' Gram matrices are taken up to about two seconds of work.
_EIGEN_WORK = 2e9


class Objective:
    """Mean losses ``L_i(w_i) = (1/n_i) Σ_r ℓ(x_rᵀ w_i, y_r)`` of all tasks.

    Parameters
    ----------
    tasks : TaskSet
        Rows sorted by task.
    loss : Loss
        Loss of one row.
    targets : ndarray of shape (N,), optional
        Targets in the stored order of rows; those of ``tasks`` if absent.
    kernel : {"auto", "numpy", "fused"}
        How gradients are computed.

    Notes
    -----
    Why a fused kernel: a gradient needs 4 flops per number of X, so the round is bound by reading
    X, and every extra pass shows. Time of a gradient step as a multiple of one memory pass
    (``X.sum()``; tasks of 10–60 rows, d = 50, float64): the fused kernel takes 1.9 (squared) and
    2.4 (logistic) of processor time at m = 20 000, which two threads share; by the clock at
    m = 100 000, on two cores with other work on them, 1.3–2.5 and 0.9–3.2, usually below 2.1.
    An earlier trial of the alternatives at m = 100 000 gave 2.1 for precomputed Gram matrices
    (squared loss only, 1.4 times the memory of X) and 3.0–3.7 for size-bucketed matmul; segment
    sums in numpy take 9–10 at m = 20 000. Below `tacit.numerics.kernels.FUSED_FROM` numbers in W
    plain numpy is used, because importing and compiling (1–2 s, once, then cached on disk) would
    cost more than the fit. ``benchmarks/linear.py`` measures it again.

    Guarantee: what is returned for task i depends on its rows and model, on m and on d alone, bit
    for bit, and not on the number of threads. A float32 X gives float32 gradients.
    """

    def __init__(
        self, tasks: TaskSet, loss: Loss, targets: Array | None = None, *, kernel: str = "auto"
    ) -> None:
        y = row_targets(tasks, targets)
        self.tasks = tasks
        self.loss = loss
        self._offsets = np.ascontiguousarray(tasks.offsets, dtype=np.int64)
        self._X = np.ascontiguousarray(tasks.X)
        self._y = np.ascontiguousarray(y, dtype=self._X.dtype)
        self._counts = np.diff(self._offsets)
        self._kernel_name = kernel
        self._kernel = choose_kernel(self._X, self._y, self._offsets, loss, kernel)
        self._curvature: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (m, d) of the models."""
        return len(self._counts), self._X.shape[1]

    def with_targets(self, targets: Array) -> Objective:
        """Return the same objective for other targets; what depends on X alone is kept."""
        other = Objective(self.tasks, self.loss, targets, kernel=self._kernel_name)
        other._curvature = self._curvature
        return other

    def _models(self, W: Array) -> Array:
        if np.shape(W) != self.shape:
            raise InvalidInput(f"W of shape {np.shape(W)}: must be {self.shape}, a row per task")
        return np.ascontiguousarray(W, dtype=self._X.dtype)

    def gradient(self, W: Array) -> Array:
        """Return the gradient of every task's mean loss, (m, d)."""
        rate = (1 / self._counts).astype(self._X.dtype)
        return self._kernel.combine(self._models(W), rate, 0.0)

    def step(self, W: Array, step: float | Array) -> Array:
        """Return ``W − step · gradient(W)`` in one pass; ``step`` is a number or (m,)."""
        sizes = np.reshape(step, -1) if np.ndim(step) else step
        rate = np.asarray(-sizes / self._counts, dtype=self._X.dtype)
        return self._kernel.combine(self._models(W), rate, 1.0)

    def predict(self, W: Array) -> Array:
        """Return ``x_rᵀ w_i`` for every row, in stored order."""
        models = self._models(W)
        z = np.empty(len(self._X), dtype=self._X.dtype)

        def fill(chunk: tuple[int, int]) -> None:
            first, last = chunk
            rows = slice(self._offsets[first], self._offsets[last])
            z[rows] = row_predictions(self._X, models, self._offsets, first, last)

        batched_map(fill, task_chunks(self._offsets, self.shape[1]))
        return z

    def value(self, W: Array) -> Array:
        """Return every task's mean loss, (m,) in float64."""
        z = self.predict(W).astype(np.float64)
        losses = self.loss.value(z, self._y.astype(np.float64))
        return np.add.reduceat(losses, self._offsets[:-1]) / self._counts

    def curvature(self) -> Array:
        """Return Lipschitz constants of the tasks' gradients, (m,); computed once.

        The loss's curvature times the largest eigenvalue of ``X_iᵀX_i/n_i``. When there are too
        many tasks for eigenvalues, an upper bound instead: the 16th root of the trace of the
        16th power, at most ``min(n_i, d)^(1/16)`` (1.28 for d = 50) times too large, so a step
        taken from it is always safe.
        """
        if self._curvature is None:
            # Settled by the shape alone: nothing may depend on how many rows other tasks have.
            exact = 10.0 * self.shape[0] * self.shape[1] ** 3 <= _EIGEN_WORK
            top = np.zeros(self.shape[0])

            def fill(bucket: Bucket) -> None:
                rows = bucket.stack(self._X)
                tall = rows.shape[1] >= rows.shape[2]
                flipped = rows.transpose(0, 2, 1)
                gram = flipped @ rows if tall else rows @ flipped
                bound = _top_eigenvalue if exact else _trace_power_bound
                top[bucket.tasks] = bound(gram) / bucket.counts

            batched_map(fill, size_buckets(self._offsets, self.shape[1]))
            self._curvature = self.loss.curvature * top
        return self._curvature


def row_targets(tasks: TaskSet, targets: Array | None) -> Array:
    """Return the targets given, or else those of the tasks, one for each row."""
    y = tasks.y if targets is None else targets
    if y is None:
        raise InvalidInput("targets=None: the tasks hold none; pass targets of shape (N,)")
    if np.shape(y) != (len(tasks.X),):
        raise InvalidInput(
            f"targets of shape {np.shape(y)}: must be ({len(tasks.X)},), one for each row"
        )
    return y


def _top_eigenvalue(gram: Array) -> Array:
    return np.maximum(eigvalsh(gram)[:, -1], 0)


def _trace_power_bound(gram: Array) -> Array:
    """Bound the largest eigenvalue by ``tr(G¹⁶)^(1/16)``, by repeated squaring."""
    scale = np.trace(gram, axis1=1, axis2=2)
    power = gram / np.where(scale > 0, scale, 1)[:, None, None]
    for _ in range(3):
        power = power @ power
    # tr(G¹⁶) = ‖G⁸‖_F², which saves the last product.
    return scale * np.sum(power * power, axis=(1, 2)) ** (1 / 16)


def objectives(tasks: TaskSet, loss: Loss, targets: Array) -> list[Objective]:
    """Return one objective for each column of ``targets`` (N, k), for instance one-vs-rest."""
    columns = np.ascontiguousarray(np.transpose(targets))
    first = Objective(tasks, loss, columns[0])
    return [first, *(first.with_targets(column) for column in columns[1:])]
