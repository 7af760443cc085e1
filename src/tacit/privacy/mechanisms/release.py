"""What a mechanism is, and what it hands out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._types import Array
from tacit.privacy.entropy import Entropy

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = ["Mechanism", "Release", "pure_event"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Release:
    """A value that may leave, with the event that accounts for it.

    Attributes
    ----------
    value
        What is published.
    event
        The dp-accounting event of this one release.
    mechanism
        Name of the mechanism.
    sound
        False if the mechanism is a published one that does not keep what ``event`` claims.
    seeded
        True if the noise can be repeated, so that nothing is private.
    """

    value: Array
    event: DpEvent
    mechanism: str
    sound: bool
    seeded: bool


class Mechanism(ABC):
    """Turns a value of known sensitivity into a `Release`.

    Guarantee: ``release`` costs ``event`` for neighbouring values no further apart than the
    declared sensitivity, in the mechanism's norm; which unit and adjacency that is for is decided
    where the sensitivity comes from (`tacit.privacy.bounds`).
    """

    name: ClassVar[str]
    sound: ClassVar[bool] = True

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
        return Release(
            value=self.perturbed(value, entropy),
            event=self.event,
            mechanism=self.name,
            sound=self.sound,
            seeded=not entropy.system,
        )


def pure_event(epsilon: float) -> Any:
    """Return the event of an ε-differentially private release."""
    from tacit.privacy.events import EpsilonDeltaDpEvent

    return EpsilonDeltaDpEvent(epsilon=epsilon, delta=0.0)
