"""Logistic tasks under a common Gaussian prior: modes, scores and Laplace evidence.

The counterpart of `tacit.numerics.hierarchical.SquaredTasks`. In the prior's own coordinates
θ = μ + R v the penalty is ½‖v‖², the mode v̂ is the whitened score of μ, and the evidence is
Laplace's: log-likelihood − ½‖v̂‖² − ½ log det(I + RᵀZᵀ diag(p(1 − p)) Z R).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tacit._types import Array
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.hierarchical import Candidates, Frame, finite_rows, frame_rows
from tacit.numerics.newton import LogisticStack, newton
from tacit.numerics.threads import batched_map
from tacit.tasks import TaskSet

__all__ = ["LogisticTasks"]

_STACK = 1 << 21  # numbers in the rows of one stack of regressions


@dataclass(frozen=True)
class LogisticTasks:
    """Tasks with labels in {0, 1}.

    Guarantee: as for `SquaredTasks`, every result's row i is, to the bit, a function of task i's
    rows and of the public arguments; a fit that does not stay finite is zero in that row alone.
    """

    frame: Frame
    tasks: TaskSet

    def scores(self, mean: Array, slope: float, level: float) -> Array:
        """Return whitened scores (m, p): posterior mode − μ in units of the prior's deviations."""
        scores = np.empty((self.tasks.n_tasks, self.frame.size))
        priors = [(mean, self._root(None, slope, level))]

        @np.errstate(all="ignore")
        def fill(bucket: Bucket) -> None:
            scores[bucket.tasks] = next(self._modes(bucket, priors))[1][:, 0]

        batched_map(fill, self._buckets())
        return finite_rows(scores)

    def evidence(self, candidates: Candidates) -> Array:
        """Return Laplace log-evidence (m, size) of every candidate."""
        found = np.empty((self.tasks.n_tasks, candidates.size))

        @np.errstate(all="ignore")
        def fill(bucket: Bucket) -> None:
            for cells, _, evidence in self._modes(bucket, self._priors(candidates)):
                found[bucket.tasks, cells] = evidence

        batched_map(fill, self._buckets())
        return finite_rows(found)

    def averaged(self, candidates: Candidates, log_weights: Array) -> tuple[Array, Array]:
        """Return modes (m, p) averaged by evidence × weight, and the logarithm of its sum (m,)."""
        logs = self.evidence(candidates) + log_weights
        total = logsumexp(logs, axis=1)
        return self._models(candidates, np.exp(logs - total[:, None])), total

    def _models(self, candidates: Candidates, weights: Array) -> Array:
        models = np.zeros((self.tasks.n_tasks, self.frame.size))
        priors = self._priors(candidates)

        @np.errstate(all="ignore")
        def fill(bucket: Bucket) -> None:
            for cells, modes, _ in self._modes(bucket, priors):
                for cell, (mean, root) in enumerate(priors[cells]):
                    moved = (modes[:, cell, None, :] @ root.T)[:, 0]
                    weight = weights[bucket.tasks, cells.start + cell, None]
                    models[bucket.tasks] += weight * (mean + moved)

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

    def _priors(self, candidates: Candidates) -> list[tuple[Array, Array]]:
        return [
            (mean, self._root(shape, slope, level))
            for shape in candidates.shapes
            for mean in candidates.means
            for slope in candidates.slopes
            for level in candidates.levels
        ]

    def _modes(
        self, bucket: Bucket, priors: list[tuple[Array, Array]]
    ) -> Iterator[tuple[slice, Array, Array]]:
        """Yield cells, modes (b, c, p) in each prior's coordinates and log-evidence (b, c).

        All the priors of a slice are solved in one stack.
        """
        rows = frame_rows(bucket, self.tasks.X, self.frame)
        labels = bucket.stack(np.asarray(self.tasks.y))
        b, n, p = rows.shape
        step = max(1, _STACK // rows.size)
        for low in range(0, len(priors), step):
            cells = slice(low, min(low + step, len(priors)))
            means, roots = (np.stack(part) for part in zip(*priors[cells], strict=True))
            c = len(means)
            stack = LogisticStack(
                (rows[:, None] @ roots).reshape(b * c, n, p),
                (rows[:, None] @ means[:, :, None]).reshape(b * c, n),
                np.repeat(labels, c, axis=0),
                np.repeat(bucket.mask.astype(np.float64), c, axis=0),
                np.ones((b * c, p)),
            )
            modes = newton(stack, np.zeros((b * c, p)))
            z = stack.predictions(modes)
            volume = np.linalg.slogdet(stack.hessian(z))[1]
            evidence = -stack.value(z, modes) - 0.5 * volume
            yield cells, modes.reshape(b, c, p), evidence.reshape(b, c)
