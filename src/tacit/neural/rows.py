"""Rows of a stack of tasks, as the compiled kernel reads them: contiguous, ragged, unpadded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from tacit._types import IntArray
from tacit.errors import InvalidInput

__all__ = ["Slice", "StackedRows", "order_of", "shuffled"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StackedRows:
    """X (N, …), y (N,) sorted by task, on the device; rows of task i start at ``first[i]``."""

    X: Any
    y: Any
    first: Any
    counts: Any

    @classmethod
    def of(cls, X: ArrayLike, y: ArrayLike, offsets: IntArray) -> StackedRows:
        """Put rows on the device as float32 (whole-number targets stay whole numbers)."""
        X, y = np.asarray(X), np.asarray(y)
        if len(X) != len(y) or len(X) != offsets[-1]:
            raise InvalidInput(
                f"offsets: end at {offsets[-1]}, but X has {len(X)} rows and y {len(y)}"
            )
        if len(X) >= 2**31:
            raise InvalidInput(f"X: {len(X)} rows; a stack holds fewer than 2**31, use batches")
        whole = np.issubdtype(y.dtype, np.integer)
        return cls(
            jnp.asarray(X, jnp.float32),
            jnp.asarray(y, jnp.int32 if whole else jnp.float32),
            jnp.asarray(offsets[:-1], jnp.int32),
            jnp.asarray(np.diff(offsets), jnp.int32),
        )

    def of_tasks(self, positions: IntArray) -> StackedRows:
        """Return the tasks at ``positions``; the arrays of rows stay, so that nothing compiles."""
        return replace(self, first=self.first[positions], counts=self.counts[positions])

    def of_task(self, position: Any) -> Slice:
        """Return the rows of one task."""
        return Slice(self.X, self.y, self.first[position], self.counts[position])


@dataclass(frozen=True)
class Slice:
    """Rows ``first … first + count − 1`` of X and y; all four are traced."""

    X: Any
    y: Any
    first: Any
    count: Any

    def take(self, index: Any) -> tuple[Any, Any]:
        """Return the rows of this task at ``index`` (n,)."""
        return self.X[self.first + index], self.y[self.first + index]

    def block(self, number: Any, size: int) -> tuple[Any, Any, Any]:
        """Return X, y and weights (1, or 0 in the padding) of rows ``number · size …`` in order."""
        position = number * size + jnp.arange(size)
        real = position < self.count
        return *self.take(jnp.minimum(position, self.count - 1)), real.astype(jnp.float32)

    def minibatch(self, order: Any, batch: Any, size: int) -> tuple[Any, Any, Any]:
        """Return X, y and weights (1, or 0 in the padding) of one minibatch of an epoch's order."""
        position = batch * size + jnp.arange(size)
        real = position < self.count
        index = shuffled(jnp.minimum(position, self.count - 1), self.count, order)
        return *self.take(index), real.astype(jnp.float32)


def order_of(key: Any, epoch: Any) -> Any:
    """Return what `shuffled` needs to know of the key's order in an epoch."""
    return jax.random.bits(jax.random.fold_in(key, epoch), (4,), jnp.uint32)


def _mixed(words: Any) -> Any:
    """Return well-mixed 32-bit words (the finaliser of MurmurHash3)."""
    words = (words ^ (words >> 16)) * jnp.uint32(0x85EBCA6B)
    words = (words ^ (words >> 13)) * jnp.uint32(0xC2B2AE35)
    return words ^ (words >> 16)


def shuffled(position: Any, count: Any, order: Any) -> Any:
    """Return where ``position`` (n,) of 0 … count − 1 goes in the permutation of an `order_of`.

    A Feistel network on the next power of four, walked until it lands below ``count``: every
    entry by itself, so that order needs no padded buffer, no sort and nothing of any other task.
    """
    bits = 32 - jax.lax.clz(jnp.maximum(count, 2).astype(jnp.uint32) - 1)
    half = (bits + 1) // 2
    mask = (jnp.uint32(1) << half) - 1

    def network(value: Any) -> Any:
        left, right = value >> half, value & mask
        for word in order:
            left, right = right, left ^ (_mixed(right ^ word) & mask)
        return (left << half) | right

    limit = count.astype(jnp.uint32)
    walked = jax.lax.while_loop(
        lambda value: jnp.any(value >= limit),
        lambda value: jnp.where(value >= limit, network(value), value),
        network(position.astype(jnp.uint32)),
    )
    return walked.astype(jnp.int32)
