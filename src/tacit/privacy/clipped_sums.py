"""The sum of clipped float32 messages in two passes over them, for messages of many numbers.

`VectorClip` bounds a stack of messages in float64, about nine passes; a network's update has
millions of numbers, and bounding it so would cost as much as training it. Here the messages are
read once for their norms and once for the sum, and nothing of their size is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from tacit._types import AnyArray
from tacit.errors import InvalidInput
from tacit.privacy.bounds import VectorClip

__all__ = ["clipped_sum"]

_STEP_BITS = 30


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the GIL, cached on disk where a cache can be written.

    The free order of sums stays within the error that clipping aims below; NaN and infinity keep
    their meaning.
    """
    free = {"reassoc", "contract"}
    try:
        compiled = numba.njit(nogil=True, cache=True, fastmath=free)(function)
    except RuntimeError:  # no writable place for the cache: compile again in every process
        compiled = numba.njit(nogil=True, fastmath=free)(function)
    return compiled


@_compiled
def _add_squares(messages: AnyArray, squares: AnyArray) -> None:
    for i in range(messages.shape[0]):
        total = 0.0
        for j in range(messages.shape[1]):
            value = np.float64(messages[i, j])
            total += value * value
        squares[i] += total


@_compiled
def _add_steps(messages: AnyArray, factors: AnyArray, total: AnyArray) -> None:
    for i in range(messages.shape[0]):
        factor = factors[i]
        if factor == 0.0:
            continue
        for j in range(messages.shape[1]):
            total[j] += np.trunc(np.float64(messages[i, j]) * factor)


def clipped_sum(
    bound: VectorClip, messages: Sequence[NDArray[np.float32]]
) -> list[NDArray[np.float64]]:
    """Return the sum over axis 0 of messages clipped jointly over all their parts.

    Parameters
    ----------
    bound : VectorClip
        The public radius.
    messages : sequence of float32 arrays (b, …)
        Parts of b messages; entry i of every part belongs to message i.

    Guarantee: as `VectorClip` and its exact sum. Norms are taken in float64, where squares of
    float32 numbers neither overflow nor vanish; their relative error is at most (D + 8)·2⁻⁵³ in any
    order of summation, and clipping aims below the radius by more; entries are cut towards zero to
    multiples of the radius's step, which add up exactly. A message that is not finite
    counts as zero, and changes nothing of what becomes of another.
    """
    parts = [part.reshape(len(part), -1) for part in messages]
    if not parts or any(part.dtype != np.float32 or len(part) != len(parts[0]) for part in parts):
        raise InvalidInput("messages: give at least one part, all float32 and of equal length")
    if math.isinf(bound.radius):
        finite = np.all([np.isfinite(part).all(axis=1) for part in parts], axis=0)
        return [part[finite].sum(axis=0, dtype=np.float64) for part in messages]
    squares = np.zeros(len(parts[0]))
    for part in parts:
        _add_squares(part, squares)
    size = sum(part.shape[1] for part in parts)
    target = bound.radius * (1 - (size + 16) * 2.0**-52)
    norms = np.sqrt(squares)
    factors = np.divide(target, norms, out=np.ones_like(norms), where=norms > target)
    factors[~np.isfinite(squares)] = 0.0
    step = math.ldexp(1.0, math.frexp(bound.radius)[1] - _STEP_BITS)
    sums = []
    for part, shaped in zip(parts, messages, strict=True):
        total = np.zeros(part.shape[1])
        _add_steps(part, factors / step, total)
        sums.append((total * step).reshape(shaped.shape[1:]))
    return sums
