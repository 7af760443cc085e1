"""What everybody knows in the conversation about a hierarchical prior: a function of releases."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from tacit._types import Array
from tacit.errors import PrivacyLeak
from tacit.numerics.hierarchical import Frame
from tacit.protocols._hierarchical_reading import MeanReading
from tacit.protocols._shrinkage import Shape

__all__ = ["HierarchicalPublic", "known"]

Fact = TypeVar("Fact")


def known(fact: Fact | None) -> Fact:
    """Return what an earlier round told."""
    if fact is None:
        raise PrivacyLeak("a round was asked or read before those that it builds on")
    return fact


@dataclass(frozen=True)
class HierarchicalPublic:
    """What the releases told so far; ``closed`` once one of them showed that nobody shares."""

    closed: bool = False
    magnitude: float | None = None
    frame: Frame | None = None
    start: Array | None = None  # (k, p), the means before the score rounds
    length: float = 0.0  # radius of a score message
    reading: MeanReading | None = None
    mean: Array | None = None  # (k, p), in the frame's coordinates
    noise: float = 0.0  # on a coordinate of the reading, in the scores' units
    reach: Array | None = None  # (p,), of a score that every round was told, in the mean it led to
    spectrum: Shape | None = None
    shapes: tuple[Array | None, ...] = (None,)
    parents: tuple[int, ...] = (0,)  # the shape that each shape refines
    free: tuple[int, ...] = (0,)  # numbers that each shape was chosen by
    log_weights: Array | None = None
    embedding: Array | None = None  # (m, r): tasks' places along directions that stand out

    @property
    def model(self) -> tuple[Array, Array] | None:
        """The mean models: slopes (k, d) and intercepts (k,) on the features as they came."""
        if self.closed or self.frame is None or self.mean is None:
            return None
        return self.frame.model(self.mean)

    @property
    def covariance(self) -> Array | None:
        """The shape of the slopes' covariance (d, d) on the features as they came, of mean 1."""
        if self.closed or self.frame is None or self.spectrum is None:
            return None
        found = self.spectrum.covariance() / np.outer(self.frame.scale, self.frame.scale)
        return np.asarray(found * (len(found) / np.trace(found)))

    def with_shapes(self, *families: tuple[Shape, tuple[Array, ...], int]) -> HierarchicalPublic:
        """Return what is known with families of ever sharper shapes, beside no shape at all.

        A family is what was read, its shapes, and how many numbers they were chosen by. The first
        family's reading is the one that is shown.
        """
        shapes: list[Array | None] = [None]
        parents, free = [0], [0]
        for _, family, numbers in families:
            parents += [len(shapes) + number - 1 if number else 0 for number in range(len(family))]
            shapes += family
            free += [numbers] * len(family)
        return replace(
            self,
            spectrum=families[0][0],
            shapes=tuple(shapes),
            parents=tuple(parents),
            free=tuple(free),
        )
