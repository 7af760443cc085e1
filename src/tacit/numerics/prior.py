"""A Gaussian prior on a task's model, as one change of coordinates for all tasks.

With covariance ``C = S Sᵀ`` and mean μ, the penalty ``(w − μ)ᵀ C⁻¹ (w − μ)`` becomes ``‖v‖²`` for
``w = μ + S v``. A prior shared by all tasks therefore costs one product ``X S``, whatever the
number of tasks, and directions without prior variance simply drop out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._rows import row_dots
from tacit._types import Array, IntArray
from tacit.errors import InvalidInput
from tacit.numerics.buckets import Bucket

if TYPE_CHECKING:
    from tacit.tasks import TaskSet

__all__ = ["Prior", "PriorFrame", "alpha_table"]

_RANK_TOLERANCE = 1e-13


@dataclass(frozen=True)
class Prior:
    """What a task's slopes are pulled to.

    Parameters
    ----------
    mean : ndarray of shape (d,) or (m, d), optional
        Where to, for all tasks or for each; zero if absent.
    covariance : ndarray of shape (d, d), optional
        How little each direction is held, up to a scale; the identity if absent. It may be
        singular: models then differ from the mean only where it has variance.
    """

    mean: Array | None = None
    covariance: Array | None = None

    @property
    def plain(self) -> bool:
        """Whether nothing is known beforehand: the ridge of a task that learns alone."""
        return self.mean is None and self.covariance is None

    @property
    def unit_root(self) -> Array | None:
        """S with S Sᵀ the covariance scaled to mean variance 1; None for the identity."""
        if self.covariance is None:
            return None
        values, vectors = np.linalg.eigh(self.covariance)
        values = np.maximum(values, 0.0)
        root: Array = vectors * np.sqrt(values / values.mean())
        return root

    def frame(self, tasks: TaskSet) -> PriorFrame:
        """Check the prior against the sizes of ``tasks`` and return its coordinates."""
        m, d = len(tasks.offsets) - 1, tasks.X.shape[1]
        mean, root = self.mean, None
        if mean is not None:
            mean = np.asarray(mean, dtype=np.float64)
            if mean.shape not in ((d,), (m, d)):
                raise InvalidInput(
                    f"prior.mean of shape {mean.shape}: must be ({d},) or ({m}, {d})"
                )
            if mean.ndim == 1 and not np.isfinite(mean).all():
                raise InvalidInput("prior.mean: must be finite")
            # A mean of the task's own that is not finite is that task's affair, and counts as zero.
            mean = np.where(np.isfinite(mean).all(axis=-1, keepdims=True), mean, 0.0)
        if self.covariance is not None:
            values, vectors = _spectrum("prior.covariance", self.covariance, d)
            kept = values > _RANK_TOLERANCE * max(values[-1], 0)
            root = vectors[:, kept] * np.sqrt(values[kept])
        return PriorFrame(mean, root)


@dataclass(frozen=True)
class PriorFrame:
    """Mean (d,), (m, d) or absent, and root S (d, r) of the covariance, absent for identity."""

    mean: Array | None
    root: Array | None

    def width(self, n_features: int) -> int:
        """Return the number r of coordinates."""
        return n_features if self.root is None else self.root.shape[1]

    def rows(self, bucket: Bucket, X: Array) -> Array:
        """Return the bucket's rows in the prior's coordinates, (b, n, r)."""
        stacked = bucket.stack(X)
        return stacked if self.root is None else stacked @ self.root

    def predictions(self, bucket: Bucket, X: Array) -> Array | float:
        """Return what the prior mean predicts for the bucket's rows, (b, n)."""
        if self.mean is None:
            return 0.0
        if self.mean.ndim == 1:
            return bucket.stack(X) @ self.mean
        return row_dots(bucket.stack(X), self.mean[bucket.tasks][:, None])

    def models(self, V: Array, tasks: IntArray) -> Array:
        """Return ``μ + S v`` for ``V`` (b, a, r) of the tasks, (b, a, d)."""
        W = V if self.root is None else V @ self.root.T
        if self.mean is None:
            return W
        return W + (self.mean if self.mean.ndim == 1 else self.mean[tasks][:, None, :])


def _spectrum(name: str, matrix: Array, d: int) -> tuple[Array, Array]:
    matrix = np.asarray(matrix, dtype=np.float64)
    if matrix.shape != (d, d) or not np.isfinite(matrix).all():
        raise InvalidInput(f"{name} of shape {matrix.shape}: must be finite, ({d}, {d})")
    scale = float(np.abs(matrix).max(initial=0))
    if np.abs(matrix - matrix.T).max(initial=0) > 1e-8 * scale:
        raise InvalidInput(f"{name}: must be symmetric; use (A + A.T) / 2")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    if d and values[0] < -1e-8 * scale:
        raise InvalidInput(f"{name}: must be positive semi-definite; clip its eigenvalues at 0")
    return values, vectors


def alpha_table(alphas: Array | float, m: int) -> Array:
    """Return the strengths of every task, (m, a), from (a,) for all tasks or (m, a)."""
    table = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
    if table.ndim == 1:
        table = np.broadcast_to(table, (m, len(table)))
    if table.ndim != 2 or table.shape[0] != m or table.shape[1] == 0:
        raise InvalidInput(f"alphas of shape {np.shape(alphas)}: must be (a,) or ({m}, a), a ≥ 1")
    if not (np.isfinite(table).all() and (table > 0).all()):
        raise InvalidInput("alphas: must be positive and finite; use 1e-10 for almost no penalty")
    return table
