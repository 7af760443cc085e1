"""Canaries: tasks (or rows) whose presence is as visible as any can be."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.audit.neighbours import replace_row, replace_task
from tacit.errors import InvalidInput
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet

__all__ = ["CanaryPair", "canary_pairs", "is_binary", "pulling", "quiet"]

_ACROSS = 0.3  # how far on its side of the model a row lies, of its norm
_LOUDNESS = 1e3  # how far beyond the others' targets a canary's reach: past any sensible clip


@dataclass(frozen=True)
class CanaryPair:
    """Two neighbours that differ in the canary, and the directions it speaks in."""

    description: str
    first: TaskSet
    second: TaskSet
    task: int
    directions: Array  # (2, d), orthonormal


def is_binary(tasks: TaskSet) -> bool:
    """Return whether the targets are labels 0 and 1 (a classifier's)."""
    return tasks.y is not None and bool(np.isin(tasks.y, (0.0, 1.0)).all())


def pulling(
    n_rows: int, direction: Array, *, row_norm: float, reach: float, binary: bool
) -> tuple[Array, Array]:
    """Return data whose single-task model points along ``direction`` and is as long as it gets.

    Rows alternate in sign so that centring or an intercept cannot absorb the canary.
    """
    signs = np.where(np.arange(n_rows) % 2 == 0, 1.0, -1.0)
    X = row_norm * signs[:, None] * direction
    return X, (signs > 0).astype(float) if binary else reach * signs


def quiet(n_rows: int, direction: Array, *, row_norm: float, binary: bool) -> tuple[Array, Array]:
    """Return data of the same shape whose single-task model is zero."""
    signs = np.where(np.arange(n_rows) % 4 < 2, 1.0, -1.0)
    X = row_norm * signs[:, None] * direction
    return X, (np.arange(n_rows) % 2).astype(float) if binary else np.zeros(n_rows)


def _directions(tasks: TaskSet, task: int) -> Array:
    """Return the axes of the two features the other tasks' rows use least.

    There the canary stands out most; and along axes it shows in releases of a diagonal too.
    """
    others = np.ones(tasks.n_rows, dtype=bool)
    others[tasks.offsets[task] : tasks.offsets[task + 1]] = False
    energy = np.sum(tasks.X[others].astype(float) ** 2, axis=0)
    least = np.argsort(energy, kind="stable")[[0, min(1, len(energy) - 1)]]
    return np.eye(tasks.n_features)[least]


def canary_pairs(tasks: TaskSet, *, task: int = 0, unit: Unit = Unit.TASK) -> list[CanaryPair]:
    """Return the built-in worst-case neighbours.

    For tasks: silence against a model at the clip, two opposite models, two orthogonal models. For
    rows: the first row of the task answered both ways, and against a row elsewhere.
    """
    if tasks.y is None:
        raise InvalidInput("tasks: has no targets; build the task set with y")
    if not 0 <= task < tasks.n_tasks:
        raise InvalidInput(f"task={task}: must be a task number from 0 to {tasks.n_tasks - 1}")
    binary = is_binary(tasks)
    row_norm = float(np.sqrt(np.mean(np.sum(tasks.X.astype(float) ** 2, axis=1)))) or 1.0
    u, v = directions = _directions(tasks, task)
    if unit is Unit.ROW:
        return _row_pairs(tasks, task, directions, row_norm, binary)
    n_rows = int(tasks.offsets[task + 1] - tasks.offsets[task])
    reach = _LOUDNESS * (float(np.std(tasks.y)) or 1.0)
    loud = pulling(n_rows, u, row_norm=row_norm, reach=reach, binary=binary)
    silent = quiet(n_rows, u, row_norm=row_norm, binary=binary)
    opposite = (loud[0], 1.0 - loud[1] if binary else -loud[1])
    aside = pulling(n_rows, v, row_norm=row_norm, reach=reach, binary=binary)
    # Where level and length are asked for too, neighbours that differ in these show once more.
    far = pulling(n_rows, -u, row_norm=row_norm, reach=reach / 16, binary=binary)
    level = 0.0 if binary else reach
    named = {
        "a silent task against one at the clip": (silent, loud),
        "two opposite tasks at the clip": (opposite, loud),
        "two orthogonal tasks at the clip": (aside, loud),
        "two opposite tasks of other level and length": (
            (far[0] / 4, far[1] - level / 16),
            (loud[0], loud[1] + level),
        ),
    }
    return [
        CanaryPair(
            name, replace_task(tasks, task, *a), replace_task(tasks, task, *b), task, directions
        )
        for name, (a, b) in named.items()
    ]


def _row_pairs(
    tasks: TaskSet, task: int, directions: Array, row_norm: float, binary: bool
) -> list[CanaryPair]:
    row = int(tasks.offsets[task])
    high, low = (1.0, 0.0) if binary else (_LOUDNESS, -_LOUDNESS)
    u, v = directions * row_norm
    loud = replace_row(tasks, row, u, high)
    ahead, behind = _either_side(tasks, row, directions[0], row_norm)
    named = {
        "one row answered both ways": (replace_row(tasks, row, u, low), loud),
        "a row against one elsewhere": (replace_row(tasks, row, v, high), loud),
        "two rows against the model from either side": (
            replace_row(tasks, row, ahead, low),
            replace_row(tasks, row, behind, high),
        ),
    }
    return [CanaryPair(name, *pair, task, directions) for name, pair in named.items()]


def _either_side(tasks: TaskSet, row: int, aside: Array, norm: float) -> tuple[Array, Array]:
    """Return two rows that the others' model answers oppositely, alike in a direction it ignores.

    If both are given the wrong answer, their gradients point apart by nearly twice their norm.
    """
    y = np.delete(np.asarray(tasks.y, dtype=float), row)
    X = np.delete(tasks.X.astype(float), row, axis=0)
    along = (y - y.mean()) @ X
    along /= np.linalg.norm(along) or 1.0
    rest = aside - (aside @ along) * along
    rest /= np.linalg.norm(rest) or 1.0
    far = math.sqrt(1 - _ACROSS**2) * rest
    return norm * (far + _ACROSS * along), norm * (far - _ACROSS * along)
