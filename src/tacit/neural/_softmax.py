"""Turns of large multinomial logistic models on a CPU, by a compiled kernel instead of XLA.

Which path is taken depends on the model and the training, which are public, not on anybody's rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray, IntArray
from tacit.neural._local import LocalTraining, Own
from tacit.neural.losses import cross_entropy
from tacit.neural.pulls import NoPull, Quadratic
from tacit.neural.rows import StackedRows, order_of
from tacit.privacy.bounds import VectorClip
from tacit.privacy.clipped_sums import ClippedSum

__all__ = ["hand_over", "parcels", "suits", "sum_of"]

# Below this many weights a turn takes some ten microseconds, and importing a compiler is not worth
# its second.
_FROM = 8192
_LANES = 16
_KEYS = 256  # whose orders are drawn at once: one shape, whatever the cohort


def suits(training: LocalTraining, centre: Any, backend: str) -> bool:
    """Return whether the kernel does what this training asks for, and is worth its compiling."""
    return (
        backend == "cpu"
        and training.model.softmax
        and training.loss is cross_entropy
        and isinstance(training.pull, NoPull | Quadratic)
        and not training.full_batch
        and centre["weight"].size >= _FROM
    )


@partial(jax.jit, static_argnums=2)
def _drawn(keys: Any, turn: Any, epochs: int) -> Any:
    def one(key: Any) -> Any:
        key = jax.random.fold_in(jax.random.wrap_key_data(key), turn)
        return jax.vmap(partial(order_of, key))(jnp.arange(epochs))

    return jax.vmap(one)(keys)


def _orders(keys: AnyArray, turn: int, epochs: int) -> AnyArray:
    """Return the words of every key's orders (b, epochs, 4), those that `local_turn` would use."""
    found = np.empty((len(keys), epochs, 4), np.uint32)
    for low in range(0, len(keys), _KEYS):
        part = keys[low : low + _KEYS]
        filled = np.resize(part, (_KEYS, *part.shape[1:]))
        found[low : low + _KEYS] = np.asarray(_drawn(filled, np.uint32(turn), epochs))[: len(part)]
    return found


def _room(centre: Any) -> tuple[int, int]:
    """Return how a model is laid out: padded outputs, and features, the constant and padding."""
    d, k = np.shape(centre["weight"])
    return -(-k // 3) * 3, -(-(d + 1) // _LANES) * _LANES


def _laid(params: Any, room: tuple[int, int]) -> AnyArray:
    """Return models (…, d, k) as the kernel takes them: (…, *room), the constant last."""
    weight, bias = np.asarray(params["weight"]), np.asarray(params["bias"])
    *some, d, k = weight.shape
    laid = np.zeros((*some, *room), np.float32)
    laid[..., :k, :d] = np.swapaxes(weight, -1, -2)
    laid[..., :k, d] = bias
    return laid


def sum_of(centre: Any, bound: VectorClip) -> ClippedSum:
    """Return a sum of updates as they lie in the kernel, where none need be laid out anew."""
    return ClippedSum(bound, [_room(centre)])


def hand_over(laid: ClippedSum, centre: Any, total: ClippedSum) -> None:
    """Add a sum of the kernel's layout to one of parameters in the order of leaves."""
    d, k = np.shape(centre["weight"])
    (lines,) = laid.parts
    total.merge([lines[:k, d], lines[:k, :d].T], laid.count)


def parcels(
    training: LocalTraining,
    rows: StackedRows,
    positions: IntArray,
    centre: Any,
    models: Any,
    owns: Own,
    turn: int,
    clip: float,
    total: ClippedSum | None,
) -> Callable[[IntArray], tuple[Any, Any]]:
    """Return what trains some of ``positions``, given their places there: models and updates.

    With a ``total`` of `sum_of`, updates are added to it, and None is returned for them.
    """
    from tacit.neural._softmax_kernel import leave, lines, turns

    d, k = np.shape(centre["weight"])
    room = width, high = _room(centre)
    X = np.asarray(rows.X).reshape(len(rows.X), -1)
    y, first, counts = (np.asarray(a, np.int32) for a in (rows.y, rows.first, rows.counts))
    laid = _laid(centre, room)
    # As many orders as there may be passes: every step of a task with one minibatch is one.
    epochs = training.epochs if training.steps is None else training.steps
    orders = _orders(owns.key[positions], turn, epochs)
    pulled = isinstance(training.pull, Quadratic)
    strengths = owns.strength if pulled else np.zeros_like(owns.strength)
    spare: list[AnyArray] = []  # one a stream: new memory costs as much as writing it

    def parcel(places: IntArray) -> tuple[Any, Any]:
        chosen = positions[places]
        b, kept = len(chosen), np.empty((0, *room), np.float32)
        starts = kept
        if models is not None:
            starts = _laid(jax.tree.map(lambda leaf: leaf[chosen], models), room)
            kept = np.empty_like(starts)
        ways = spare.pop() if spare else lines(b * width, high)
        if len(ways) < b * width:
            ways = lines(b * width, high)
        updates = ways[: b * width].reshape(b, width, high)
        turns(
            X, y, first[chosen], counts[chosen], orders[places], laid, starts,
            owns.rate[chosen], strengths[chosen], training.batch_size, training.steps or 0, k,
            float(clip), updates, kept,
        )  # fmt: skip
        said = ends = None
        if total is not None:
            total.add([updates])
        else:
            said = {
                "weight": np.empty((b, d, k), np.float32),
                "bias": np.empty((b, k), np.float32),
            }
            leave(updates, said["weight"], said["bias"])
        spare.append(ways)
        if models is not None:
            ends = {
                "weight": np.ascontiguousarray(np.swapaxes(kept[:, :k, :d], 1, 2)),
                "bias": np.ascontiguousarray(kept[:, :k, d]),
            }
        return ends, said

    return parcel
