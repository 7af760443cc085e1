"""Logistic tasks under a common Gaussian prior: modes, scores and Laplace evidence.

The counterpart of `tacit.numerics.hierarchical.SquaredTasks`. In the prior's own coordinates
θ = μ + R v the penalty is ½‖v‖², the mode v̂ is the whitened score of μ, and the evidence is
Laplace's: log-likelihood − ½‖v̂‖² − ½ log det(I + RᵀZᵀ diag(p(1 − p)) Z R).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.hierarchical import Candidates, Frame, finite_rows, frame_rows
from tacit.numerics.newton import LogisticStack, newton
from tacit.numerics.threads import batched_map
from tacit.tasks import TaskSet

__all__ = ["LogisticTasks"]


@dataclass(frozen=True)
class LogisticTasks:
    """Tasks with labels in {0, 1}.

    Guarantee: as for `SquaredTasks`, every result's row i is, to the bit, a function of task i's
    rows and of the public arguments; a fit that does not stay finite is zero in that row alone.
    """

    frame: Frame
    tasks: TaskSet

    def scores(self, mean: Array, slope: float, level: float) -> Array:
        """Return whitened scores (m, p): (posterior mode − μ) in units of the prior's deviations."""
        scores = np.empty((self.tasks.n_tasks, self.frame.size))

        def fill(bucket: Bucket) -> None:
            rows = frame_rows(bucket, self.tasks.X, self.frame)
            scores[bucket.tasks] = self._mode(bucket, rows, mean, self._root(None, slope, level))[0]

        batched_map(fill, self._buckets())
        return finite_rows(scores)

    def evidence(self, candidates: Candidates) -> Array:
        """Return Laplace log-evidence (m, size) of every candidate."""
        found = np.empty((self.tasks.n_tasks, candidates.size))

        def fill(bucket: Bucket) -> None:
            rows = frame_rows(bucket, self.tasks.X, self.frame)
            for cell, (mean, root) in enumerate(self._cells(candidates)):
                found[bucket.tasks, cell] = self._mode(bucket, rows, mean, root)[1]

        batched_map(fill, self._buckets())
        return finite_rows(found)

    def models(self, candidates: Candidates, weights: Array) -> Array:
        """Return modes (m, p), averaged with ``weights`` (m, size) over candidates."""
        models = np.zeros((self.tasks.n_tasks, self.frame.size))

        def fill(bucket: Bucket) -> None:
            rows = frame_rows(bucket, self.tasks.X, self.frame)
            for cell, (mean, root) in enumerate(self._cells(candidates)):
                moved = self._mode(bucket, rows, mean, root)[0][:, None, :] @ root.T
                models[bucket.tasks] += weights[bucket.tasks, cell, None] * (mean + moved[:, 0])

        batched_map(fill, self._buckets())
        return finite_rows(models)

    def _buckets(self) -> list[Bucket]:
        return list(size_buckets(self.tasks.offsets, 2 * self.frame.size))

    def _root(self, shape: Array | None, slope: float, level: float) -> Array:
        d, p = self.frame.origin.size, self.frame.size
        root = np.zeros((p, p))
        root[:d, :d] = np.sqrt(slope) * (np.eye(d) if shape is None else shape)
        root[d:, d:] = np.sqrt(level)
        return root

    def _cells(self, candidates: Candidates) -> list[tuple[Array, Array]]:
        return [
            (mean, self._root(shape, slope, level))
            for shape in candidates.shapes
            for mean in candidates.means
            for slope in candidates.slopes
            for level in candidates.levels
        ]

    def _mode(
        self, bucket: Bucket, rows: Array, mean: Array, root: Array
    ) -> tuple[Array, Array]:
        """Return modes (b, p) in the prior's coordinates and log-evidence (b,)."""
        stack = LogisticStack(
            rows @ root,
            (rows @ mean[:, None])[:, :, 0],
            bucket.stack(np.asarray(self.tasks.y)),
            bucket.mask.astype(np.float64),
            np.ones((len(rows), root.shape[1])),
        )
        mode = newton(stack, np.zeros((len(rows), root.shape[1])))
        z = stack.predictions(mode)
        return mode, -stack.value(z, mode) - 0.5 * np.linalg.slogdet(stack.hessian(z))[1]
