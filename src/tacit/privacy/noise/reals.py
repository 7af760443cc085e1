"""Exact real random variables: known to about 2⁻⁴³ at once, to any precision on demand.

Floating-point noise leaks because its low bits depend on how it was computed (Mironov 2012).
The remedy here is to sample *real* numbers, and to let only their roundings to a public grid out.

A uniform real U is an endless string of random bits. Its first 64 bits are drawn; floating-point
arithmetic then gives the wanted function of U with an error below a proven bound. That settles to
which grid point the real number rounds, except when it lies within the error of the midpoint of
two grid points. Then, and only then, more bits of the *same* U are drawn and the function is
evaluated again with rigorous interval arithmetic, until the interval settles it (with probability
one after finitely many bits). What comes out is therefore distributed exactly as the rounding of
the ideal real variable.

The only assumption: the floating-point ``log``, ``sin`` and ``cos`` of the platform err by at
most 4 units in the last place (numpy tests its own to that; glibc promises 1), and mpmath's
interval functions enclose. The bounds below leave a factor of two beyond this.

*Normals* (Box–Muller, L = −log U, r = √(2L), θ = 2πV, (r cos θ, r sin θ)). U is re-evaluated by
intervals outside [2⁻¹⁹, 1 − 2⁻¹⁹], which happens once in 2¹⁸ pairs. Inside, with the middle of the
interval that 63 bits leave, the error of L is at most 2⁻⁴⁵ (bits unknown) + 2⁻⁵³ (conversion)
+ 4 ulp, hence that of r at most 2⁻⁴⁴ at r = 2⁻⁹ (where 2⁻⁵³ / r dominates) and less elsewhere;
that of θ is at most 3·2π·2⁻⁵³ and that of sin, cos 2⁻⁵¹, times r ≤ 5.14: below 2⁻⁴⁶. Together
below `NORMAL_ERROR` = 2⁻⁴³.

*Exponentials* (−log U): re-evaluated below U = 2⁻¹⁹; above, at most 2⁻⁴⁵ + 2⁻⁵³ + 4 ulp(13.2)
< 2⁻⁴⁴; `EXPONENTIAL_ERROR` = 2⁻⁴³.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.noise.entropy import Entropy

__all__ = [
    "EXPONENTIAL_ERROR",
    "NORMAL_ERROR",
    "LazyExponentials",
    "LazyNormals",
    "LazyUniforms",
    "endpoints",
    "floor_of",
    "intervals",
    "nearest_integer",
    "settle",
]

NORMAL_ERROR = 2.0**-43
EXPONENTIAL_ERROR = 2.0**-43
_START_BITS = 128
_settling = threading.RLock()
_LOW_WORD = np.uint64(1 << 45)
_HIGH_WORD = np.uint64((1 << 64) - (1 << 45))

Floats = NDArray[np.float64]
Interval = Any


def _own_lock() -> None:
    """Give a forked process a lock of its own: who held its parent's is not there to free it."""
    global _settling
    _settling = threading.RLock()


os.register_at_fork(after_in_child=_own_lock)


@cache
def intervals() -> Any:
    """Return mpmath's interval arithmetic in a context of our own (imported on first need)."""
    from mpmath.ctx_iv import MPIntervalContext

    return MPIntervalContext()


def endpoints(interval: Interval) -> tuple[Fraction, Fraction] | None:
    """Return an interval's ends as exact rationals, or None if one of them is infinite."""
    from mpmath.libmp import finf, fninf, to_rational

    low, high = interval._mpi_
    if low == fninf or high == finf:
        return None
    return Fraction(*to_rational(low)), Fraction(*to_rational(high))


def settle(attempt: Callable[[int], Any]) -> Any:
    """Return the first answer of ``attempt(bits)`` that is not None, doubling the precision.

    One at a time: mpmath keeps the precision, and constants it has computed, for all threads.
    """
    bits = _START_BITS
    with _settling:
        while (answer := attempt(bits)) is None:
            bits *= 2
    return answer


def floor_of(interval: Interval) -> int | None:
    """Return the floor shared by the whole interval, or None."""
    ends = endpoints(interval)
    if ends is None or math.floor(ends[0]) != math.floor(ends[1]):
        return None
    return math.floor(ends[0])


def nearest_integer(interval: Interval) -> int | None:
    """Return the integer nearest to every point of the interval, or None."""
    return floor_of(interval + intervals().mpf(0.5))


class LazyUniforms:
    """Uniform reals on (0, 1): 64 bits each at once, more of the same real on demand."""

    def __init__(self, count: int, entropy: Entropy) -> None:
        self.words = entropy.words(count)
        self._entropy = entropy
        self._longer: dict[int, tuple[int, int]] = {}

    def approximate(self) -> Floats:
        """Return the uniforms as floats in (0, 1]."""
        # 63 bits: processors convert signed integers several times faster than unsigned ones.
        floats: Floats = (self.words >> np.uint64(1)).view(np.int64).astype(np.float64)
        floats += 0.5
        floats *= 2.0**-63
        return floats

    def enclosure(self, index: int, bits: int) -> Interval:
        """Return an interval of width 2**-bits (a multiple of 64) around one uniform."""
        prefix, known = self._longer.get(index, (int(self.words[index]), 64))
        if known < bits:
            n_words = -(-(bits - known) // 64)
            prefix = (prefix << (64 * n_words)) | self._entropy.integer(n_words)
            known += 64 * n_words
            self._longer[index] = (prefix, known)
        context = intervals()
        context.prec = known + 64
        return context.mpf([prefix, prefix + 1]) / context.mpf(1 << known)


class LazyExponentials:
    """Standard exponential reals; ``approximate`` errs by at most `EXPONENTIAL_ERROR`."""

    def __init__(self, count: int, entropy: Entropy) -> None:
        self._uniforms = LazyUniforms(count, entropy)
        self.approximate: Floats = -np.log(self._uniforms.approximate())
        for index in np.flatnonzero(self._uniforms.words < _LOW_WORD):
            self.approximate[index] = _as_float(self, int(index))

    def enclosure(self, index: int, bits: int) -> Interval:
        """Return an interval around one exponential from ``bits`` bits of its uniform."""
        return -_log(self._uniforms.enclosure(int(index), bits))


class LazyNormals:
    """Independent standard normal reals; ``approximate`` errs by at most `NORMAL_ERROR`."""

    def __init__(self, count: int, entropy: Entropy) -> None:
        self._n_pairs = n_pairs = -(-count // 2)
        self._uniforms = LazyUniforms(2 * n_pairs, entropy)
        uniforms = self._uniforms.approximate()
        radius = np.log(uniforms[:n_pairs])
        radius *= -2.0
        np.sqrt(radius, out=radius)
        angle = uniforms[n_pairs:]
        angle *= 2 * np.pi
        both = np.empty((2, n_pairs))
        np.cos(angle, out=both[0])
        np.sin(angle, out=both[1])
        both *= radius
        self.approximate: Floats = both.reshape(-1)[:count]
        words = self._uniforms.words[:n_pairs]
        for pair in np.flatnonzero((words < _LOW_WORD) | (words > _HIGH_WORD)):
            for index in range(int(pair), count, n_pairs):
                self.approximate[index] = _as_float(self, index)

    def enclosure(self, index: int, bits: int) -> Interval:
        """Return an interval around one normal from ``bits`` bits of its two uniforms."""
        half, pair = divmod(int(index), self._n_pairs)
        logarithm = _log(self._uniforms.enclosure(pair, bits))
        turn = self._uniforms.enclosure(self._n_pairs + pair, bits)
        context = intervals()
        angle = 2 * context.pi * turn
        return context.sqrt(-2 * logarithm) * (context.sin(angle) if half else context.cos(angle))


def _log(uniform: Interval) -> Interval:
    """Return the logarithm of an interval within [0, 1], its upper end cut at 0."""
    context = intervals()
    if uniform.a == 0:
        # Not one of the bits drawn so far is set: all that is known is an upper bound.
        return context.mpf(["-inf", context.log(uniform.b).b])
    logarithm = context.log(uniform)
    return context.mpf([logarithm.a, 0]) if uniform.b >= 1 else logarithm


def _as_float(reals: LazyExponentials | LazyNormals, index: int) -> float:
    """Return one real to within 2**-60 and the rounding to a float."""
    return float(settle(lambda bits: _midpoint(reals.enclosure(index, bits))))


def _midpoint(interval: Interval) -> float | None:
    """Return the middle of an interval as a float, or None while it is wider than 2**-60."""
    ends = endpoints(interval)
    if ends is None or ends[1] - ends[0] >= Fraction(1, 2**60):
        return None
    return float((ends[0] + ends[1]) / 2)
