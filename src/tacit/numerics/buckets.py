"""Ragged tasks as a few stacks of equal height, for batched linear algebra.

Tasks of similar size are stacked to (b, n, d), padded with zero rows up to 12.5 %. A zero row
changes neither a Gram matrix nor a fit, so the padding never has to be undone; stacks are cut so
that one of them stays within a set memory. How far a task is padded depends on its own number of
rows alone, so its result is the same to the last bit whoever it is stacked with.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.numerics.threads import batched_map

__all__ = ["Bucket", "size_buckets", "task_products"]

_ELEMENTS = 1_000_000


@dataclass(frozen=True)
class Bucket:
    """Tasks of similar size: their indices, their rows and which of those are real.

    ``least`` is the smallest number of rows that is padded to this height, whether or not a task
    here has so few: what a task may decide by without looking at its neighbours.
    """

    tasks: IntArray
    rows: IntArray
    mask: AnyArray
    least: int

    @property
    def counts(self) -> IntArray:
        """Number of real rows of every task in the bucket."""
        return self.mask.sum(axis=1)

    def apart(self) -> Iterator[Bucket]:
        """Yield the tasks one by one, padded as here."""
        for one in (slice(i, i + 1) for i in range(len(self.tasks))):
            yield Bucket(self.tasks[one], self.rows[one], self.mask[one], self.least)

    def stack(self, values: Array) -> Array:
        """Return ``values`` by task, (b, n, …) in float64, zero in the padding."""
        own = self._alone()
        if own is not None:
            return values[own].astype(np.float64)[None]
        stacked = np.asarray(values[self.rows], dtype=np.float64)
        if not self.mask.all():
            stacked[~self.mask] = 0
        return stacked

    def shares(self, weights: Array | None) -> Array:
        """Return how much of a row each row counts for, (b, n); zero in the padding."""
        return self.mask.astype(np.float64) if weights is None else self.stack(weights)

    def scatter(self, stacked: Array, into: Array) -> None:
        """Write the real entries of ``stacked`` (…, b, n) to their rows of ``into`` (…, N)."""
        own = self._alone()
        if own is not None:
            into[..., own] = stacked[..., 0, :]
        else:
            into[..., self.rows[self.mask]] = stacked[..., self.mask]

    def _alone(self) -> slice | None:
        """Return where the rows of a lone task without padding lie: they need not be gathered."""
        if len(self.tasks) > 1 or not self.mask.all():
            return None
        return slice(int(self.rows[0, 0]), int(self.rows[0, 0]) + self.rows.shape[1])


def _grid(counts: IntArray) -> IntArray:
    """Return the step between sizes that are kept apart: eight to an octave."""
    octave = np.floor(np.log2(np.maximum(counts, 1))).astype(np.int64)
    return 1 << np.maximum(octave - 3, 0)


def _padded_size(counts: IntArray) -> IntArray:
    """Round sizes up to one of eight per octave."""
    grid = _grid(counts)
    padded: IntArray = -(-counts // grid) * grid
    return padded


def size_buckets(offsets: IntArray, width: int, elements: int = _ELEMENTS) -> Iterator[Bucket]:
    """Yield every task once, in stacks of about ``elements`` numbers.

    Parameters
    ----------
    offsets : ndarray of shape (m + 1,)
        Rows of task i are ``offsets[i]:offsets[i + 1]``.
    width : int
        Numbers a row needs in the computation to come (usually d).
    elements : int
        Numbers in one stack; a single larger task makes a stack of its own.
    """
    counts = np.diff(offsets)
    padded = _padded_size(counts)
    order = np.argsort(padded, kind="stable")
    for group in np.split(order, np.flatnonzero(np.diff(padded[order])) + 1):
        size = int(padded[group[0]])
        least = size - int(_grid(np.array(size - 1))) + 1
        per_stack = max(1, elements // max(1, size * width))
        for low in range(0, len(group), per_stack):
            tasks = group[low : low + per_stack]
            position = np.arange(size)
            mask = position < counts[tasks][:, None]
            rows = offsets[tasks][:, None] + np.minimum(position, counts[tasks][:, None] - 1)
            yield Bucket(tasks, rows, mask, least)


def task_products(X: Array, offsets: IntArray, matrix: Array) -> Array:
    """Return ``X_i @ matrix`` for every task's rows, (N, r) in float64: one product a task.

    A product of all rows at once would add up in an order that depends on where in the array a row
    stands, and so on how many rows other tasks have.
    """
    found = np.empty((len(X), matrix.shape[1]))

    def fill(bucket: Bucket) -> None:
        found[bucket.rows[bucket.mask]] = (bucket.stack(X) @ matrix)[bucket.mask]

    batched_map(fill, size_buckets(offsets, X.shape[1]))
    return found
