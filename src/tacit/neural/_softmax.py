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

__all__ = ["parcels", "suits"]

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


def _laid(params: Any, width: int, high: int) -> AnyArray:
    """Return models (…, d, k) as the kernel takes them: (…, width, high), the constant last."""
    weight, bias = np.asarray(params["weight"]), np.asarray(params["bias"])
    *some, d, k = weight.shape
    laid = np.zeros((*some, width, high), np.float32)
    laid[..., :k, :d] = np.swapaxes(weight, -1, -2)
    laid[..., :k, d] = bias
    return laid


def parcels(
    training: LocalTraining,
    rows: StackedRows,
    positions: IntArray,
    centre: Any,
    models: Any,
    owns: Own,
    turn: int,
    clip: float,
) -> Callable[[IntArray], tuple[Any, Any]]:
    """Return what trains some of ``positions``, given their places there: models and updates."""
    from tacit.neural._softmax_kernel import turns

    d, k = np.shape(centre["weight"])
    width, high = -(-k // 4) * 4, -(-(d + 1) // _LANES) * _LANES
    X = np.asarray(rows.X).reshape(len(rows.X), -1)
    y, first, counts = (np.asarray(a, np.int32) for a in (rows.y, rows.first, rows.counts))
    laid = _laid(centre, width, high)
    # As many orders as there may be passes: every step of a task with one minibatch is one.
    epochs = training.epochs if training.steps is None else training.steps
    orders = _orders(owns.key[positions], turn, epochs)
    pulled = isinstance(training.pull, Quadratic)
    strengths = owns.strength if pulled else np.zeros_like(owns.strength)

    def parcel(places: IntArray) -> tuple[Any, Any]:
        chosen = positions[places]
        b, kept = len(chosen), np.empty((0, width, high), np.float32)
        starts = kept
        if models is not None:
            starts = _laid(jax.tree.map(lambda leaf: leaf[chosen], models), width, high)
            kept = np.empty_like(starts)
        weight, bias = np.empty((b, d, k), np.float32), np.empty((b, k), np.float32)
        turns(
            X, y, first[chosen], counts[chosen], orders[places], laid, starts,
            owns.rate[chosen], strengths[chosen], training.batch_size, training.steps or 0,
            float(clip), weight, bias, kept,
        )  # fmt: skip
        ends = None
        if models is not None:
            ends = {
                "weight": np.ascontiguousarray(np.swapaxes(kept[:, :k, :d], 1, 2)),
                "bias": np.ascontiguousarray(kept[:, :k, d]),
            }
        return ends, {"weight": weight, "bias": bias}

    return parcel
