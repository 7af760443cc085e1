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

from dataclasses import dataclass

import numpy as np

from tacit.losses import Loss
from tacit.privacy.bounds import RowGradientClip, RowMessages
from tacit.privacy.schedule import AtTask, Round
from tacit.privacy.unit import Unit
from tacit.protocols._home import Outputs

__all__ = ["RowProtection"]


@dataclass(frozen=True)
class RowProtection:
    """How rows are bounded before a message is made of them.

    Parameters
    ----------
    row_norm : float
        Public norm to which rows are clipped.
    target_bound : float or None
        Public bound to which |y| is clipped; None for 0/1 labels, whose derivative at zero is ±½.

    Guarantee: the messages are (ε, δ)-DP for every row under replace-one (the number of rows of
    every task stays), whatever is made of them later; every row is in one task, so the tasks'
    releases compose in parallel. The task's personal model uses its own rows as they are and is
    for the task alone.
    """

    n_outputs: int
    row_norm: float = 1.0
    target_bound: float | None = None

    @property
    def radius(self) -> float:
        """The largest norm of a row's gradient at zero, over all outputs together."""
        slope = 0.5 if self.target_bound is None else self.target_bound
        return float(self.row_norm * slope * self.n_outputs**0.5)

    def round(self, n_features: int) -> Round:
        """Return the round in which tasks noise their sums; only the curator sees what follows."""
        return Round(
            "row gradients",
            RowGradientClip(self.radius),
            (self.n_outputs, n_features),
            unit=Unit.ROW,
            noise=AtTask(),
            posted=False,
        )

    def gradients(self, outputs: Outputs, loss: Loss) -> RowMessages:
        """Return every row's gradient at zero, negated: (N, k, d)."""
        rows = outputs[0].clipped_rows(self.row_norm)
        slopes = []
        for output in outputs:
            y = np.asarray(output.y, dtype=np.float64)
            if self.target_bound is not None:
                y = np.clip(y, -self.target_bound, self.target_bound)
            slopes.append(-loss.derivative(np.zeros_like(y), y))
        values = (
            np.stack(slopes, axis=1)[:, :, None] * np.asarray(rows.X, dtype=np.float64)[:, None]
        )
        return RowMessages(values, rows.offsets)
