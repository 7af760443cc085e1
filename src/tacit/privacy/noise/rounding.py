"""Adding exact real noise to floats and rounding the sum to a public grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._check import positive
from tacit.errors import InvalidInput
from tacit.privacy.noise.reals import intervals, nearest_integer, settle

__all__ = ["Noise", "add_noise", "checked_scale", "finite", "grid_of"]

Floats = NDArray[np.float64]
_GRID_BITS = 20
_LARGEST = 2.0**400


@dataclass(frozen=True)
class Noise:
    """Real noise in grid steps: floats, a bound on their error, and enclosures on demand.

    ``error`` bounds |steps − exact| plus the rounding of one addition to a number below 1.
    """

    steps: Floats
    error: float | Floats
    enclosure: Callable[[int, int], Any]


def grid_of(scale: float, bits: int = _GRID_BITS) -> float:
    """Return the grid step for a noise scale: the power of two with 2ᵇ ≤ scale / step < 2ᵇ⁺¹."""
    return math.ldexp(1.0, math.frexp(scale)[1] - 1 - bits)


def checked_scale(scale: float) -> float:
    """Return a noise scale that is positive and far from the ends of the float range."""
    scale = positive("scale", scale, remedy="give the noise's standard deviation or scale")
    if not 1 / _LARGEST <= scale <= _LARGEST:
        raise InvalidInput(f"scale={scale!r}: must lie between 2**-400 and 2**400; rescale")
    return scale


def finite(value: ArrayLike) -> Floats:
    """Return ``value`` as a float64 array, or raise if an entry is not finite (or absurd)."""
    array = np.asarray(value, dtype=np.float64)
    # A comparison is false for NaN, so this refuses NaN, infinities and overflow-prone values.
    if array.size and not (array.max() <= _LARGEST and array.min() >= -_LARGEST):
        raise InvalidInput("value: must be finite and at most 2**400; bound the messages first")
    return array


def add_noise(value: Floats, step: float, noise: Noise) -> Floats:
    """Return value + noise rounded to the nearest multiple of ``step``; ``value`` is flat.

    Guarantee: exact. Dividing by a power of two, splitting off the nearest whole number and
    multiplying by a power of two are exact in floating point. Which whole number the remaining
    fraction plus the noise is nearest to is read off the floats where their error cannot change
    it, and settled by enclosures elsewhere. A zero is always +0.0: the sign of a zero would tell
    on which side of it the value, or the noise, lay.
    """
    units = value / step
    whole = np.rint(units)
    fraction = units - whole
    total = fraction + noise.steps
    nearest = np.rint(total)
    total -= nearest
    np.abs(total, out=total)
    for index in np.flatnonzero(total > 0.5 - noise.error):
        nearest[index] = _settled(noise, int(index), float(fraction[index]))
    whole += nearest
    whole *= step
    whole += 0.0  # −0.0 + 0.0 is +0.0
    return whole


def _settled(noise: Noise, index: int, fraction: float) -> int:
    return int(
        settle(
            lambda bits: nearest_integer(noise.enclosure(index, bits) + intervals().mpf(fraction))
        )
    )
