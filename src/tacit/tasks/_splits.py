"""Row arithmetic on offsets: ranks within tasks, splits, folds and batches, without loops."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterator, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from tacit._types import AnyArray, IntArray
from tacit.errors import InvalidInput

__all__ = [
    "Dealer",
    "fold_of_row",
    "positions",
    "rows_of_tasks",
    "runs_of_tasks",
    "seed_of",
    "test_rows",
]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the step of SplitMix64


def seed_of(random_state: Any) -> int:
    """Return the seed of a split: the number given, or one drawn from a generator or afresh."""
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(np.random.default_rng(random_state).integers(2**63))


def _text(name: Hashable) -> str:
    """Return a label's text, the same for labels that compare equal (1, 1.0 and True)."""
    if isinstance(name, tuple):
        return f"({','.join(map(_text, name))})"
    if isinstance(name, Real) and name == name // 1:
        return f"number {int(name)}"
    return f"{type(name).__name__} {name}"


class Dealer:
    """One stream of random numbers for each task, keyed by the seed and the task's name.

    Guarantee: what a task is dealt is a function of the seed, its own name and its own number of
    rows. One stream over all tasks would tell every task how many rows those before it have.
    """

    def __init__(self, names: Sequence[Hashable], offsets: IntArray, seed: int) -> None:
        digests = (hashlib.sha256(f"{seed} {_text(name)}".encode()).digest() for name in names)
        self._keys = np.frombuffer(b"".join(part[:8] for part in digests), dtype="<u8")
        self._counts = np.diff(offsets)
        self._offsets = offsets

    def of_tasks(self) -> AnyArray:
        """Return one random 64-bit number a task."""
        return _mixed(self._keys)

    def of_rows(self) -> AnyArray:
        """Return one random 64-bit number a row."""
        place = np.arange(self._offsets[-1]) - np.repeat(self._offsets[:-1], self._counts)
        with np.errstate(over="ignore"):
            steps = (place.astype(np.uint64) + np.uint64(1)) * _GOLDEN
            return _mixed(np.repeat(self._keys, self._counts) + steps)


def _mixed(state: AnyArray) -> AnyArray:
    """Return the outputs of SplitMix64 (Steele, Lea & Flood 2014) at these states."""
    with np.errstate(over="ignore"):
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def shuffled_rank(task_of_row: IntArray, offsets: IntArray, dealer: Dealer) -> IntArray:
    """Rank of every row in a random order of its own task."""
    by_task = np.lexsort((dealer.of_rows(), task_of_row))
    rank = np.empty(len(task_of_row), dtype=np.int64)
    rank[by_task] = np.arange(len(task_of_row)) - offsets[task_of_row]
    return rank


def test_rows(
    task_of_row: IntArray, offsets: IntArray, test_size: float, dealer: Dealer
) -> AnyArray:
    """Mask of test rows: about ``test_size`` of each task, one row at least on either side.

    A task of one row keeps it for training.
    """
    counts = np.diff(offsets)
    wanted = np.rint(test_size * counts).astype(np.int64)
    n_test = np.minimum(np.maximum(wanted, 1), counts - 1)
    return shuffled_rank(task_of_row, offsets, dealer) < n_test[task_of_row]


def fold_of_row(task_of_row: IntArray, offsets: IntArray, n_folds: int, dealer: Dealer) -> IntArray:
    """Fold in which each row is tested, −1 for the only row of a task (always trained on).

    Folds of a task differ by at most one row, and its first fold is random: small tasks would
    otherwise all be tested in the first folds.
    """
    counts = np.diff(offsets)
    first = (dealer.of_tasks() % np.uint64(n_folds)).astype(np.int64)
    fold = (shuffled_rank(task_of_row, offsets, dealer) + first[task_of_row]) % n_folds
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
