"""Messages cut to a public norm, on a public step, in floating point.

A bounded message has norm ≤ radius in exact arithmetic: the computed norm of D
entries errs by a relative (D + 8)·2⁻⁵³ at most, so clipping aims at radius·(1 − (D + 16)·2⁻⁵²),
and the entries are then cut, towards zero, to multiples of a public step, 2⁻³⁰ of the radius
rounded up to a power of two. Multiples of one step add up exactly in float64, in any order, for up
to 2²³ messages (2²³ · 2³⁰ steps are 2⁵³), so the sum of bounded vectors has exactly the sensitivity
stated, without rounding; more messages are refused. For a second moment the step is 2⁻¹⁶ of the
radius: products are multiples of its square, 2³² of which make K², and their sums are exact for up
to 2²¹ messages, through any matrix product. Partial sums of any parts therefore add up to the same
bits, on one machine or on many, and as whole numbers of steps.

What is done to a message depends on that message alone, bit for bit. One that is NaN or infinite
anywhere counts as the zero message: refusing it would tell everybody about it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._rows import row_dots
from tacit.errors import InvalidInput

__all__ = ["MOMENT_BITS", "VECTOR_BITS", "finite_messages", "rescaled", "row_norms"]

Floats = NDArray[np.float64]
VECTOR_BITS, MOMENT_BITS = 30, 16
# Below this a message has no direction to keep: it counts as zero.
_TINY = 2.0**-400
_CACHED = 1 << 15  # numbers bounded at once


def _real_messages(messages: ArrayLike) -> Floats:
    array = np.asarray(messages)
    if array.ndim < 2:
        raise InvalidInput(f"messages: must have shape (units, …), not {array.shape}")
    if not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array):
        raise InvalidInput(f"messages: must be real numbers, not {array.dtype}")
    return array.astype(np.float64, copy=False)


def finite_messages(messages: ArrayLike) -> Floats:
    """Return the messages with zero in place of every one that is not finite throughout."""
    array = _real_messages(messages)
    finite = np.isfinite(array).reshape(len(array), -1).all(axis=1)
    if finite.all():
        return array
    return np.where(finite.reshape(-1, *(1,) * (array.ndim - 1)), array, 0.0)


def row_norms(flat: Floats) -> Floats:
    """Return row norms, free of overflow and underflow, infinite for a row that is not finite.

    Each is a function of its row alone. Between the limits no square overflowed, and what
    underflowed is below 2⁻²⁷⁰ of their sum.
    """
    squares = row_dots(flat, flat)
    norms: Floats = np.sqrt(squares)
    odd = np.flatnonzero(~((squares > _TINY**2) & (squares < _TINY**-2)))
    if odd.size:
        largest = np.max(np.abs(flat[odd]), axis=1, initial=0.0)
        scaled = flat[odd] / np.where(largest > 0, largest, 1.0)[:, None]
        # Where even the scaled norm overflows it is infinite, and the message is scaled to zero.
        found = largest * np.sqrt(row_dots(scaled, scaled))
        norms[odd] = np.where(np.isfinite(largest), found, np.inf)
    return norms


def rescaled(messages: ArrayLike, radius: float, bits: int, *, always: bool) -> Floats:
    """Return messages of norm ≤ radius on its step of ``bits``; ``always`` moves short ones up."""
    if math.isinf(radius):
        return finite_messages(messages)
    array = _real_messages(messages)
    flat = np.ascontiguousarray(array.reshape(array.shape[0], -1))
    target = radius * (1 - (flat.shape[1] + 16) * 2.0**-52)
    least, step = _TINY if always else target, _step(radius, bits)
    bounded = np.empty_like(flat)
    tall = max(1, _CACHED // max(1, flat.shape[1]))
    for low in range(0, len(flat), tall):
        with np.errstate(all="ignore"):
            norms = row_norms(flat[low : low + tall])
            factors = np.divide(target, norms, out=np.ones_like(norms), where=norms > least)
            # A subnormal factor has too few bits to aim with; such a message is cut to zero.
            cut = factors < 2.0**-900
            part = np.multiply(
                flat[low : low + tall], (factors / step)[:, None], out=bounded[low : low + tall]
            )
            np.trunc(part, out=part)
            part *= step
            part[cut] = 0.0  # and so is one that is not finite
    return bounded.reshape(array.shape)


def _step(radius: float, bits: int) -> float:
    return math.ldexp(1.0, math.frexp(radius)[1] - bits)
