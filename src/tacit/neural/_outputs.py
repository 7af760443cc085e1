"""What models say of rows, and how much they lose by it.

Rows are taken in blocks of one task each, whose shape is a constant: what is computed for a task is
the same to the bit whoever else is in the stack. The number of blocks is rounded up to a power of
two, so that little is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.neural._local import LocalTraining
from tacit.neural.models import Model
from tacit.neural.rows import StackedRows

__all__ = ["lost", "outputs_of"]

_BLOCK = 16  # rows of one task that are predicted together


@dataclass(frozen=True, eq=False)
class _Blocks:
    """Where rows stand among blocks: row i at ``place[i]`` of block ``block[i]``."""

    block: IntArray
    place: IntArray
    tasks: IntArray  # of every block

    @classmethod
    def of(cls, index: IntArray) -> _Blocks:
        """Return the blocks of rows whose tasks are ``index`` (n,)."""
        order = np.argsort(index, kind="stable")
        counts = np.bincount(index)
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        in_task = (counts + _BLOCK - 1) // _BLOCK
        block = (np.cumsum(in_task) - in_task)[index[order]] + place // _BLOCK
        n_blocks = 1 << int(in_task.sum() - 1).bit_length() if len(order) else 1
        tasks = np.zeros(n_blocks, np.int32)
        tasks[block] = index[order]
        back = np.argsort(order, kind="stable")
        return cls(block[back], place[back] % _BLOCK, tasks)

    def filled(self, rows: AnyArray) -> AnyArray:
        """Return the rows in their blocks (blocks, 16, …), zeros in the padding."""
        kind = np.int32 if np.issubdtype(rows.dtype, np.integer) else np.float32
        blocks = np.zeros((len(self.tasks), _BLOCK, *rows.shape[1:]), kind)
        blocks[self.block, self.place] = rows
        return blocks

    def taken(self, blocks: Any) -> Array:
        """Return what blocks (blocks, 16, …) hold for every row."""
        return np.asarray(blocks, dtype=np.float64)[self.block, self.place]


@partial(jax.jit, static_argnums=0)
def _applied(model: Model, models: Any, tasks: Any, blocks: Any) -> Any:
    def one(block: tuple[Any, Any]) -> Any:
        task, x = block
        return model.apply(jax.tree.map(lambda leaf: leaf[task], models), x)

    return jax.lax.map(one, (tasks, blocks))


@partial(jax.jit, static_argnums=(0, 1))
def _compared(
    training: LocalTraining, scales: tuple[float, ...], outputs: Any, targets: Any
) -> Any:
    def one(block: tuple[Any, Any]) -> Any:
        scores, y = block
        return jnp.stack([training.loss(scale * scores, y) for scale in scales], axis=-1)

    return jax.lax.map(one, (outputs, targets))


def outputs_of(model: Model, models: Any, X: AnyArray, index: IntArray) -> Array:
    """Return the outputs (n, k) of every row under the model of its task.

    Parameters
    ----------
    models : pytree (m, …)
    X : ndarray of shape (n, d)
    index : ndarray of shape (n,)
        The row's place among the models.
    """
    blocks = _Blocks.of(index)
    return blocks.taken(_applied(model, models, blocks.tasks, blocks.filled(X)))


def lost(training: LocalTraining, models: Any, rows: StackedRows, scales: Sequence[float]) -> Array:
    """Return every task's summed loss (scales, m) if its outputs are taken times a scale."""
    first, counts = np.asarray(rows.first), np.asarray(rows.counts)
    index = np.repeat(np.arange(len(counts)), counts)
    own = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts) + first[index]
    blocks = _Blocks.of(index)
    X, y = np.asarray(rows.X)[own], np.asarray(rows.y)[own]
    outputs = _applied(training.model, models, blocks.tasks, blocks.filled(X))
    losses = blocks.taken(_compared(training, tuple(scales), outputs, blocks.filled(y)))
    return np.array(
        [np.bincount(index, losses[:, s], minlength=len(counts)) for s in range(len(scales))],
        dtype=np.float64,
    )
