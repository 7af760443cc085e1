"""Gradients of all tasks' losses in one pass over the rows.

Both kernels compute, for every task i, ``keep · w_i + rate_i · Σ_r ℓ'(x_rᵀ w_i, y_r) x_r``: the
gradient (keep 0, rate 1/n_i) or a whole gradient step (keep 1, rate −step/n_i).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from tacit._check import one_of
from tacit._rows import row_dots
from tacit._types import Array, IntArray
from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss, Loss, SquaredLoss
from tacit.numerics.threads import batched_map, n_threads, parallel_map

__all__ = ["FusedKernel", "Kernel", "NumpyKernel", "choose_kernel", "row_products"]

# Below this many numbers in W a numpy round takes some ten milliseconds, and importing and
# compiling (or loading from the cache) would cost more than a whole fit. The number of tasks and of
# features is public; the number of rows is not, and must not choose the kernel of every task.
FUSED_FROM = 100_000
_CHUNK = 250_000
_SEGMENT_ROWS = 8192
_PIECE = 1_000_000


class Kernel(Protocol):
    """Something that turns models into gradients or steps, for all tasks at once."""

    def combine(self, W: Array, rate: Array, keep: float) -> Array:
        """Return ``keep · w_i + rate_i · Σ_r ℓ'(x_rᵀ w_i, y_r) x_r`` for every task."""


def task_chunks(offsets: IntArray, d: int, elements: int = _CHUNK) -> Iterator[tuple[int, int]]:
    """Cut the tasks into runs of about ``elements`` numbers, never cutting a task.

    A task that has as many by itself makes a run of its own.
    """
    tall = max(1, elements // max(d, 1))
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], tall))
    long = np.flatnonzero(np.diff(offsets) >= tall)
    cuts = np.unique(np.concatenate([cuts, long, long + 1, [len(offsets) - 1]]))
    return zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)


def _is_long(offsets: IntArray, first: int, last: int, d: int) -> bool:
    """Return whether the run is one task of a run's size: the task's own rows alone decide."""
    return last - first == 1 and int(offsets[last] - offsets[first]) >= max(1, _CHUNK // max(d, 1))


def row_predictions(X: Array, W: Array, offsets: IntArray, first: int, last: int) -> Array:
    """Return ``x_rᵀ w_i`` for the rows of tasks ``first`` to ``last``.

    A long task's by one library product, the others' row by row: in the same order of additions
    whoever shares the run.
    """
    rows = X[offsets[first] : offsets[last]]
    if _is_long(offsets, first, last, X.shape[1]):
        return rows @ W[first]
    models = np.repeat(W[first:last], np.diff(offsets[first : last + 1]), axis=0)
    return row_dots(rows, models)


def row_products(X: Array, vector: Array) -> Array:
    """Return ``x_rᵀ v`` for every row, in float64: one vector that all tasks apply to their rows.

    Row by row. A library product of all rows at once adds up in an order that depends on where in
    the array a row stands, and so on how many rows other tasks have.
    """
    found = np.empty(len(X))
    tall = max(1, _CHUNK // max(1, X.shape[1]))
    for low in range(0, len(X), tall):
        # Cast before the product: numpy would cast in pieces that end in the middle of a row.
        rows = X[low : low + tall].astype(np.float64, copy=False)
        found[low : low + tall] = row_dots(rows, vector)
    return found


class NumpyKernel:
    """Segment sums in plain numpy, a cache-sized run of tasks at a time.

    Needs no compilation, works for every loss, and costs 9 to 10 memory passes over X.
    """

    def __init__(self, X: Array, y: Array, offsets: IntArray, loss: Loss) -> None:
        self._X, self._y, self._offsets, self._loss = X, y, offsets, loss

    def combine(self, W: Array, rate: Array, keep: float) -> Array:
        """Return ``keep · w_i + rate_i · Σ_r ℓ'(x_rᵀ w_i, y_r) x_r`` for every task."""
        offsets, d = self._offsets, W.shape[1]
        total = np.empty_like(W)

        def fill(run: tuple[int, int]) -> None:
            first, last = run
            rows = slice(offsets[first], offsets[last])
            z = row_predictions(self._X, W, offsets, first, last)
            slope = self._loss.derivative(z, self._y[rows])
            if _is_long(offsets, first, last, d):
                total[first] = slope @ self._X[rows]
            else:
                heads = offsets[first:last] - offsets[first]
                np.add.reduceat(self._X[rows] * slope[:, None], heads, out=total[first:last])

        batched_map(fill, task_chunks(offsets, d))
        total *= rate[:, None]
        return total + W.dtype.type(keep) * W if keep else total


class FusedKernel:
    """Compiled kernel: predictions, slopes and gradients while a block of rows is in cache."""

    def __init__(self, X: Array, y: Array, offsets: IntArray, loss: Loss) -> None:
        self._X, self._y = X, y
        self._logistic = isinstance(loss, LogisticLoss)
        self._starts, self._owner, self._heads = _segments(offsets)
        # What a task keeps of its model is added where its only segment is worked off, and
        # afterwards for a task of several: by the task's own rows, never by the longest task's.
        self._several = np.bincount(self._owner) > 1
        self._lone = (~self._several[self._owner]).astype(X.dtype)

    def combine(self, W: Array, rate: Array, keep: float) -> Array:
        """Return ``keep · w_i + rate_i · Σ_r ℓ'(x_rᵀ w_i, y_r) x_r`` for every task."""
        from tacit.numerics._fused import fused_gradient

        starts, owner = self._starts, self._owner
        n_segments = len(owner)
        out = np.empty((n_segments, W.shape[1]), dtype=W.dtype)
        # More pieces than threads, so that a thread held up elsewhere does not hold up the round,
        # but none so small that handing it out shows.
        threads = n_threads()
        pieces = min(max(threads, self._X.size // _PIECE), 16 * threads, n_segments)
        cuts = np.searchsorted(starts[1:], np.linspace(0, starts[-1], pieces + 1)[1:-1])
        bounds = [0, *cuts.tolist(), n_segments]
        kept = W.dtype.type(keep) * self._lone

        def run(piece: int) -> None:
            fused_gradient(
                self._X,
                self._y,
                starts,
                owner,
                bounds[piece],
                bounds[piece + 1],
                W,
                rate,
                kept,
                self._logistic,
                out,
            )

        parallel_map(run, range(pieces))
        if not self._several.any():
            return out
        total = np.add.reduceat(out, self._heads, axis=0)
        if keep:
            total[self._several] += W.dtype.type(keep) * W[self._several]
        return total


def _segments(offsets: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Cut long tasks into segments of rows: their starts, their tasks, each task's first one."""
    pieces = -(-np.diff(offsets) // _SEGMENT_ROWS)
    owner = np.repeat(np.arange(len(pieces)), pieces)
    heads = np.concatenate([[0], np.cumsum(pieces)[:-1]])
    starts = offsets[owner] + (np.arange(len(owner)) - heads[owner]) * _SEGMENT_ROWS
    return np.append(starts, offsets[-1]).astype(np.int64), owner, heads


def choose_kernel(X: Array, y: Array, offsets: IntArray, loss: Loss, kernel: str) -> Kernel:
    """Return the kernel asked for; ``"auto"`` decides by loss, number of tasks and of features."""
    one_of("kernel", kernel, ("auto", "numpy", "fused"))
    fusable = type(loss) in (SquaredLoss, LogisticLoss)
    if kernel == "fused" and not fusable:
        raise InvalidInput(f'kernel="fused": no compiled form of {loss!r}; use kernel="auto"')
    models = (len(offsets) - 1) * X.shape[1]
    if kernel == "fused" or (kernel == "auto" and fusable and models >= FUSED_FROM):
        return FusedKernel(X, y, offsets, loss)
    return NumpyKernel(X, y, offsets, loss)
