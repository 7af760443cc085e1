"""What a protocol starts from: rows within reach of the arithmetic, once for every output."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit._types import AnyArray, Array
from tacit.tasks._taskset import TaskSet

__all__ = ["one_vs_rest", "within_range"]

# About 1e45: products of six such numbers, added up over any number of rows, are finite. In single
# precision 1e18, whose squares are (what is computed of more factors is computed in double).
_LARGEST = {np.dtype(np.float64): 2.0**150, np.dtype(np.float32): 2.0**60}


def within_range(tasks: TaskSet) -> TaskSet:
    """Return the tasks with zeros in place of rows and of targets that are out of range.

    Beyond 1e45 (1e18 in single precision) what is computed of a row overflows. A run must neither
    stop nor warn for that, as everybody would learn of it, so such a row counts as a row of zeros.

    Guarantee: row by row, hence free for every unit: a row is changed by itself alone.
    """
    rows = _out_of_range(tasks.X)
    y, targets = tasks.y, np.zeros(1, dtype=bool)
    if y is not None:
        targets = _out_of_range(y[:, None])
        y = np.where(targets, 0.0, y) if targets.any() else y
    bad = rows | targets
    if not bad.any():
        return tasks
    X = np.where(bad[:, None], 0.0, tasks.X).astype(tasks.X.dtype, copy=False)
    return replace(tasks, X=X, y=y)


def _out_of_range(values: Array) -> AnyArray:
    """Return which rows (N, d) hold a number that is too large."""
    limit = _LARGEST.get(values.dtype, 2.0**150)
    if values.max(initial=0.0) <= limit and values.min(initial=0.0) >= -limit:
        return np.zeros(len(values), dtype=bool)
    return np.logical_or.reduce(np.abs(values) > limit, axis=1)


def one_vs_rest(tasks: TaskSet, n_outputs: int) -> tuple[TaskSet, ...]:
    """Return ``tasks``, `within_range`, once per output.

    With one output the target stays as it is. With more, ``tasks.y`` holds class codes 0 … k − 1
    and output c gets the target 1 where the code is c, else 0. Rows are shared, not copied.
    """
    tasks = within_range(tasks)
    if n_outputs == 1 or tasks.y is None:
        return (tasks,)
    return tuple(tasks.replace(y=(tasks.y == code).astype(np.float64)) for code in range(n_outputs))
