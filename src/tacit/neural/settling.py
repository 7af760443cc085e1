"""After the last release: every task settles by its own rows how far to follow the centre.

A task trains on either half of its rows and looks how well the other half is predicted: alone from
the public opening, or from the centre under its pull, by small or by large steps. It then trains on
all its rows in the way that did best. Free under joint DP, as nothing but the task's own rows and
the releases is read, and nothing leaves it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.neural.cohort import LocalTraining, train_cohort
from tacit.neural.models import Model
from tacit.neural.pulls import Quadratic
from tacit.neural.rows import StackedRows

__all__ = ["outputs_of", "settled"]

_BLOCK = 16  # rows of one task that are predicted together


@dataclass(frozen=True)
class _Way:
    """One way to end: where to begin, and how long the steps, relative to the learning rate."""

    from_centre: bool
    steps: float


# Nobody knows how features are scaled, so both small and large steps are tried.
_WAYS = tuple(_Way(start, steps) for start in (True, False) for steps in (1, 10))
_ALONE = 1e-3  # pull to the opening of a task that learns alone


def settled(
    training: LocalTraining,
    rows: StackedRows,
    centre: Any,
    opening: Any,
    *,
    keys: AnyArray,
    turn: int,
    strength: float,
    learning_rate: float,
) -> Any:
    """Return personal models (m, …), each trained in the way that its own rows prefer.

    Guarantee: joint DP at no cost; model i is a function of task i's rows and key and of releases.
    """
    training = replace(training, pull=Quadratic())
    known: dict[str, Any] = {
        "keys": keys,
        "turn": turn,
        "strength": strength,
        "learning_rate": learning_rate,
    }
    errors = np.zeros((len(_WAYS), len(keys)))
    halves = _halves(rows)
    for learn, held in (halves, halves[::-1]):
        for number, way in enumerate(_WAYS):
            models = _ended(way, training, learn, np.arange(len(keys)), centre, opening, **known)
            errors[number] += _errors(training, models, held)
    # What is no number loses; ties go to the centre.
    best = np.argmin(np.where(np.isfinite(errors), errors, np.inf), axis=0)
    found = jax.tree.map(lambda leaf: np.empty((len(keys), *leaf.shape), np.float32), centre)
    for number, way in enumerate(_WAYS):
        own = np.flatnonzero(best == number)
        models = _ended(way, training, rows, own, centre, opening, **known)
        jax.tree.map(partial(_put, own), found, models)
    return found


def _put(own: IntArray, stack: AnyArray, leaf: AnyArray) -> None:
    stack[own] = leaf


def _halves(rows: StackedRows) -> tuple[StackedRows, StackedRows]:
    """Return every other row of every task, and the rest.

    Both are slices of arrays of one shape, so that nothing is compiled for them.
    """
    first, counts = np.asarray(rows.first), np.asarray(rows.counts)
    task = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(task)) - first[task]
    order = np.lexsort((place, place % 2, task))
    X, y, even = rows.X[order], rows.y[order], (counts + 1) // 2
    return (
        replace(rows, X=X, y=y, counts=jnp.asarray(even)),
        replace(rows, X=X, y=y, first=jnp.asarray(first + even), counts=jnp.asarray(counts - even)),
    )


def _ended(
    way: _Way,
    training: LocalTraining,
    rows: StackedRows,
    positions: IntArray,
    centre: Any,
    opening: Any,
    *,
    strength: float,
    learning_rate: float,
    **known: Any,
) -> Any:
    """Return the models (b, …) of the tasks at ``positions``, ended in one way."""
    first = centre if way.from_centre else opening

    def repeated(leaf: Any, count: int) -> AnyArray:
        return np.array(np.broadcast_to(np.asarray(leaf, np.float32), (count, *leaf.shape)))

    found = jax.tree.map(lambda leaf: repeated(leaf, len(positions)), first)
    if not len(positions):
        return found
    m = len(known["keys"])
    starts = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (m, *leaf.shape)), first)
    done = 0
    for part in train_cohort(
        training,
        rows,
        positions,
        centre=first,
        models=starts,
        strength=strength if way.from_centre else _ALONE,
        learning_rate=way.steps * learning_rate,
        **known,
    ):
        own = np.arange(done, done + len(part.positions))
        jax.tree.map(partial(_put, own), found, part.models)
        done += len(own)
    return found


def _errors(training: LocalTraining, models: Any, rows: StackedRows) -> Array:
    """Return every task's wrong classes, the loss settling ties, or its summed loss on numbers."""
    first, counts = np.asarray(rows.first), np.asarray(rows.counts)
    index = np.repeat(np.arange(len(counts)), counts)
    own = np.arange(len(index)) - np.repeat(np.cumsum(counts) - counts, counts) + first[index]
    outputs = outputs_of(training.model, models, np.asarray(rows.X)[own], index)
    y = np.asarray(rows.y)[own]
    losses = np.asarray(training.loss(jnp.asarray(outputs), y), dtype=np.float64)
    if np.issubdtype(y.dtype, np.integer):
        losses = (outputs.argmax(axis=1) != y) + 1e-3 * np.tanh(losses / 10)
    return np.bincount(index, losses, minlength=len(counts)).astype(np.float64)


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
