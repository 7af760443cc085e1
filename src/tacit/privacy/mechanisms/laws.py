"""Noise laws: what a reader must know of a mechanism's noise, without knowing which one it is.

A protocol that reads a release asks its mechanism for one of these and never for its type. All of
them are public constants: the noise scale was fixed before any data were seen.

Theory of the spectra. Write a released matrix as Y = b·I + Σ_k e_k u_k u_kᵀ + N with noise N free
from the rest. An outlier of excess θ shows up at y(θ) = θ + R(1/θ), R the R-transform of the
noise's spectrum, as soon as y'(θ) > 0, and its observed eigenvector v has overlap ⟨u, v⟩² = y'(θ)
(Baik, Ben Arous & Péché 2005; Benaych-Georges & Nadakuditi 2011).
"""

from __future__ import annotations

import math
import typing
from dataclasses import dataclass

import numpy as np

from tacit._types import Array

__all__ = ["Coordinates", "NoiseSpectrum", "Semicircle", "WishartDifference"]


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

    def scaled(self, factor: float) -> NoiseSpectrum:
        """Return the law of ``factor`` times this noise."""
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

    def scaled(self, factor: float) -> Semicircle:
        """Return the law of ``factor`` times this noise."""
        return Semicircle(self.variance * factor**2)


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

    def scaled(self, factor: float) -> WishartDifference:
        """Return the law of ``factor`` times this noise."""
        return WishartDifference(self.unit * factor, self.extra * factor**2)


@dataclass(frozen=True)
class Coordinates:
    """Independent noise on d coordinates: normal, or Laplace with ``heavy=True``."""

    scale: float
    heavy: bool = False

    @property
    def edge(self) -> float:
        """What one coordinate's noise exceeds once in about a thousand draws."""
        return self.scale * (6.2 if self.heavy else 3.1)

    def largest(self, count: int) -> float:
        """Return what the largest of ``count`` noises exceeds once in ten draws."""
        if self.heavy:
            return self.scale * math.log(5 * count)
        return self.scale * math.sqrt(2 * math.log(4 * count))

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
        from scipy.special import chdtri

        return scatter <= float(chdtri(degrees, 0.05))

    def log_likelihood(self, noise: Array) -> Array:
        """Return the log-density of the noise, up to a constant."""
        z = noise / self.scale
        return -np.abs(z) if self.heavy else -0.5 * z * z

    def scaled(self, factor: float) -> Coordinates:
        """Return the law of ``factor`` times this noise."""
        return Coordinates(self.scale * factor, self.heavy)
