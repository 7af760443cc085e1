"""Exact samplers of the discrete Gaussian and discrete Laplace distributions on the integers."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._check import positive
from tacit.errors import InvalidInput
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.noise.reals import (
    EXPONENTIAL_ERROR,
    NORMAL_ERROR,
    LazyExponentials,
    LazyNormals,
    LazyUniforms,
    endpoints,
    floor_of,
    intervals,
    nearest_integer,
    settle,
)

__all__ = ["discrete_gaussian", "discrete_laplace"]

Integers = NDArray[np.int64]
_LARGEST = 2.0**32
_BLOCK = 1 << 14


def discrete_gaussian(
    sigma_on_grid: float, size: int | tuple[int, ...], entropy: Entropy
) -> Integers:
    """Return independent integers x with probability ∝ exp(−x² / (2 sigma²)).

    Parameters
    ----------
    sigma_on_grid
        The distribution's parameter σ (its standard deviation to within 10⁻⁷ from σ = 1 up), in
        steps of the grid; at most 2³².
    size
        Shape of the result.
    entropy
        Where the random bits come from.

    Guarantee: exact, by rejection from exact reals. Draw Y ~ N(0, s²) with s² = σ² + σ (to
    rounding), x the integer nearest to Y and u = Y − x; accept x with probability exp(−γ),
    γ = M + x²/(2σ²) − (x + u)²/(2s²), M = 1/(8(s² − σ²)). The density of (x, u) given acceptance is
    ∝ exp(−(x+u)²/(2s²) − γ) ∝ exp(−x²/(2σ²)), uniform in u: the distribution wanted. γ ≥ 0 because
    (|x| + ½)²/(2s²) − x²/(2σ²) is largest at |x| = σ²/(2(s² − σ²)), where it equals M. About
    1 − 1/(2σ) of the draws are accepted. Rounding and acceptance are read off floats where their
    error cannot matter, and settled by enclosures with more random bits elsewhere.
    """
    sigma = _checked("sigma_on_grid", sigma_on_grid)
    return _filled(size, lambda count: _gaussian_candidates(sigma, count, entropy))


def discrete_laplace(
    scale_on_grid: float, size: int | tuple[int, ...], entropy: Entropy
) -> Integers:
    """Return independent integers x with probability ∝ exp(−|x| / scale).

    Guarantee: exact. The floor of scale times an exponential real is geometric with ratio
    exp(−1/scale); with a random sign, and minus zero refused, it is the distribution above. The
    floor is settled by enclosures where floats cannot.
    """
    scale = _checked("scale_on_grid", scale_on_grid)
    return _filled(size, lambda count: _laplace_candidates(scale, count, entropy))


def _checked(name: str, value: float) -> float:
    value = positive(name, value, remedy="give the noise in grid steps")
    if not 1 / _LARGEST <= value <= _LARGEST:
        raise InvalidInput(f"{name}={value!r}: must lie between 2**-32 and 2**32; coarsen the grid")
    return value


def _filled(size: int | tuple[int, ...], candidates: Any) -> Integers:
    result = np.empty(size, dtype=np.int64)
    flat = result.reshape(-1)
    done = 0
    while done < flat.size:
        accepted = candidates(min(_BLOCK, flat.size - done + 16))[: flat.size - done]
        flat[done : done + accepted.size] = accepted
        done += accepted.size
    return result


def _gaussian_candidates(sigma: float, count: int, entropy: Entropy) -> Integers:
    """Return the accepted ones among ``count`` proposals."""
    spread = math.sqrt(sigma * sigma + sigma)
    # All the real numbers of the acceptance rule are these rationals, whatever the rounding of s.
    variance, wide = Fraction(sigma) ** 2, Fraction(spread) ** 2
    peak = 1 / (8 * (wide - variance))
    outer = (wide - variance) / (2 * variance * wide)
    normals = LazyNormals(count, entropy)
    coins = LazyUniforms(count, entropy)
    proposal = spread * normals.approximate
    nearest = np.rint(proposal)
    offset = proposal - nearest
    # γ = M + x²(1/(2σ²) − 1/(2s²)) − u(2x + u)/(2s²), free of cancellation.
    inner = offset * (2 * nearest + offset) / (2 * float(wide))
    cost = float(peak) + nearest**2 * float(outer) - inner
    chance = np.exp(-cost)
    error = spread * NORMAL_ERROR + 2.0**-51 * np.abs(proposal)
    cost_error = (np.abs(nearest) + 1) * error / float(wide) + 2.0**-48 * (
        float(peak) + nearest**2 * float(outer) + np.abs(inner) + 1
    )
    gap = chance - coins.approximate()
    accepted = gap > 0
    doubtful = (np.abs(offset) > 0.5 - error) | (np.abs(gap) <= cost_error)

    def attempt(index: int, bits: int) -> tuple[int, bool] | None:
        context = intervals()
        real = context.mpf(spread) * normals.enclosure(index, bits)
        x = nearest_integer(real)
        if x is None:
            return None
        coin = coins.enclosure(index, bits)
        constant = peak + Fraction(x) ** 2 / (2 * variance)
        gamma = _interval(constant) - real**2 / _interval(2 * wide)
        decision = endpoints(context.exp(-gamma) - coin)
        if decision is None or decision[0] <= 0 <= decision[1]:
            return None
        return x, decision[0] > 0

    for index in np.flatnonzero(doubtful):
        nearest[index], accepted[index] = settle(partial(attempt, int(index)))
    return nearest[accepted].astype(np.int64)


def _laplace_candidates(scale: float, count: int, entropy: Entropy) -> Integers:
    negative = np.unpackbits(entropy.words(-(-count // 64)).view(np.uint8), count=count) == 1
    exponentials = LazyExponentials(count, entropy)
    magnitude = scale * exponentials.approximate
    floors = np.floor(magnitude)
    error = scale * EXPONENTIAL_ERROR + 2.0**-51 * (1 + magnitude)
    below = magnitude - floors

    def attempt(index: int, bits: int) -> int | None:
        return floor_of(intervals().mpf(scale) * exponentials.enclosure(index, bits))

    for index in np.flatnonzero((below < error) | (below > 1 - error)):
        floors[index] = settle(partial(attempt, int(index)))
    kept = ~(negative & (floors == 0))
    return np.where(negative, -floors, floors)[kept].astype(np.int64)


def _interval(value: Fraction) -> Any:
    context = intervals()
    return context.mpf(value.numerator) / context.mpf(value.denominator)
