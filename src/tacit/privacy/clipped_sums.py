"""The sum of clipped float32 messages in two passes over them, for messages of many numbers.

`VectorClip` bounds a stack of messages in float64, about nine passes; a network's update has
millions of numbers, and bounding it so would cost as much as training it. Here the messages are
read once for their norms and once for the sum, and nothing of their size is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tacit._types import AnyArray
from tacit.errors import InvalidInput
from tacit.privacy.bounds import VectorClip

__all__ = ["clipped_sum"]

_STEP_BITS = 30
_BLOCK = 1 << 16


def _blocks(part: NDArray[np.float32], number: int) -> Iterator[tuple[slice, AnyArray]]:
    """Yield one message block by block in float64, in one buffer that stays near the processor."""
    message, buffer = part[number], np.empty(min(_BLOCK, part.shape[1]))
    for low in range(0, len(message), _BLOCK):
        where = slice(low, min(low + _BLOCK, len(message)))
        block = buffer[: where.stop - low]
        block[:] = message[where]
        yield where, block


def _square(part: NDArray[np.float32], number: int) -> float:
    return sum(float(np.einsum("j,j", block, block)) for _, block in _blocks(part, number))


def _add_steps(
    part: NDArray[np.float32], number: int, factor: float, total: NDArray[np.float64]
) -> None:
    for where, block in _blocks(part, number):
        block *= factor
        np.trunc(block, out=block)
        total[where] += block


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
    numbers = range(len(parts[0]))
    squares = np.array([sum(_square(part, number) for part in parts) for number in numbers])
    size = sum(part.shape[1] for part in parts)
    target = bound.radius * (1 - (size + 16) * 2.0**-52)
    norms = np.sqrt(squares)
    factors = np.divide(target, norms, out=np.ones_like(norms), where=norms > target)
    factors[~np.isfinite(squares)] = 0.0
    step = math.ldexp(1.0, math.frexp(bound.radius)[1] - _STEP_BITS)
    sums = []
    for part, shaped in zip(parts, messages, strict=True):
        total = np.zeros(part.shape[1])
        for number in numbers:
            if factors[number]:
                _add_steps(part, number, factors[number] / step, total)
        sums.append((total * step).reshape(shaped.shape[1:]))
    return sums
