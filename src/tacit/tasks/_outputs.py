"""Several binary problems in one: a task set per class, one against the rest."""

from __future__ import annotations

import numpy as np

from tacit.tasks._taskset import TaskSet

__all__ = ["one_vs_rest"]


def one_vs_rest(tasks: TaskSet, n_outputs: int) -> tuple[TaskSet, ...]:
    """Return ``tasks`` once per output.

    With one output the target stays as it is. With more, ``tasks.y`` holds class codes 0 … k − 1
    and output c gets the target 1 where the code is c, else 0. Rows are shared, not copied.
    """
    if n_outputs == 1 or tasks.y is None:
        return (tasks,)
    return tuple(tasks.replace(y=(tasks.y == code).astype(np.float64)) for code in range(n_outputs))
