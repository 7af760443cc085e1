"""What models say of rows, and how much they lose by it."""

from __future__ import annotations

from collections.abc import Sequence
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


def lost(training: LocalTraining, models: Any, rows: StackedRows, scales: Sequence[float]) -> Array:
    """Return every task's summed loss (scales, m) if its outputs are taken times a scale."""
    first, counts = np.asarray(rows.first), np.asarray(rows.counts)
    index = np.repeat(np.arange(len(counts)), counts)
    own = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts) + first[index]
    outputs = outputs_of(training.model, models, np.asarray(rows.X)[own], index)
    y = np.asarray(rows.y)[own]

    def by_task(scale: float) -> Array:
        losses = np.asarray(training.loss(jnp.asarray(scale * outputs), y), dtype=np.float64)
        return np.bincount(index, losses, minlength=len(counts)).astype(np.float64)

    return np.array([by_task(scale) for scale in scales])


@partial(jax.jit, static_argnums=0)
def _applied(model: Model, models: Any, tasks: Any, blocks: Any) -> Any:
    def one(block: tuple[Any, Any]) -> Any:
        task, x = block
        return model.apply(jax.tree.map(lambda leaf: leaf[task], models), x)

    return jax.lax.map(one, (tasks, blocks))


def outputs_of(model: Model, models: Any, X: AnyArray, index: IntArray) -> Array:
    """Return the outputs (n, k) of every row under the model of its task.

    Parameters
    ----------
    models : pytree (m, …)
    X : ndarray of shape (n, d)
    index : ndarray of shape (n,)
        The row's place among the models.

    Rows are taken in blocks of one task each, the number of blocks rounded up to a power of two, so
    that little is compiled.
    """
    order = np.argsort(index, kind="stable")
    counts = np.bincount(index)
    place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    in_task = (counts + _BLOCK - 1) // _BLOCK
    block = (np.cumsum(in_task) - in_task)[index[order]] + place // _BLOCK
    n_blocks = 1 << int(in_task.sum() - 1).bit_length() if len(order) else 1
    blocks = np.zeros((n_blocks, _BLOCK, *X.shape[1:]), np.float32)
    tasks = np.zeros(n_blocks, np.int32)
    blocks[block, place % _BLOCK] = X[order]
    tasks[block] = index[order]
    applied = np.asarray(_applied(model, models, tasks, blocks), dtype=np.float64)
    outputs = np.empty((len(order), applied.shape[-1]))
    outputs[order] = applied[block, place % _BLOCK]
    return outputs
