"""Gaussian noise in shares: every party adds a part, and only the sum is ever seen.

A party sends its message plus normal noise, rounded once to a public grid, through a protocol for
secure sums. With n parties and a declared least number k of honest ones, a share has the k-th part
of the variance that the guarantee needs; with all n present the sum has n/k times that variance.

Guarantee (both mechanisms). Let k honest parties send R(m_i + Z_i) on a grid of step 1, Z_i normal
of variance σ², R rounding to the nearest whole number, and let everything else be known. The sum of
the k is 1/z-GDP for the scale √k σ = z·S, up to the total variation (1 + 4q)^(k−1) − 1 per entry,
q = exp(−2π²·kσ²/k²).

Proof. Put Y_i = m_i + Z_i, T = ΣY_i and V_i = Y_i − T/k. T is normal with mean Σm_i and variance
kσ²: the ideal Gaussian mechanism. V is independent of T, and the sum is F(T, V) = Σ R(T/k + V_i),
which does not change when V moves by a vector of whole numbers that add up to zero. So V matters
only modulo the lattice A_{k−1} of these vectors. Its law on that torus is a wrapped normal whose
Fourier coefficients at ξ in the dual lattice have size exp(−2π²σ²‖ξ‖²), whatever its mean. Every
ξ ≠ 0 is the projection of a z ∈ ℤᵏ with last entry 0, and ‖ξ‖² = ‖z‖² − (Σz)²/k ≥ ‖z‖²/k, so the
distance from the uniform law is at most ½ Σ_{z≠0} exp(−2π²σ²‖z‖²/k) ≤ ½((1 + 4q)^(k−1) − 1). With
the uniform law in its place the sum is a random function of T whose randomness knows nothing of the
messages: post-processing. The replacement is made once for either of two neighbours. ∎

The grid has at least 2²⁰ steps in √k σ (2²⁰/√2 off the diagonal of a matrix), so that
q ≤ exp(−π²·2⁴⁰/k²): below 10⁻⁴⁰⁰ for up to 100 000 honest parties, and more are refused. That is
the whole gap; messages need not lie on the grid, and nothing is paid for rounding. Further honest
parties only add independent noise.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._check import positive_integer
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.privacy.mechanisms.matrices import SymmetricGaussian, perturb_symmetric
from tacit.privacy.mechanisms.release import Floats
from tacit.privacy.mechanisms.vectors import Gaussian, up
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.noise.perturb import grid_of, perturb_gaussian

__all__ = ["MOST_HONEST", "DistributedGaussian", "DistributedSymmetricGaussian", "Shares"]

MOST_HONEST = 100_000


@dataclass(frozen=True)
class Shares(ABC):
    """How noise is cut: ``n_shares`` parties, of whom ``min_honest`` are enough."""

    sensitivity: float
    noise_multiplier: float
    n_shares: int
    min_honest: int

    def _check_shares(self) -> None:
        positive_integer("n_shares", self.n_shares, remedy="it is the number of parties")
        positive_integer("min_honest", self.min_honest, remedy="at least one party is honest")
        if self.min_honest > min(self.n_shares, MOST_HONEST):
            raise InvalidInput(
                f"min_honest={self.min_honest}: must be at most the {self.n_shares} parties and "
                f"at most {MOST_HONEST}"
            )

    @property
    def scale(self) -> float:
        """Deviation of the noise on the sum of all shares."""
        return up(self._needed * math.sqrt(self.n_shares / self.min_honest))

    @property
    def _needed(self) -> float:
        return up(self.sensitivity * self.noise_multiplier)

    @property
    def share_scale(self) -> float:
        """Deviation of one party's share."""
        return up(up(self._needed / math.sqrt(self.min_honest)))

    @property
    def step(self) -> float:
        """The public grid on which shares lie and add up exactly."""
        return grid_of(self._needed)

    @abstractmethod
    def at_home(self, messages: Array, entropy: Entropy) -> Array:
        """Return messages with their shares of the noise, on the public grid."""

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return the sum of all shares, the first of them on ``value``."""
        first = np.asarray(value, dtype=np.float64)
        parts = np.zeros((self.n_shares, *first.shape))
        parts[0] = first
        return np.asarray(self.at_home(parts, entropy).sum(axis=0), dtype=np.float64)


@dataclass(frozen=True)
class DistributedGaussian(Shares, Gaussian):
    """`Gaussian` noise in shares; the guarantee of the module docstring."""

    name: ClassVar[str] = "distributed-gaussian"
    serves: ClassVar[tuple[str, ...]] = ()  # made by a schedule for its place of noise

    def __post_init__(self) -> None:
        Gaussian.__post_init__(self)
        self._check_shares()

    def at_home(self, messages: Array, entropy: Entropy) -> Array:
        """Return messages with their shares of the noise, on the public grid."""
        return perturb_gaussian(messages, self.share_scale, entropy, step=self.step)


@dataclass(frozen=True)
class DistributedSymmetricGaussian(Shares, SymmetricGaussian):
    """`SymmetricGaussian` noise in shares; the guarantee of the module docstring."""

    name: ClassVar[str] = "distributed-symmetric-gaussian"
    serves: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        SymmetricGaussian.__post_init__(self)
        self._check_shares()

    def at_home(self, messages: Array, entropy: Entropy) -> Array:
        """Return messages with their shares of the noise, on the public grid."""
        return perturb_symmetric(messages, self.share_scale, entropy, step=self.step)
