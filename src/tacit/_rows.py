"""Products of rows, one number a row, in an order of additions that depends on no other row."""

from __future__ import annotations

import numpy as np

from tacit._types import Array

__all__ = ["row_dots"]

_PIECE = 4096


def row_dots(left: Array, right: Array) -> Array:
    """Return Σ_d left[…, d] · right[…, d]; both of one type, their other axes broadcast.

    In pieces of columns. A row of more than 8192 numbers that stands alone in its array is added up
    by numpy in another order than the same row among others, so that its last bits would tell
    whether there are others: how many rows, or tasks of its size, the other parties have.
    """
    total: Array = np.einsum("...d,...d->...", left[..., :_PIECE], right[..., :_PIECE])
    for low in range(_PIECE, left.shape[-1], _PIECE):
        part = slice(low, low + _PIECE)
        total += np.einsum("...d,...d->...", left[..., part], right[..., part])
    return total
