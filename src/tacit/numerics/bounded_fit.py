"""Single-task fits of a handful of rows, kept from extrapolating.

Two rows that nearly coincide in x and differ in y make a slope as large as their distance is
small, and leave-one-out cannot object: with one row left every strength predicts the same. On a
task of at most five rows the slope is therefore limited so that it moves a prediction by no more
than the spread of the task's own targets over the typical length of its rows, around their mean.
"""

from __future__ import annotations

import numpy as np

from tacit._types import Array
from tacit.numerics.local_fit import LocalFit
from tacit.tasks import TaskSet

__all__ = ["FEW_ROWS", "bounded_slopes"]

FEW_ROWS = 5


def bounded_slopes(tasks: TaskSet, fit: LocalFit) -> LocalFit:
    """Return fits of the squared loss in which small tasks predict near their own mean.

    For n_i ≤ 5: ‖w_i‖·rms(‖x‖) ≤ sd(y_i), and the model passes through (x̄_i, ȳ_i). One row gives
    its target everywhere. Larger tasks are returned as they are.

    Guarantee: row i depends on task i's rows only.
    """
    counts = tasks.counts
    y = np.asarray(tasks.y, dtype=np.float64)
    centre = tasks.task_sums(np.asarray(tasks.X, dtype=np.float64)) / counts[:, None]
    level = tasks.task_sums(y) / counts
    apart = y - level[tasks.task_of_row]
    spread = np.sqrt(tasks.task_sums(apart * apart) / counts)
    length = np.sqrt(tasks.task_sums(np.einsum("nd,nd->n", tasks.X, tasks.X, dtype=float)) / counts)
    steep = np.sqrt((fit.coef * fit.coef).sum(axis=1))
    # Where rows have no length a slope has no effect on them: it is taken to be none.
    most = np.divide(spread, length, out=np.zeros_like(spread), where=length > 0)
    shrink = np.divide(most, steep, out=np.ones_like(most), where=steep > most)
    few = counts <= FEW_ROWS
    coef = np.where(few[:, None], fit.coef * shrink[:, None], fit.coef)
    through: Array = level - (coef * centre).sum(axis=1)
    return LocalFit(coef, np.where(few, through, fit.intercept))
