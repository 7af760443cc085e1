"""Noise for arrays of any shape: Gaussian, Laplace, gamma-vector, and none."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._check import positive
from tacit.privacy.mechanisms.laws import Coordinates, Semicircle
from tacit.privacy.mechanisms.release import Floats, Mechanism, log_odds, pure_event
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.noise.perturb import perturb_gamma_vector, perturb_gaussian, perturb_laplace
from tacit.privacy.unit import Adjacency, Norm

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

    from tacit.privacy.schedule import Round

__all__ = [
    "AdditiveMechanism",
    "Exact",
    "GammaVector",
    "Gaussian",
    "Laplace",
    "check_positive",
    "up",
]

_REMEDIES = {
    "sensitivity": "take it from a bound's sensitivity(norm, adjacency)",
    "sensitivity_l1": "take it from a bound's sensitivity('l1', adjacency)",
    "sensitivity_l2": "take it from a bound's sensitivity('l2', adjacency)",
    "sensitivity_trace": "take it from a bound's sensitivity('trace', adjacency)",
    "noise_multiplier": "give stddev ÷ sensitivity, for instance from calibrate(...)",
    "epsilon": "use mechanism 'exact' for epsilon=float(\"inf\")",
}


def check_positive(mechanism: Any, *names: str) -> None:
    """Store the named fields of a frozen mechanism as positive finite floats, or raise."""
    for name in names:
        number = positive(name, getattr(mechanism, name), remedy=_REMEDIES[name])
        object.__setattr__(mechanism, name, number)


def up(scale: float) -> float:
    """Return the next float: a rounded product or quotient is then not below the exact one."""
    return math.nextafter(scale, math.inf)


_RARE = 1e-4  # how often noise passes its `ceiling`


def _far(shape: float) -> float:
    """Return the far quantile of a Gamma law (SciPy is imported on first need)."""
    from scipy.special import gammaincinv

    return float(gammaincinv(shape, 1 - _RARE))


class AdditiveMechanism(Mechanism):
    """A mechanism that adds noise of a known density to its value."""

    @abstractmethod
    def log_density(self, noise: ArrayLike) -> float:
        """Return the log-density of the ideal (not yet rounded) noise at ``noise``."""

    def log_density_ratio(self, released: ArrayLike, value: ArrayLike, other: ArrayLike) -> float:
        """Return the privacy loss: log-density of ``released`` from ``value`` over ``other``."""
        output = np.asarray(released, dtype=np.float64)
        return self.log_density(output - np.asarray(value, dtype=np.float64)) - self.log_density(
            output - np.asarray(other, dtype=np.float64)
        )


@dataclass(frozen=True)
class Gaussian(AdditiveMechanism):
    """Independent normal noise on every entry of an array.

    Parameters
    ----------
    sensitivity
        ℓ2 sensitivity S of the whole array.
    noise_multiplier
        Standard deviation ÷ S.

    Guarantee: 1/noise_multiplier-GDP, hence the event `GaussianDpEvent`, for any two values within
    S of each other in ℓ2. The release is the rounding of the ideal Gaussian mechanism
    (`tacit.privacy.noise.perturb`).
    """

    sensitivity: float
    noise_multiplier: float
    name: ClassVar[str] = "gaussian"
    family: ClassVar[str] = "gaussian"
    serves: ClassVar[tuple[str, ...]] = ("vector", "counts")
    default_for: ClassVar[tuple[str, ...]] = ("vector", "counts")
    norm: ClassVar[Norm] = Norm.L2

    def __post_init__(self) -> None:
        check_positive(self, "sensitivity", "noise_multiplier")

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:
        """Return Gaussian noise for the round's ℓ2 sensitivity."""
        return cls(round.sensitivity(Norm.L2, adjacency), strength)

    @property
    def reach(self) -> float:
        """The ℓ2 sensitivity."""
        return self.sensitivity

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return the root of the expected squared norm."""
        return self.scale * math.sqrt(math.prod(shape))

    def deviation(self, shape: tuple[int, ...]) -> float:  # noqa: ARG002
        """Return the standard deviation of an entry."""
        return self.scale

    def ceiling(self, size: int) -> float:
        """Return the far quantile of a χ² law of ``size`` degrees of freedom, scaled."""
        return 2 * _far(size / 2) * self.scale**2

    def coordinates(self) -> Coordinates:
        """Return the normal law of an entry."""
        return Coordinates(self.scale)

    def fall(self, d: int, n_rounds: int) -> float:
        """Return s√(2(L + log d)), by the union bound, with L = log(n_rounds / 1e-6)."""
        return self.scale * math.sqrt(2 * (log_odds(n_rounds) + math.log(d)))

    @property
    def scale(self) -> float:
        """Standard deviation of an entry's noise."""
        return up(self.sensitivity * self.noise_multiplier)

    @property
    def event(self) -> DpEvent:
        """A Gaussian event."""
        from dp_accounting import dp_event

        return dp_event.GaussianDpEvent(self.noise_multiplier)

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` plus noise."""
        return perturb_gaussian(value, self.scale, entropy)

    def log_density(self, noise: ArrayLike) -> float:
        """Return the log-density of the ideal noise."""
        z = np.asarray(noise, dtype=np.float64) / self.scale
        return float(-0.5 * np.sum(z**2) - z.size * math.log(self.scale * math.sqrt(2 * math.pi)))


@dataclass(frozen=True)
class Laplace(AdditiveMechanism):
    """Independent Laplace noise on every entry of an array.

    Parameters
    ----------
    sensitivity_l1
        ℓ1 sensitivity S of the whole array.
    epsilon
        Pure ε of one release.

    Guarantee: ε-DP for any two values within S of each other in ℓ1, as the density of the noise,
    ∝ exp(−ε‖z‖₁ / S), changes by a factor e^ε at most. The event claims no more than that: that a
    multi-dimensional release is dominated by the one-dimensional Laplace curve is true of its Rényi
    divergences, but we have no proof for the whole curve.
    """

    sensitivity_l1: float
    epsilon: float
    name: ClassVar[str] = "laplace"
    family: ClassVar[str] = "pure"
    serves: ClassVar[tuple[str, ...]] = ("counts",)
    default_for: ClassVar[tuple[str, ...]] = ("counts",)
    norm: ClassVar[Norm] = Norm.L1

    def __post_init__(self) -> None:
        check_positive(self, "sensitivity_l1", "epsilon")

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:
        """Return Laplace noise for the round's ℓ1 sensitivity."""
        return cls(round.sensitivity(Norm.L1, adjacency), strength)

    @property
    def reach(self) -> float:
        """The ℓ1 sensitivity."""
        return self.sensitivity_l1

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return the root of the expected squared norm."""
        return self.deviation(shape) * math.sqrt(math.prod(shape))

    def deviation(self, shape: tuple[int, ...]) -> float:  # noqa: ARG002
        """Return the standard deviation of an entry."""
        return math.sqrt(2) * self.scale

    def ceiling(self, size: int) -> float:
        """Return a bound of the far quantile: ‖z‖₂ ≤ ‖z‖₁, which is Gamma(size)."""
        return (self.scale * _far(size)) ** 2

    def coordinates(self) -> Coordinates:
        """Return the two-sided exponential law of an entry."""
        return Coordinates(self.scale, heavy=True)

    def fall(self, d: int, n_rounds: int) -> float:
        """Return s(L + log d), by the union bound, with L = log(n_rounds / 1e-6)."""
        return self.scale * (log_odds(n_rounds) + math.log(d))

    @property
    def scale(self) -> float:
        """Scale S / ε of an entry's noise (standard deviation ÷ √2)."""
        return up(self.sensitivity_l1 / self.epsilon)

    @property
    def event(self) -> DpEvent:
        """A pure-ε event."""
        return pure_event(self.epsilon)

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` plus noise."""
        return perturb_laplace(value, self.scale, entropy)

    def log_density(self, noise: ArrayLike) -> float:
        """Return the log-density of the ideal noise."""
        z = np.abs(np.asarray(noise, dtype=np.float64)) / self.scale
        return float(-np.sum(z) - z.size * math.log(2 * self.scale))


@dataclass(frozen=True)
class GammaVector(AdditiveMechanism):
    """Noise with density ∝ exp(−ε‖z‖₂ / S): a uniform direction and a Gamma(D, S/ε) length.

    Parameters
    ----------
    sensitivity_l2
        ℓ2 sensitivity S of the whole array (of one row of the stack, if ``local``).
    epsilon
        Pure ε of one release.
    local
        Draw a vector for every entry of axis 0 by itself: the stack of tasks' own messages, of
        which a change of one task moves one.

    Guarantee: ε-DP for any two values within S of each other in ℓ2, since | ‖z + v‖ − ‖z‖ | ≤ ‖v‖.
    With ``local`` it holds for two stacks that differ in one row, by at most S: the other rows'
    releases have the same distribution and are independent of that row's.
    """

    sensitivity_l2: float
    epsilon: float
    local: bool = False
    name: ClassVar[str] = "gamma-vector"
    family: ClassVar[str] = "pure"
    serves: ClassVar[tuple[str, ...]] = ("vector",)
    default_for: ClassVar[tuple[str, ...]] = ("vector",)
    norm: ClassVar[Norm] = Norm.L2

    def __post_init__(self) -> None:
        check_positive(self, "sensitivity_l2", "epsilon")

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:
        """Return gamma-vector noise for the round's ℓ2 sensitivity."""
        return cls(round.sensitivity(Norm.L2, adjacency), strength, local=round.at_task)

    @property
    def reach(self) -> float:
        """The ℓ2 sensitivity."""
        return self.sensitivity_l2

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return the root of the expected squared norm: E‖z‖² = scale² D (D + 1)."""
        size = math.prod(shape)
        return self.scale * math.sqrt(size * (size + 1))

    def deviation(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation of an entry of one vector of ``shape``."""
        return self.scale * math.sqrt(math.prod(shape) + 1)

    def ceiling(self, size: int) -> float:
        """Return the far quantile: the norm is Gamma(size)."""
        return (self.scale * _far(size)) ** 2

    @property
    def scale(self) -> float:
        """Scale S / ε of the length (whose mean is D times that)."""
        return up(self.sensitivity_l2 / self.epsilon)

    @property
    def event(self) -> DpEvent:
        """A pure-ε event."""
        return pure_event(self.epsilon)

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` plus noise."""
        return perturb_gamma_vector(value, self.scale, entropy, rows=self.local)

    def log_density(self, noise: ArrayLike) -> float:
        """Return the log-density of the ideal noise."""
        z = np.asarray(noise, dtype=np.float64)
        vectors = z.reshape(z.shape[0] if self.local else 1, -1)
        dimension = vectors.shape[1]
        # ∫ exp(−‖z‖/b) dz = 2 π^(D/2) / Γ(D/2) · Γ(D) · b^D.
        normaliser = (
            math.log(2)
            + dimension / 2 * math.log(math.pi)
            - math.lgamma(dimension / 2)
            + math.lgamma(dimension)
            + dimension * math.log(self.scale)
        )
        lengths = np.linalg.norm(vectors, axis=1)
        return float(-np.sum(lengths) / self.scale - vectors.shape[0] * normaliser)


@dataclass(frozen=True)
class Exact(Mechanism):
    """No noise at all: for ``epsilon=float("inf")`` only.

    Guarantee: none. The event is `NonPrivateDpEvent`, which every accountant prices at ε = ∞.
    """

    name: ClassVar[str] = "exact"
    family: ClassVar[str] = "none"
    serves: ClassVar[tuple[str, ...]] = ("vector", "counts", "matrix")
    norm: ClassVar[Norm] = Norm.L2

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:  # noqa: ARG003
        """Return no noise."""
        return cls()

    @property
    def reach(self) -> float:
        """Any change, at the price of everything."""
        return math.inf

    @property
    def scale(self) -> float:
        """Zero."""
        return 0.0

    def noise_norm(self, shape: tuple[int, ...]) -> float:  # noqa: ARG002
        """Return zero."""
        return 0.0

    def deviation(self, shape: tuple[int, ...]) -> float:  # noqa: ARG002
        """Return zero."""
        return 0.0

    def ceiling(self, size: int) -> float:  # noqa: ARG002
        """Return zero."""
        return 0.0

    def coordinates(self) -> Coordinates:
        """Return the law of next to nothing: a scale that no sum of messages resolves."""
        return Coordinates(2.0**-200)

    def spectrum(self, d: int) -> Semicircle:  # noqa: ARG002
        """Return the spectrum of no noise."""
        return Semicircle(0.0)

    def fall(self, d: int, n_rounds: int) -> float:  # noqa: ARG002
        """Return zero."""
        return 0.0

    @property
    def event(self) -> DpEvent:
        """The non-private event."""
        from dp_accounting import dp_event

        return dp_event.NonPrivateDpEvent()

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:  # noqa: ARG002
        """Return a copy of ``value``."""
        return np.array(value, dtype=np.float64)
