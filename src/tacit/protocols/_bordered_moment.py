"""The second moment of directions, bordered by their mean, and the prior behind its noisy release.

Appending a constant to a vector before taking its outer product puts the vector itself into the
border of the matrix: one release then carries second moment and mean. The two never change by
their most together (the mean changes most when w → −w, which leaves w wᵀ as it was), so the joint
sensitivity √2 (1 + B²) is below what two composed releases would need.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.privacy.bounds import SecondMoment, VectorClip
from tacit.privacy.mechanisms import Mechanism
from tacit.protocols._shrinkage import Shape, shrink_spectrum

__all__ = ["BORDER", "ReadPrior", "border", "moment_bound", "read_prior"]

# B: more of it and the mean is clearer, the second moment less so. A public constant; errors differ
# by 1 to 10 % for B between 0.3 and 0.7, whether tasks share a mean or a subspace.
BORDER = 0.4


def border(models: Array) -> Array:
    """Return models (m, k, d) of joint norm ≤ 1 with B/√k appended at each class's place."""
    m, k, _ = models.shape
    marks = np.broadcast_to(np.eye(k) * (BORDER / math.sqrt(k)), (m, k, k))
    return np.concatenate([models, marks], axis=2)


def moment_bound() -> SecondMoment:
    """Return the bound of bordered models: joint norm at most √(1 + B²)."""
    radius = math.sqrt(1 + BORDER**2)
    return SecondMoment(radius, inner=VectorClip(radius))


@dataclass(frozen=True)
class ReadPrior:
    """What the models have in common: their shape and their mean (k, d), both from the release.

    The mean, in units of the clip, is None where it does not stand out.
    """

    shape: Shape
    mean: Array | None


def read_prior(release: Array, mechanism: Mechanism, *, n_tasks: int, n_outputs: int) -> ReadPrior:
    """Return the prior behind a noisy bordered moment (the sum over tasks).

    Each direction of the mean is shrunk by the noise-to-signal ratio the moment shows there; a
    mean shorter than noise explains is dropped.

    Guarantee: post-processing of a release with public constants.
    """
    d = len(release) - n_outputs
    moment = release[:d, :d]
    trace = float(np.clip(np.trace(moment), 1e-9 * n_tasks, n_tasks))
    shape = shrink_spectrum(moment, mechanism.spectrum(d), trace=trace, n_tasks=n_tasks * n_outputs)

    divisor = n_tasks * BORDER / math.sqrt(n_outputs)
    mean = release[d:, :d] / divisor
    variance = (mechanism.deviation(release.shape) / divisor) ** 2
    expected = variance * mean.size
    if float(np.sum(mean**2)) <= expected + 3 * variance * math.sqrt(2 * mean.size):
        return ReadPrior(shape, None)
    signal = (shape.excess + shape.floor) / (n_tasks * n_outputs)
    coordinates = mean if shape.vectors is None else mean @ shape.vectors
    coordinates = coordinates * (signal / (signal + variance))
    mean = coordinates if shape.vectors is None else coordinates @ shape.vectors.T
    return ReadPrior(shape, mean if mean.any() else None)
