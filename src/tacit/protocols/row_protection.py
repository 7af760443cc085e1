"""Both protections at once (supplement, Algorithm 5): rows against everybody, models besides.

The message of a task is built from its rows by one noised sum of clipped row gradients, so that
even the curator learns little about any single row; the second moment of these messages is then
released with noise of its own, so that other tasks learn little about the whole task.

The printed Algorithm 5 has the noise's density upside down, takes sensitivities at the data at hand
and forms Σ from models whose norm the noise has made unbounded. Here the gradient at zero is
used: its worst-case sensitivity is exact (twice the clip), needs no solver and no public number of
rows, and the task-level bound is applied again after the noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.privacy.bounds import RowGradientClip
from tacit.privacy.mechanisms import GammaVector, Gaussian, Mechanism
from tacit.privacy.samplers import Entropy
from tacit.privacy.unit import Adjacency
from tacit.tasks import TaskSet

__all__ = ["RowProtection", "row_mechanism"]

_BATCH_ROWS = 100_000  # gradients of so many rows are held at once


def row_mechanism(radius: float, *, epsilon: float, delta: float) -> Mechanism:
    """Return the noise on each task's sum of row gradients clipped to ``radius``.

    Guarantee: (ε, δ)-DP for one row under replace-one (the number of rows of every task stays);
    every row is in one task, so the tasks' releases compose in parallel. With δ = 0 the density is
    ∝ exp(−(ε/s)‖b‖), s = 2·radius.
    """
    sensitivity = RowGradientClip(radius).sensitivity("l2", Adjacency.REPLACE_ONE)
    if delta == 0:
        return GammaVector(sensitivity, epsilon, local=True)
    from tacit.privacy.accounting import scale_gaussian

    return Gaussian(sensitivity, float(scale_gaussian([1.0], epsilon, delta)[0]))


@dataclass(frozen=True)
class RowProtection:
    """How rows are bounded and noised before a message is made of them.

    Parameters
    ----------
    mechanism : Mechanism
        From `row_mechanism`, for the radius ``row_norm`` times the largest |ℓ'| at zero.
    row_norm : float
        Public norm to which rows are clipped.
    target_bound : float or None
        Public bound to which |y| is clipped; None for 0/1 labels, whose derivative at zero is ±½.
    entropy : Entropy
        Source of the row noise.

    Guarantee: the messages are (ε, δ)-DP for every row, whatever is made of them later. The task's
    personal model uses its own rows as they are and is for the task alone.
    """

    mechanism: Mechanism
    entropy: Entropy
    row_norm: float = 1.0
    target_bound: float | None = None

    @staticmethod
    def radius(loss: Loss, row_norm: float, target_bound: float | None, n_outputs: int) -> float:
        """Return the largest norm of a row's gradient at zero, over all outputs together."""
        slope = 0.5 if loss.name == "logistic" else float(target_bound or 1.0)
        return row_norm * slope * n_outputs**0.5

    def messages(self, outputs: Sequence[TaskSet], loss: Loss) -> Array:
        """Return noised sums of clipped row gradients at zero, negated: (m, k, d)."""
        rows = outputs[0].clipped_rows(self.row_norm)
        slopes = []
        for output in outputs:
            y = np.asarray(output.y, dtype=np.float64)
            if self.target_bound is not None:
                y = np.clip(y, -self.target_bound, self.target_bound)
            slopes.append(-loss.derivative(np.zeros_like(y), y))
        limit = RowGradientClip(self.radius(loss, self.row_norm, self.target_bound, len(outputs)))
        sums = _sums(limit, np.stack(slopes, axis=1), rows)
        return self.mechanism.release(sums, self.entropy).value


def _sums(limit: RowGradientClip, derivative: Array, rows: TaskSet) -> Array:
    """Return every task's exact sum of bounded row gradients, (m, k, d).

    Beyond `RowGradientClip.most_rows` a sum is not exact; of a task with more the last are left
    out, as refusing them would tell everybody of the task's size.
    """
    sums, first = [], 0
    for batch in rows.batches(_BATCH_ROWS):
        part = slice(first, first + batch.n_rows)
        gradients = limit.of_linear(derivative[part], batch.X)
        rank = np.arange(batch.n_rows) - batch.offsets[batch.task_of_row]
        gradients[rank >= limit.most_rows] = 0.0
        total = batch.task_sums(gradients.reshape(batch.n_rows, -1))
        sums.append(total.reshape(batch.n_tasks, *gradients.shape[1:]))
        first += batch.n_rows
    return np.concatenate(sums)
