"""Neighbouring task sets: made, compared, and searched for the worst."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

__all__ = ["changed_task", "climb", "replace_row", "replace_task"]


def replace_task(tasks: TaskSet, task: int, X: Array, y: Array) -> TaskSet:
    """Return ``tasks`` with the data of task number ``task`` replaced, same number of rows."""
    rows = slice(tasks.offsets[task], tasks.offsets[task + 1])
    return _write(tasks, rows, X, y)


def replace_row(tasks: TaskSet, row: int, x: Array, y: float) -> TaskSet:
    """Return ``tasks`` with one stored row replaced."""
    return _write(tasks, slice(row, row + 1), x, np.asarray([y]))


def _write(tasks: TaskSet, rows: slice, X: Array, y: Array) -> TaskSet:
    if tasks.y is None:
        raise InvalidInput("tasks: has no targets; build the task set with y")
    features, targets = tasks.X.copy(), tasks.y.copy()
    features[rows], targets[rows] = X, y
    return tasks.replace(X=features, y=targets)


def changed_task(tasks: TaskSet, neighbour: TaskSet, *, row: bool = False) -> int:
    """Return the one task in which two task sets differ.

    Raises `InvalidInput` if they do not differ, differ in more than one task (one row if ``row``),
    or do not have the same tasks.
    """
    if tasks.names != neighbour.names:
        raise InvalidInput("neighbour: must have the same task names as tasks")
    apart = []
    for index in range(tasks.n_tasks):
        ours = slice(tasks.offsets[index], tasks.offsets[index + 1])
        theirs = slice(neighbour.offsets[index], neighbour.offsets[index + 1])
        if not _same(tasks, ours, neighbour, theirs):
            apart.append(index)
    if len(apart) != 1:
        raise InvalidInput(
            f"neighbour: differs from tasks in {len(apart)} tasks; change exactly one"
        )
    if row and _changed_rows(tasks, neighbour) != 1:
        raise InvalidInput(
            "neighbour: the protocol's unit is the row; change exactly one row of one task"
        )
    return apart[0]


def _same(tasks: TaskSet, ours: slice, neighbour: TaskSet, theirs: slice) -> bool:
    targets = (tasks.y is None) == (neighbour.y is None)
    if targets and tasks.y is not None and neighbour.y is not None:
        targets = np.array_equal(tasks.y[ours], neighbour.y[theirs])
    return bool(targets) and np.array_equal(tasks.X[ours], neighbour.X[theirs])


def _changed_rows(tasks: TaskSet, neighbour: TaskSet) -> int:
    if tasks.n_rows != neighbour.n_rows:
        return abs(tasks.n_rows - neighbour.n_rows) + 1
    changed = (tasks.X != neighbour.X).any(axis=1)
    if tasks.y is not None and neighbour.y is not None:
        changed |= tasks.y != neighbour.y
    return int(np.sum(changed))


def climb(
    objective: Callable[[TaskSet, TaskSet], float],
    tasks: TaskSet,
    *,
    task: int = 0,
    row: bool = False,
    binary: bool = False,
    n_steps: int = 60,
    random_state: int = 0,
) -> tuple[TaskSet, TaskSet]:
    """Hill-climb on both neighbours' canary data and return the pair with the highest objective.

    Parameters
    ----------
    objective
        What to maximise, of the two task sets.
    tasks
        The other tasks' data; task number ``task`` (its first row only, if ``row``) is the canary.
    binary
        Whether targets are labels 0 and 1.
    n_steps
        Pairs tried: fresh random and worst-case canaries first, then changes of the best so far.
    """
    rng = np.random.default_rng(random_state)
    rows = slice(tasks.offsets[task], tasks.offsets[task] + 1 if row else tasks.offsets[task + 1])
    shape = tasks.X[rows].shape
    best, found = -np.inf, (tasks, tasks)
    kept = tuple(_propose(rng, shape, binary) for _ in range(2))
    for step in range(n_steps):
        if step < n_steps // 3:
            pair = tuple(_propose(rng, shape, binary) for _ in range(2))
            if rng.random() < 0.5:  # the same rows with the opposite answer
                X, y = pair[0]
                pair = (pair[0], (X, 1.0 - y if binary else -y))
        else:
            pair = tuple(_mutate(rng, *canary, binary) for canary in kept)
        if all(np.array_equal(a, b) for a, b in zip(*pair, strict=True)):
            continue
        candidates = tuple(_write(tasks, rows, X, y) for X, y in pair)
        value = objective(candidates[0], candidates[1])
        if value > best:
            best, found, kept = value, (candidates[0], candidates[1]), pair
    return found


def _propose(rng: np.random.Generator, shape: tuple[int, ...], binary: bool) -> tuple[Array, Array]:
    """Return canary data: random rows, or all rows along one direction, at a random scale."""
    X = rng.standard_normal(shape)
    if rng.random() < 0.5:
        X = np.broadcast_to(rng.standard_normal(shape[1]), shape).copy()
    X = X * 10.0 ** rng.uniform(-1, 2)
    if binary:
        chance = rng.random()
        y = (rng.random(shape[0]) < (round(chance) if rng.random() < 0.5 else chance)).astype(float)
        return X, y
    scale = 10.0 ** rng.uniform(-1, 3)
    if rng.random() < 0.2:
        scale = 0.0
    y = scale * (rng.standard_normal(shape[0]) if rng.random() < 0.5 else np.ones(shape[0]))
    return X, y


def _mutate(rng: np.random.Generator, X: Array, y: Array, binary: bool) -> tuple[Array, Array]:
    """Return the canary a little changed: nudged, rescaled, or answered the other way."""
    kind = rng.integers(4)
    if kind == 0:
        return X, y
    if kind == 1:
        return X + rng.standard_normal(X.shape) * 0.3 * (np.abs(X).mean() + 1e-12), y
    if kind == 2:
        return X * 10.0 ** rng.uniform(-0.5, 0.5), y
    flip = rng.random(y.shape) < 0.3
    if binary:
        return X, np.where(flip, 1.0 - y, y)
    return X, np.where(flip, -y, y) * 10.0 ** rng.uniform(-0.5, 0.5)
