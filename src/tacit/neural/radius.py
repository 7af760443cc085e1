"""How long an update may be: a public number, or one that follows what tasks say of theirs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit import _check
from tacit._types import AnyArray, Array
from tacit.privacy.bounds import VectorClip

__all__ = ["FixedRadius", "QuantileRadius", "Radius"]


@dataclass(frozen=True)
class FixedRadius:
    """Updates are clipped to γ, and sent as they are.

    Guarantee: a message has norm γ at most, so the sum moves by γ if a task is zeroed out and by 2γ
    if it is replaced.
    """

    first: float

    @property
    def bound(self) -> VectorClip:
        """What limits a message."""
        return VectorClip(self.first)

    def length(self, n_parameters: int) -> int:
        """Return the numbers of a message."""
        return n_parameters

    def said(self, updates: AnyArray, radius: float) -> AnyArray:  # noqa: ARG002
        """Return the messages of updates (b, P); the bound clips them."""
        return updates

    def heard(self, release: Array, radius: float, members: float) -> tuple[Array, float]:
        """Return the mean update that a released sum tells, and the next radius."""
        return release / members, radius

    def unit(self, radius: float) -> float:  # noqa: ARG002
        """Return the length in which messages are measured."""
        return 1.0


@dataclass(frozen=True)
class QuantileRadius:
    """γ_t follows a quantile of the updates' lengths, privately (Andrew et al. 2021).

    Task i clips its update u to γ_t and says (u / γ_t, ½(b − ½)), where b is 1 if u was no longer
    than γ_t and 0 if it was. What follows the last comma, divided by its factor and the public
    number of members, is the share of short updates; γ_{t+1} = γ_t · exp(quantile − share).

    Parameters
    ----------
    first : float
        γ_0, a public guess; each turn may move it by a factor of e^½ for the median.
    quantile : float
        Share of updates that shall not be clipped.

    Guarantee: whatever the task computed and whatever γ_t is, ‖u / γ_t‖ ≤ 1 and |½(b − ½)| = ¼, so
    that a message has norm √(1 + 1/16) at most, a public constant: the sum of messages moves by it
    if a task is zeroed out (a message becomes zero, as that of a task that has not joined) and by
    twice as much if it is replaced. The count is part of the one vector that is released and is
    paid for with it. γ_t is a function of earlier releases, so that multiplying by it afterwards is
    post-processing, and turns compose as those with a fixed radius do.
    """

    first: float = 1.0
    quantile: float = 0.5
    WEIGHT: ClassVar[float] = 0.5  # of the count: 3 % more noise on the update

    def __post_init__(self) -> None:
        _check.positive("first", self.first, remedy="give a public guess, such as 1.0")
        _check.fraction("quantile", self.quantile, remedy="0.5 is the median")

    @property
    def bound(self) -> VectorClip:
        """What limits a message."""
        return VectorClip(math.sqrt(1.0 + (self.WEIGHT / 2) ** 2))

    def length(self, n_parameters: int) -> int:
        """Return the numbers of a message: an update, and whether it was short."""
        return n_parameters + 1

    def said(self, updates: AnyArray, radius: float) -> AnyArray:
        """Return the messages of updates (b, P), float32."""
        lengths = np.sqrt(np.einsum("ij,ij->i", updates, updates, dtype=np.float64))
        factor = 1.0 / np.maximum(lengths, radius)
        short = self.WEIGHT * ((lengths <= radius) - 0.5)
        return np.column_stack([updates * factor[:, None], short]).astype(np.float32)

    def heard(self, release: Array, radius: float, members: float) -> tuple[Array, float]:
        """Return the mean update that a released sum tells, and the next radius."""
        share = float(np.clip(release[-1] / (self.WEIGHT * members) + 0.5, 0.0, 1.0))
        return radius * release[:-1] / members, radius * math.exp(self.quantile - share)

    def unit(self, radius: float) -> float:
        """Return the length in which messages are measured."""
        return radius


Radius = FixedRadius | QuantileRadius
