"""Compiled: norms and sums of clipped float32 messages, each read once.

Imported by `tacit.privacy.clipped_sums` only: importing Numba takes most of a second.
"""

from __future__ import annotations

import numpy as np

from tacit._compiled import compiled, reassociated
from tacit._types import AnyArray

__all__ = ["add_clipped", "square"]

_NEAR = 1 << 11  # numbers of the sum that stay near the processor while all messages are added


@reassociated
def square(message: AnyArray) -> float:
    """Return the squared norm in float64; NaN or infinite if an entry is."""
    total = 0.0
    for j in range(len(message)):
        total += np.float64(message[j]) * np.float64(message[j])
    return total


@compiled
def add_clipped(part: AnyArray, factors: AnyArray, step: float, total: AnyArray) -> None:
    """Add messages times their factors, cut towards zero to multiples of ``step``, a power of 2.

    Messages of factor 0 are left out, whatever they hold. Multiples of a power of two that add up
    to fewer than 2⁵³ of them add up exactly, in any order.
    """
    for low in range(0, len(total), _NEAR):
        block = total[low : low + _NEAR]
        for number in range(len(factors)):
            if factors[number] == 0:
                continue
            message, factor = part[number, low : low + _NEAR], factors[number] / step
            for j in range(len(block)):
                # numpy's: a float, where that of `math` is a whole number and no vector loop.
                block[j] += np.trunc(np.float64(message[j]) * factor) * step
