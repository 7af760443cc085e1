"""Noise-aware shrinkers: from a noisy second moment to the shared shape of the tasks' models.

Everything here is post-processing of a release and of public constants (noise law, trace, number
of tasks), so it costs no budget. The common result is a `Shape`: directions that stand out of the
noise, by how much, and a floor shared by all directions. As noise grows nothing stands out and the
shape is the identity, that is, plain single-task learning.

Theory. Write the release as Y = b·I + Σ_k e_k u_k u_kᵀ + N with noise N free from the rest. An
outlier of excess θ shows up at y(θ) = θ + R(1/θ), R the R-transform of the noise's spectrum, as
soon as y'(θ) > 0, and its observed eigenvector v has overlap ⟨u, v⟩² = y'(θ) (Baik, Ben Arous &
Péché 2005; Benaych-Georges & Nadakuditi 2011). Inverting y(·) removes the bias of the eigenvalue;
multiplying by the overlap gives the best rotation-invariant estimate in squared error, and what is
taken from an outlier returns to the floor, so that the trace is kept.

In finite dimension the noise's own largest eigenvalue passes the edge about once in six draws
(Tracy & Widom 1996, β = 1) by a relative d^(−2/3); an outlier counts only beyond that margin,
which pure noise passes about once in a hundred draws. No eigenvalue of a positive matrix exceeds
its trace, so noise whose edge does can show nothing, and the shape is flat for certain.
"""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.numerics.shared_map import symmetric_spectrum
from tacit.privacy.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    SymmetricGaussian,
    TwoSidedWishart,
)

__all__ = [
    "Coordinates",
    "NoiseSpectrum",
    "Semicircle",
    "Shape",
    "WishartDifference",
    "deepest_fall",
    "safe_shift",
    "shrink_diagonal",
    "shrink_spectrum",
]

_RELEVANT = 0.25  # prior share of features that matter
_FALL_PROBABILITY = 1e-6  # over all rounds of a run
_LEAST_FLOOR = 1e-6  # keeps a shape invertible when every direction stands out


class NoiseSpectrum(typing.Protocol):
    """The limiting spectrum of a noise matrix: where outliers appear and how much they turn."""

    @property
    def edge(self) -> float:
        """Largest eigenvalue of the noise alone."""
        ...

    def excess(self, observed: Array) -> Array:
        """Return the true excess behind outliers observed above the edge."""
        ...

    def overlap(self, excess: Array) -> Array:
        """Return the squared overlap of observed and true eigenvector."""
        ...

    def widened(self, variance: float) -> NoiseSpectrum:
        """Return this noise plus independent noise of that (semicircle) variance."""
        ...


@dataclass(frozen=True)
class Semicircle:
    """Symmetric Gaussian noise: entries N(0, s²) on the diagonal, N(0, s²/2) off it.

    The spectrum tends to a semicircle of variance d s²/2, so R(g) = (d s²/2) g,
    y(θ) = θ + d s²/(2θ), edge s√(2d) and overlap 1 − d s²/(2θ²).
    """

    variance: float

    @classmethod
    def of_gaussian(cls, scale: float, n_features: int) -> Semicircle:
        """Return the spectrum of symmetric Gaussian noise with standard deviation ``scale``."""
        return cls(n_features * scale**2 / 2)

    @property
    def edge(self) -> float:
        """Largest eigenvalue of the noise alone."""
        return 2 * math.sqrt(self.variance)

    def excess(self, observed: Array) -> Array:
        """Return the true excess behind outliers observed above the edge."""
        inside = np.maximum(observed**2 - 4 * self.variance, 0.0)
        return (observed + np.sqrt(inside)) / 2

    def overlap(self, excess: Array) -> Array:
        """Return the squared overlap of observed and true eigenvector."""
        return np.clip(1 - self.variance / np.maximum(excess, 1e-300) ** 2, 0.0, 1.0)

    def widened(self, variance: float) -> Semicircle:
        """Return this noise plus an independent semicircle of that variance."""
        return Semicircle(self.variance + variance)


@dataclass(frozen=True)
class WishartDifference:
    """Difference of two independent W_d(d + 1, c·I) matrices, possibly plus a semicircle.

    In units of u = c·d each part is a Marchenko–Pastur law of ratio 1 with R(g) = 1/(1 − g); their
    difference has R(g) = 2g/(1 − g²) and the edge √((11 + 5√5)/2)·u ≈ 3.33·u.
    """

    unit: float
    extra: float = 0.0  # variance of an additional semicircle

    @classmethod
    def of_wishart(cls, scale: float, n_features: int) -> WishartDifference:
        """Return the spectrum of A − B with A, B ~ W_d(d + 1, scale·I)."""
        return cls(scale * (n_features + 1))

    def _observed(self, excess: Array) -> Array:
        ratio = self.unit / excess
        return excess + 2 * self.unit * ratio / (1 - ratio**2) + self.extra / excess

    @property
    def _threshold(self) -> float:
        """Smallest excess that shows: the root of y'(θ) = 0, found by bisection."""
        low, high = self.unit * (1 + 1e-9), 10 * self.unit + 10 * math.sqrt(self.extra)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self._slope(np.array(middle)) > 0 else (middle, high)
        return high

    def _slope(self, excess: Array) -> Array:
        square = (self.unit / excess) ** 2
        return 1 - 2 * square * (1 + square) / (1 - square) ** 2 - self.extra / excess**2

    @property
    def edge(self) -> float:
        """Largest eigenvalue of the noise alone."""
        return float(self._observed(np.array(self._threshold)))

    def excess(self, observed: Array) -> Array:
        """Return the true excess behind outliers observed above the edge."""
        low = np.full_like(observed, self._threshold)
        high = np.maximum(observed, low)
        for _ in range(60):
            middle = (low + high) / 2
            above = self._observed(middle) > observed
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return high

    def overlap(self, excess: Array) -> Array:
        """Return the squared overlap of observed and true eigenvector."""
        safe = np.maximum(excess, self.unit * (1 + 1e-9))
        return np.clip(self._slope(safe), 0.0, 1.0)

    def widened(self, variance: float) -> WishartDifference:
        """Return this noise plus an independent semicircle of that variance."""
        return WishartDifference(self.unit, self.extra + variance)


@dataclass(frozen=True)
class Coordinates:
    """Independent noise on d coordinates: normal, or Laplace with ``heavy=True``."""

    scale: float
    heavy: bool = False

    @property
    def edge(self) -> float:
        """What one coordinate's noise exceeds once in about a thousand draws."""
        return self.scale * (6.2 if self.heavy else 3.1)

    def explains(self, values: Array) -> bool:
        """Whether ``values`` scatter no more than equal numbers under this noise would.

        A χ² test of d − 1 degrees of freedom (Laplace noise: its normal approximation), wrong
        once in twenty releases when all numbers are equal.
        """
        if values.size < 2:
            return True
        scatter = float(np.sum((values - values.mean()) ** 2)) / self.scale**2
        degrees = values.size - 1
        if self.heavy:
            return scatter <= 2 * degrees + 1.64 * math.sqrt(20 * degrees)
        return scatter <= float(chdtri(degrees, 0.05))

    def log_likelihood(self, noise: Array) -> Array:
        """Return the log-density of the noise, up to a constant."""
        z = noise / self.scale
        return -np.abs(z) if self.heavy else -0.5 * z * z


@dataclass(frozen=True)
class Shape:
    """What the tasks' models have in common, up to scale: excess along directions, and a floor.

    ``vectors`` (d, d) has the directions in its columns, None for the coordinate axes.
    """

    excess: Array
    floor: float
    vectors: Array | None = None

    @property
    def flat(self) -> bool:
        """Whether nothing stands out, so that the shape carries no information."""
        return not bool((self.excess > 0).any())

    def leading(self, count: int) -> Shape:
        """Return the shape with the ``count`` largest excesses; the others return to the floor."""
        kept = np.zeros_like(self.excess)
        largest = np.argsort(-self.excess, kind="stable")[:count]
        kept[largest] = self.excess[largest]
        spread = float(self.excess.sum() - kept.sum()) / kept.size
        return Shape(kept, self.floor + spread, self.vectors)

    def eigenvalues(self, floor_share: float = 1.0) -> Array:
        """Return the eigenvalues with the floor multiplied by ``floor_share``, mean 1."""
        lowest = _LEAST_FLOOR * (self.floor + float(self.excess.max(initial=0.0)))
        values = self.excess + max(self.floor * floor_share, lowest, 1e-300)
        return values / values.mean()

    def covariance(self, floor_share: float = 1.0) -> Array:
        """Return the (d, d) covariance of that spectrum."""
        values = self.eigenvalues(floor_share)
        if self.vectors is None:
            return np.diag(values)
        return (self.vectors * values) @ self.vectors.T


def _settle(observed: Array, trace: float, excess_above: typing.Callable[[float], Array]) -> float:
    """Return the floor b with d·b + Σ excess(b) = trace, from above (the least sharing one)."""
    floor = trace / observed.size
    for _ in range(200):
        updated = max((trace - float(excess_above(floor).sum())) / observed.size, 0.0)
        if abs(updated - floor) <= 1e-10 * trace:
            break
        floor = (floor + updated) / 2
    return floor


def _within(excess: Array, trace: float) -> Array:
    """Return excesses that do not add up to more than the trace."""
    return excess * min(1.0, trace / max(float(excess.sum()), 1e-300))


def shrink_spectrum(
    matrix: Array, noise: NoiseSpectrum, *, trace: float, n_tasks: int | None = None
) -> Shape:
    """Return the shape behind a noisy second moment of known trace.

    The eigenvalues of a finite sample spread around their floor b like a Marchenko–Pastur law of
    ratio d/n_tasks, to first order a semicircle of variance b² d/n_tasks; it is added to the noise.

    Guarantee: post-processing of ``matrix`` with public constants.
    """
    values, vectors = symmetric_spectrum((matrix + matrix.T) / 2)
    n_features = values.size
    margin = 1 + n_features ** (-2 / 3)

    def excess_above(floor: float) -> Array:
        spread = 0.0 if n_tasks is None else floor**2 * n_features / n_tasks
        law = noise.widened(spread)
        shown = values - floor
        outlier = (shown > margin * law.edge) & (margin * law.edge < trace)
        excess = np.zeros_like(shown)
        theta = law.excess(shown[outlier])
        excess[outlier] = theta * law.overlap(theta)
        return excess

    floor = _settle(values, trace, excess_above)
    return Shape(_within(excess_above(floor), trace), floor, vectors)


def shrink_diagonal(values: Array, noise: Coordinates, *, trace: float) -> Shape:
    """Return the shape behind noisy squared feature norms of known sum.

    The excess of a coordinate over the floor is its posterior mean, under the prior that one
    feature in four matters, by anything up to half of the trace. If noise alone explains the
    differences between features, the shape is flat.

    Guarantee: post-processing of ``values`` with public constants.
    """
    if noise.explains(values):
        return Shape(np.zeros(values.size), trace / values.size)
    sizes = trace * np.concatenate([[0.0], np.geomspace(1e-4, 0.5, 160)])
    weights = np.concatenate([[1 - _RELEVANT], _RELEVANT * np.diff(sizes) / sizes[-1]])

    def excess_above(floor: float) -> Array:
        likelihood = noise.log_likelihood(values[:, None] - floor - sizes)
        likelihood -= likelihood.max(axis=1, keepdims=True)
        posterior = np.exp(likelihood) * weights
        return np.asarray(posterior @ sizes / posterior.sum(axis=1))

    floor = _settle(values, trace, excess_above)
    excess = excess_above(floor)
    # What doubt gives to every feature alike is part of the estimate, not of the floor, which is
    # mostly estimation error and may be cut: cutting doubt would turn noise into contrast.
    return Shape(excess, floor)


def deepest_fall(mechanism: Mechanism, n_features: int, n_rounds: int) -> float:
    """Return what the noise of ``n_rounds`` releases pulls no eigenvalue (or coordinate) down by.

    Guarantee: for a positive semidefinite aggregate, the chance that any eigenvalue of any of the
    releases lies below minus this is at most 1e-6. By Weyl's inequality it lies above the noise's
    own smallest eigenvalue; with L = log(n_rounds / 1e-6), d = ``n_features`` and scale s:

    - symmetric Gaussian noise: s(√(2d) + √(2L)). The mean of the largest eigenvalue is at most
      s√(2d), by comparison with √2 s⟨g, u⟩ (Sudakov and Fernique), and it is s-Lipschitz in the
      normals (Borell, Tsirelson, Ibragimov and Sudakov).
    - two-sided Wishart noise A − B: s(√d + √(d + 1) + √(2L))² bounds the largest eigenvalue of
      B = s G Gᵀ, G a d × (d + 1) matrix of normals (Davidson and Szarek 2001, Theorem II.13).
    - d coordinates, by the union bound: s√(2(L + log d)) for normal and s(L + log d) for Laplace
      noise.
    """
    log_odds = math.log(n_rounds / _FALL_PROBABILITY)
    match mechanism:
        case SymmetricGaussian():
            return mechanism.scale * (math.sqrt(2 * n_features) + math.sqrt(2 * log_odds))
        case TwoSidedWishart():
            root = math.sqrt(n_features) + math.sqrt(n_features + 1) + math.sqrt(2 * log_odds)
            return mechanism.scale * root**2
        case Laplace():
            return mechanism.scale * (log_odds + math.log(n_features))
        case Gaussian():
            return mechanism.scale * math.sqrt(2 * (log_odds + math.log(n_features)))
    raise InvalidInput(
        f"mechanism={mechanism.name!r}: how deep its noise falls is not known; use one of "
        "'gaussian', 'laplace' and 'two-sided-wishart'"
    )


def safe_shift(values: Array, fall: float) -> Array:
    """Return eigenvalues (or squared norms) moved up by the noise's `deepest_fall`.

    All but once in a million runs that leaves every one above zero. What is left below a quarter of
    the fall is set there, so that the paper's soft threshold max(0, 1 − ηλ/√Λ) *surely* keeps
    1 − 2ηλ/√fall of every direction, which tends to one as the noise grows, whatever its sign.
    """
    return np.maximum(values + fall, fall / 4)
