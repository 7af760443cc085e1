"""Noise that is safe in floating point: exact real noise, rounded to a public grid.

Every ``perturb_…`` function returns ``value + Z`` rounded to the nearest point of a grid, where Z
is an *ideal real* random variable (`tacit.privacy.noise.reals` says how a computer can sample one).

Guarantee: the result is a post-processing (the rounding) of the ideal mechanism on real numbers,
whose input is the float ``value`` taken exactly. Hence its privacy is that of the ideal mechanism,
with no discretisation, total-variation or sensitivity term to add: the continuous Gaussian's
curve, and pure ε for Laplace, gamma-vector and Wishart noise. The grid is a power of two chosen
from the noise's scale alone: 2²⁰ ≤ scale / grid < 2²¹, unless another public one is given. Value
and noise are added as whole numbers of grid steps and scaled once; a result beyond 2⁵³ steps is
rounded again to the nearest float, which is post-processing too. How long a draw takes is not
protected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.errors import InvalidInput
from tacit.numerics.threads import parallel_map
from tacit.privacy.noise.entropy import Entropy, SeededEntropy, SystemEntropy, entropy_from
from tacit.privacy.noise.reals import (
    EXPONENTIAL_ERROR,
    NORMAL_ERROR,
    LazyExponentials,
    LazyNormals,
    intervals,
)
from tacit.privacy.noise.rounding import Noise, add_noise, checked_scale, finite, grid_of

__all__ = [
    "Entropy",
    "SeededEntropy",
    "SystemEntropy",
    "entropy_from",
    "gamma_vector",
    "gaussian",
    "grid_of",
    "laplace",
    "perturb_gamma_vector",
    "perturb_gaussian",
    "perturb_laplace",
    "perturb_wishart",
    "wishart",
]

Floats = NDArray[np.float64]
Size = int | tuple[int, ...]
# 2¹⁴ draws and their words stay in the second-level cache.
_BLOCK = 1 << 14
# Half as many, where the blocks are free: arrays so small stay with the allocator, which gives
# larger ones back to the system and pays for every page again.
_SHARE = 1 << 13
# Covers the floating-point roundings of a handful of operations on noise of a given size.
_ROUNDINGS = 2.0**-50


def gaussian(scale: float, size: Size, entropy: Entropy, *, step: float | None = None) -> Floats:
    """Return independent N(0, scale²) noise rounded to ``step`` (default ``grid_of(scale)``)."""
    return perturb_gaussian(np.zeros(size), scale, entropy, step=step)


def laplace(scale: float, size: Size, entropy: Entropy) -> Floats:
    """Return independent Laplace(scale) noise rounded to ``grid_of(scale)``."""
    return perturb_laplace(np.zeros(size), scale, entropy)


def gamma_vector(
    scale: float, size: Size, entropy: Entropy, *, step: float | None = None
) -> Floats:
    """Return one array with density ∝ exp(−‖z‖₂ / scale), rounded to a grid."""
    return perturb_gamma_vector(np.zeros(size), scale, entropy, step=step)


def wishart(scale: float, dimension: int, entropy: Entropy, *, two_sided: bool = True) -> Floats:
    """Return W_d(d + 1, scale·I) noise, or the difference of two, rounded to a grid."""
    return perturb_wishart(np.zeros((dimension, dimension)), scale, entropy, two_sided=two_sided)


def perturb_gaussian(
    value: ArrayLike, scale: float | Floats, entropy: Entropy, *, step: float | None = None
) -> Floats:
    """Return ``value`` plus independent normal noise, rounded to a grid.

    Parameters
    ----------
    value
        Finite array of any shape.
    scale
        Standard deviation, one for all or one per entry; the grid follows the largest.
    entropy
        Where the random bits come from.
    step
        Another grid, a public power of two.

    Guarantee: the rounding of the ideal continuous Gaussian mechanism (module docstring).
    """
    array = finite(value)
    largest = checked_scale(float(np.max(scale)))
    step = grid_of(largest) if step is None else step
    deviations = np.broadcast_to(np.asarray(scale, dtype=np.float64), array.shape).reshape(-1)

    def noise(first: int, last: int) -> Noise:
        normals = LazyNormals(last - first, entropy)
        deviation = deviations[first:last] / step
        return Noise(
            deviation * normals.approximate,
            # A normal beyond 40 deviations has probability 2⁻¹¹⁵⁷.
            largest / step * (NORMAL_ERROR + 40 * 2.0**-52) + _ROUNDINGS,
            lambda index, bits: (
                intervals().mpf(float(deviation[index])) * normals.enclosure(index, bits)
            ),
        )

    return _in_blocks(array, step, noise, entropy)


def perturb_laplace(value: ArrayLike, scale: float, entropy: Entropy) -> Floats:
    """Return ``value`` plus independent Laplace(``scale``) noise, rounded to a grid.

    Guarantee: the rounding of the ideal continuous Laplace mechanism (module docstring).
    """
    array = finite(value)
    step = grid_of(checked_scale(scale))
    width = scale / step

    def noise(first: int, last: int) -> Noise:
        exponentials = LazyExponentials(last - first, entropy)
        signed = np.where(_coins(last - first, entropy), width, -width)
        steps = signed * exponentials.approximate
        return Noise(
            steps,
            width * EXPONENTIAL_ERROR + _ROUNDINGS * (1 + np.abs(steps)),
            lambda index, bits: (
                intervals().mpf(float(signed[index])) * exponentials.enclosure(index, bits)
            ),
        )

    return _in_blocks(array, step, noise, entropy)


def perturb_gamma_vector(
    value: ArrayLike,
    scale: float,
    entropy: Entropy,
    *,
    rows: bool = False,
    step: float | None = None,
) -> Floats:
    """Return ``value`` plus noise of density ∝ exp(−‖z‖₂ / scale), rounded to a grid.

    Parameters
    ----------
    value
        Finite array; the norm runs over all of its D entries.
    scale
        S / ε for a value of ℓ2 sensitivity S.
    entropy
        Where the random bits come from.
    rows
        Draw a vector for every entry of axis 0 on its own (noise at the tasks).
    step
        Another grid, a public power of two.

    Guarantee: the rounding of the ideal mechanism. The noise is scale·‖H‖·G with G ~ N(0, I_D) and
    H ~ N(0, I_{D+1}) independent. ‖G‖‖H‖ is Gamma(D, 1): by Legendre's duplication formula the
    product of independent χ²_D and χ²_{D+1} variables is distributed like the square of a
    Gamma(D, 1) variable. G / ‖G‖ is a uniform direction. That is the density above.
    """
    array = finite(value)
    vectors = array.reshape(array.shape[0] if rows else 1, -1)
    n_vectors, dimension = vectors.shape
    usual = grid_of(checked_scale(scale) * math.sqrt(dimension + 1))
    step = usual if step is None else step
    # Blocks hold whole vectors, whose entries share their ‖H‖.
    per_block = max(1, _BLOCK // max(1, dimension))
    released = np.empty_like(vectors)
    for first in range(0, n_vectors, per_block):
        block = vectors[first : first + per_block]
        noise = _gamma_noise(scale / step, block.shape[0], dimension, entropy)
        released[first : first + per_block] = add_noise(block.reshape(-1), step, noise).reshape(
            block.shape
        )
    return released.reshape(array.shape)


def perturb_wishart(
    value: ArrayLike, scale: float, entropy: Entropy, *, two_sided: bool = True
) -> Floats:
    """Return symmetric matrices plus Wishart noise A (or A − B), rounded to a grid.

    Parameters
    ----------
    value
        Finite symmetric matrix (d, d), or a stack (…, d, d); every matrix gets its own noise.
    scale
        A, B ~ W_d(d + 1, scale·I), that is density ∝ exp(−tr A / (2·scale)) on the PSD cone.
    entropy
        Where the random bits come from.
    two_sided
        Add A − B rather than A. One-sided noise is not private (`tacit.privacy.published`).

    Guarantee: the rounding of the ideal mechanism, entry by entry of the upper triangle (mirrored).
    A = scale·G Gᵀ for a d x (d + 1) matrix G of exact real normals; floating-point products carry
    the error bound of `_wishart_noise`, and an entry they cannot settle is settled by enclosures of
    the two rows of G it depends on.
    """
    array = symmetric(value)
    dimension = array.shape[-1]
    step = grid_of(checked_scale(scale) * math.sqrt(dimension + 1))
    upper = np.triu_indices(dimension)
    released = np.empty_like(array)
    for matrix, target in zip(
        array.reshape(-1, dimension, dimension),
        released.reshape(-1, dimension, dimension),
        strict=True,
    ):
        noise = _wishart_noise(scale / step, dimension, upper, entropy, two_sided)
        target[upper] = add_noise(matrix[upper], step, noise)
        target.T[upper] = target[upper]
    return released


def symmetric(value: ArrayLike) -> Floats:
    """Return the symmetric part of (…, d, d), refusing what is plainly not symmetric.

    Guarantee: taking the symmetric part shrinks no distance less than the Frobenius and trace norms
    already bound, so sensitivities stand.
    """
    array = finite(value)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise InvalidInput(f"value: must be square matrices (…, d, d), not {array.shape}")
    transposed = np.swapaxes(array, -1, -2)
    if not np.allclose(array, transposed, rtol=1e-6, atol=1e-9 * float(np.max(np.abs(array)))):
        raise InvalidInput("value: must be symmetric; release another matrix with 'gaussian'")
    return (array + transposed) / 2


def _in_blocks(
    array: Floats, step: float, noise: Callable[[int, int], Noise], entropy: Entropy
) -> Floats:
    """Add noise block by block, on all threads where nobody can tell who drew first.

    Guarantee: every entry gets its own words whichever thread asks for them, so the law is the same
    for any blocks and any threads. A source that repeats itself is asked in one order, in blocks of
    one size: the same bits on every machine.
    """
    flat = array.reshape(-1)
    released = np.empty_like(flat)

    size = _BLOCK if entropy.repeats else _SHARE
    starts = range(0, flat.size, size)

    def fill(first: int) -> None:
        last = min(first + size, flat.size)
        released[first:last] = add_noise(flat[first:last], step, noise(first, last))

    if entropy.repeats:
        for first in starts:
            fill(first)
    else:
        parallel_map(fill, starts)
    return released.reshape(array.shape)


def _coins(count: int, entropy: Entropy) -> NDArray[np.bool_]:
    words = entropy.words(-(-count // 64))
    return np.unpackbits(words.view(np.uint8), count=count).view(np.bool_)


def _gamma_noise(width: float, n_vectors: int, dimension: int, entropy: Entropy) -> Noise:
    directions = LazyNormals(n_vectors * dimension, entropy)
    radii = LazyNormals(n_vectors * (dimension + 1), entropy)
    squares = (radii.approximate**2).reshape(n_vectors, dimension + 1)
    norms = np.sqrt([math.fsum(row) for row in squares] if dimension > 64 else squares.sum(axis=1))
    # The norm is 1-Lipschitz; its own arithmetic errs by at most (64 + 4) roundings.
    norm_error = math.sqrt(dimension + 1) * NORMAL_ERROR + norms * 68 * 2.0**-53
    steps = width * (norms[:, None] * directions.approximate.reshape(n_vectors, dimension))
    error = width * (
        norm_error[:, None] * (np.abs(directions.approximate).reshape(n_vectors, -1) + 1)
        + norms[:, None] * NORMAL_ERROR
    ) + _ROUNDINGS * (1 + np.abs(steps))

    def enclosure(index: int, bits: int) -> Any:
        context = intervals()
        first = (index // dimension) * (dimension + 1)
        squared = sum(
            (radii.enclosure(i, bits) ** 2 for i in range(first, first + dimension + 1)),
            context.mpf(0),
        )
        return context.mpf(width) * context.sqrt(squared) * directions.enclosure(index, bits)

    return Noise(steps.reshape(-1), error.reshape(-1), enclosure)


def _wishart_noise(
    width: float,
    dimension: int,
    upper: tuple[NDArray[np.intp], NDArray[np.intp]],
    entropy: Entropy,
    two_sided: bool,
) -> Noise:
    """Return the upper triangle of width·(G Gᵀ − H Hᵀ) with its error bound.

    With rows g, h of n = d + 1 normals each known to e = 2⁻⁴³, |g·h − g̃·h̃| ≤
    e√n (‖g̃‖ + ‖h̃‖ + e√n) by Cauchy–Schwarz, and a floating-point dot product in any order errs
    by at most n·2⁻⁵³·‖g̃‖‖h̃‖ to first order (doubled here).
    """
    degrees = dimension + 1
    sides = [LazyNormals(dimension * degrees, entropy) for _ in range(2 if two_sided else 1)]
    steps = np.zeros((dimension, dimension))
    error = np.zeros((dimension, dimension))
    for sign, normals in zip((1, -1), sides, strict=False):
        factor = normals.approximate.reshape(dimension, degrees)
        steps += sign * (factor @ factor.T)
        norms = np.sqrt((factor**2).sum(axis=1)) * (1 + 1e-9)
        known = NORMAL_ERROR * math.sqrt(degrees)
        error += known * (norms[:, None] + norms[None, :] + known)
        error += 2 * degrees * 2.0**-53 * np.outer(norms, norms)
    steps *= width
    error *= width
    error += _ROUNDINGS * (1 + np.abs(steps))

    def enclosure(index: int, bits: int) -> Any:
        row, column = int(upper[0][index]), int(upper[1][index])
        total = intervals().mpf(0)
        for sign, normals in zip((1, -1), sides, strict=False):
            for k in range(degrees):
                left = normals.enclosure(row * degrees + k, bits)
                right = normals.enclosure(column * degrees + k, bits)
                # A square is not the product of two independent intervals.
                total += sign * (left**2 if row == column else left * right)
        return intervals().mpf(width) * total

    return Noise(steps[upper], error[upper], enclosure)
