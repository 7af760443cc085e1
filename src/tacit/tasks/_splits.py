"""Row arithmetic on offsets: ranks within tasks, splits, folds and batches, without loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacit._types import AnyArray, IntArray
from tacit.errors import InvalidInput

__all__ = ["fold_of_row", "positions", "rows_of_tasks", "runs_of_tasks", "test_rows"]


def shuffled_rank(
    task_of_row: IntArray, offsets: IntArray, generator: np.random.Generator
) -> IntArray:
    """Rank of every row in a random order of its own task."""
    by_task = np.lexsort((generator.random(len(task_of_row)), task_of_row))
    rank = np.empty(len(task_of_row), dtype=np.int64)
    rank[by_task] = np.arange(len(task_of_row)) - offsets[task_of_row]
    return rank


def test_rows(
    task_of_row: IntArray, offsets: IntArray, test_size: float, generator: np.random.Generator
) -> AnyArray:
    """Mask of test rows: about ``test_size`` of each task, one row at least on either side.

    A task of one row keeps it for training.
    """
    counts = np.diff(offsets)
    wanted = np.rint(test_size * counts).astype(np.int64)
    n_test = np.minimum(np.maximum(wanted, 1), counts - 1)
    return shuffled_rank(task_of_row, offsets, generator) < n_test[task_of_row]


def fold_of_row(
    task_of_row: IntArray, offsets: IntArray, n_folds: int, generator: np.random.Generator
) -> IntArray:
    """Fold in which each row is tested, −1 for the only row of a task (always trained on).

    Folds of a task differ by at most one row, and its first fold is random: small tasks would
    otherwise all be tested in the first folds.
    """
    counts = np.diff(offsets)
    first = generator.integers(n_folds, size=len(counts))
    fold = (shuffled_rank(task_of_row, offsets, generator) + first[task_of_row]) % n_folds
    return np.where(counts[task_of_row] > 1, fold, -1)


def rows_of_tasks(offsets: IntArray, index: IntArray) -> IntArray:
    """Rows of the tasks in ``index``, task after task."""
    counts = np.diff(offsets)[index]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return np.repeat(offsets[index] - starts, counts) + np.arange(counts.sum())


def runs_of_tasks(offsets: IntArray, max_rows: int) -> Iterator[tuple[int, int]]:
    """Cut consecutive tasks into runs ``[first, last)`` of at most ``max_rows`` rows.

    A task larger than ``max_rows`` is a run of its own, because it is never cut in two.
    """
    first, n_tasks = 0, len(offsets) - 1
    while first < n_tasks:
        last = int(np.searchsorted(offsets, offsets[first] + max_rows, side="right")) - 1
        last = max(last, first + 1)
        yield first, last
        first = last


def positions(selection: Any, size: int, what: str) -> IntArray:
    """A mask or an index as distinct positions below ``size``."""
    chosen = np.asarray(selection)
    if chosen.dtype == np.bool_:
        if chosen.shape != (size,):
            raise InvalidInput(f"{what}: a mask of shape {chosen.shape} for {size} {what}")
        chosen = np.flatnonzero(chosen)
    elif chosen.ndim != 1 or (chosen.size and chosen.dtype.kind not in "iu"):
        raise InvalidInput(f"{what}: must be a mask or a list of whole numbers")
    if not chosen.size:
        raise InvalidInput(f"{what}: nothing selected; keep at least one")
    if chosen.min() < -size or chosen.max() >= size:
        raise InvalidInput(f"{what}: index out of range; there are {size}")
    kept = np.where(chosen < 0, chosen + size, chosen).astype(np.int64)
    if np.bincount(kept, minlength=1).max() > 1:
        raise InvalidInput(f"{what}: some are selected more than once; select each once")
    return kept
