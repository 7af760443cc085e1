"""What a mechanism is, and what it hands out."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._types import Array
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.mechanisms.laws import Coordinates, NoiseSpectrum
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.unit import Adjacency, Norm

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

    from tacit.privacy.schedule import Round

__all__ = ["Mechanism", "Release", "log_odds", "pure_event"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Release:
    """A value that may leave, with the event that accounts for it.

    Attributes
    ----------
    value
        What is published.
    by
        The mechanism, a frozen value.
    seeded
        True if the noise can be repeated, so that nothing is private.
    """

    value: Array
    by: Mechanism
    seeded: bool

    @property
    def event(self) -> DpEvent:
        """The dp-accounting event of this one release; reading it imports dp-accounting."""
        return self.by.event

    @property
    def mechanism(self) -> str:
        """Name of the mechanism."""
        return self.by.name

    @property
    def sound(self) -> bool:
        """False if the mechanism is a published one that does not keep what ``event`` claims."""
        return self.by.sound


class Mechanism(ABC):
    """Turns a value of known sensitivity into a `Release`, and knows the law of its own noise.

    Guarantee: ``release`` costs ``event`` for neighbouring values no further apart than ``reach``
    in ``norm``; which unit and adjacency that is for is decided where the sensitivity comes from
    (`tacit.privacy.bounds`). `check` refuses a round whose bound allows more.

    Attributes
    ----------
    family
        "gaussian" (strength: noise multiplier), "pure" (strength: ε) or "none".
    serves
        Kinds of aggregate it is made for: "vector", "counts", "matrix" (see `Bound.kind`).
    default_for
        Those of them for which it is what its family takes when nobody names a mechanism.
    composition
        How rounds of this mechanism are allocated: "optimal", or "published" as in the papers.
    """

    name: ClassVar[str]
    sound: ClassVar[bool] = True
    family: ClassVar[str]
    serves: ClassVar[tuple[str, ...]] = ()
    default_for: ClassVar[tuple[str, ...]] = ()
    composition: ClassVar[str] = "optimal"
    norm: ClassVar[Norm]

    @classmethod
    @abstractmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:
        """Return the mechanism for a round, with the sensitivity that its bound answers."""

    @property
    @abstractmethod
    def reach(self) -> float:
        """Largest change of the value, in ``norm``, that ``event`` covers."""

    def check(self, round: Round, adjacency: Adjacency) -> None:
        """Raise `PrivacyLeak` if the round's bound lets a unit move the value beyond ``reach``."""
        need = round.sensitivity(self.norm, adjacency)
        if self.reach < need:
            raise PrivacyLeak(
                f"round {round.name!r}: the {self.name} noise covers changes up to "
                f"{self.reach:.6g} ({self.norm} norm), but its bound allows {need:.6g} under "
                f"{adjacency}; calibrate the schedule for this bound"
            )

    @abstractmethod
    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return √E‖noise‖², Euclidean over the independent entries of an array of ``shape``."""

    def deviation(self, shape: tuple[int, ...]) -> float:  # noqa: ARG002
        """Return the standard deviation of one entry (off the diagonal, of a matrix)."""
        raise self._unstated("deviation")

    def ceiling(self, size: int) -> float:  # noqa: ARG002
        """Return what the squared norm of the noise on ``size`` numbers exceeds once in 10 000."""
        raise self._unstated("ceiling")

    def coordinates(self) -> Coordinates:
        """Return the law of independent entries."""
        raise self._unstated("coordinates")

    def spectrum(self, d: int) -> NoiseSpectrum:  # noqa: ARG002
        """Return the law of the eigenvalues of the noise on a d × d matrix."""
        raise self._unstated("spectrum")

    def fall(self, d: int, n_rounds: int) -> float:  # noqa: ARG002
        """Return what the noise of ``n_rounds`` releases pulls none of d directions down by.

        Guarantee: for non-negative numbers (or a positive semidefinite matrix), the chance that any
        of them (any eigenvalue), in any of the releases, lies below minus this is at most 1e-6.
        """
        raise self._unstated("fall")

    def _unstated(self, law: str) -> InvalidInput:
        return InvalidInput(
            f"mechanism={self.name!r}: states no {law} of its noise, so its release cannot be "
            f"read here; use another mechanism or add {type(self).__name__}.{law}"
        )

    @property
    @abstractmethod
    def event(self) -> DpEvent:
        """What one release costs."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Scale of the noise (its meaning is the mechanism's)."""

    @abstractmethod
    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` with noise, without the event; `release` is the way out."""

    def release(self, value: ArrayLike, entropy: Entropy) -> Release:
        """Return the noisy value with the event that accounts for it."""
        return Release(self.perturbed(value, entropy), self, seeded=not entropy.system)

    def at_home(self, messages: Array, entropy: Entropy) -> Array:
        """Return what tasks (axis 0) hand out where they add the noise themselves."""
        return self.release(messages, entropy).value


def log_odds(n_rounds: int) -> float:
    """Return log(n_rounds / 1e-6): the tail that `Mechanism.fall` leaves to all rounds together."""
    return math.log(n_rounds / 1e-6)


def pure_event(epsilon: float) -> Any:
    """Return the event of an ε-differentially private release."""
    from tacit.privacy.events import EpsilonDeltaDpEvent

    return EpsilonDeltaDpEvent(epsilon=epsilon, delta=0.0)
