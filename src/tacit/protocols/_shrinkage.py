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

import typing
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.numerics.shared_map import symmetric_spectrum
from tacit.privacy.mechanisms.laws import Coordinates, NoiseSpectrum
from tacit.protocols.shown import Shared, Spectrum

__all__ = [
    "Shape",
    "safe_shift",
    "shrink_diagonal",
    "shrink_spectrum",
]

_RELEVANT = 0.25  # prior share of features that matter
_LEAST_FLOOR = 1e-6  # keeps a shape invertible when every direction stands out


@dataclass(frozen=True)
class Shape:
    """What the tasks' models have in common, up to scale: excess along directions, and a floor.

    ``vectors`` (d, d) has the directions in its columns, None for the coordinate axes.
    ``observed`` is what was released along them, noise included, ``edge`` what the noise reaches.
    """

    excess: Array
    floor: float
    vectors: Array | None = None
    observed: Array | None = None
    edge: float = 0.0

    @property
    def flat(self) -> bool:
        """Whether nothing stands out, so that the shape carries no information."""
        return not bool((self.excess > 0).any())

    def shown(self) -> Shared:
        """Return the observed spectrum, or the observed use of features, beside the noise."""
        if self.observed is None:
            return Shared()
        if self.vectors is None:
            level = float(self.observed.mean()) + self.edge
            return Shared(
                feature_norms=self.observed, feature_threshold=level if self.edge else None
            )
        band = (self.floor - self.edge, self.floor + self.edge) if self.edge else None
        count = int((self.excess > 0).sum()) if self.edge else 0
        order = np.argsort(-self.observed, kind="stable")
        return Shared(spectrum=Spectrum(self.observed[order], self.vectors[:, order], band, count))

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
    excess = _within(excess_above(floor), trace)
    return Shape(excess, floor, vectors, observed=values, edge=noise.edge)


def shrink_diagonal(values: Array, noise: Coordinates, *, trace: float) -> Shape:
    """Return the shape behind noisy squared feature norms of known sum.

    The excess of a coordinate over the floor is its posterior mean, under the prior that one
    feature in four matters, by anything up to half of the trace. If noise alone explains the
    differences between features, the shape is flat.

    Guarantee: post-processing of ``values`` with public constants.
    """
    if noise.explains(values):
        nothing = np.zeros(values.size)
        return Shape(nothing, trace / values.size, observed=values, edge=noise.largest(len(values)))
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
    return Shape(excess, floor, observed=values, edge=noise.largest(len(values)))


def safe_shift(values: Array, fall: float) -> Array:
    """Return eigenvalues (or squared norms) moved up by the noise's `Mechanism.fall`.

    All but once in a million runs that leaves every one above zero. What is left below a quarter of
    the fall is set there, so that the paper's soft threshold max(0, 1 − ηλ/√Λ) *surely* keeps
    1 − 2ηλ/√fall of every direction, which tends to one as the noise grows, whatever its sign.
    """
    return np.maximum(values + fall, fall / 4)
