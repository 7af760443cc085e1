"""What the releases say: a map of tasks, shared directions, shared features. Nothing else is read.

Every function here takes the billboard's postings and public constants; a personal model is never
an argument. That is what keeps the coordinator's page free of anybody's own numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.protocols._bordered_moment import BORDER
from tacit.protocols._shrinkage import (
    Semicircle,
    WishartDifference,
    shrink_spectrum,
)
from tacit.protocols.task_relationship import denoised_models

__all__ = ["Public", "Shared", "Spectrum", "TaskMap", "read_shared"]

_MATRIX_NOISE = ("symmetric-gaussian", "two-sided-wishart", "wishart-published", "exact")


@dataclass(frozen=True)
class Public:
    """Constants that everybody knows."""

    n_tasks: int
    n_features: int
    n_outputs: int
    directions_sent: bool  # messages had length 1, so their squared norms add up to n_tasks


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a released second moment, largest first, and what the noise alone reaches."""

    values: Array
    vectors: Array  # (d, d), one direction a column
    band: tuple[float, float] | None  # where eigenvalues of noise alone lie
    n_standing_out: int


@dataclass(frozen=True)
class TaskMap:
    """Tasks in the plane, and their similarity (cosine), from released noisy models."""

    points: Array  # (m, 2)
    explained: tuple[float, ...]  # one share for each axis that means something
    embedding: Array  # (m, r)

    def similarity(self, index: Sequence[int] | AnyArray) -> Array:
        """Return the cosines between the tasks at ``index``."""
        rows = self.embedding[np.asarray(index)]
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        return np.clip(unit @ unit.T, -1.0, 1.0)


@dataclass(frozen=True)
class Shared:
    """Everything the postings tell; what the method does not release is None."""

    task_map: TaskMap | None = None
    per_task: bool = False  # something was released for each task, whether or not it stands out
    spectrum: Spectrum | None = None
    feature_norms: Array | None = None
    feature_threshold: float | None = None
    mean_model: Array | None = None  # (k, d)


def read_shared(
    postings: Sequence[AnyArray], history: Sequence[dict[str, Any]], public: Public
) -> Shared:
    """Read released values by their shape; ``history`` gives each noise's name and public scale.

    Guarantee: post-processing of releases with public constants, so it costs nothing.
    """
    notes = [history[t] if t < len(history) else {} for t in range(len(postings))]
    releases = list(zip(map(np.asarray, postings), notes, strict=True))
    d, k = public.n_features, public.n_outputs
    for value, note in releases:
        if value.shape == (public.n_tasks, k * d) and not _symmetric(value):
            return Shared(task_map=_task_map(value, note), per_task=True)
    moments = [(v, note) for v, note in releases if _is_moment(v, note, d, k)]
    if moments:
        moment, scale, name = _average(moments)
        mean = moment[d:, :d] if len(moment) > d else None
        return Shared(
            spectrum=_spectrum(moment[:d, :d], scale, name, public),
            mean_model=None if mean is None else mean * (math.sqrt(k) / (BORDER * public.n_tasks)),
        )
    diagonals = [(v, note) for v, note in releases if v.shape == (d,)]
    if diagonals:
        norms, scale, name = _average(diagonals)
        return Shared(feature_norms=norms, feature_threshold=_threshold(norms, scale, name))
    means = [v for v, _ in releases if v.shape in ((k, d), (k, d + 1))]
    if means:
        return Shared(mean_model=np.asarray(means[-1], dtype=float)[:, :d] / public.n_tasks)
    return Shared()


def _symmetric(value: AnyArray) -> bool:
    return value.ndim == 2 and value.shape[0] == value.shape[1] and np.array_equal(value, value.T)


def _is_moment(value: AnyArray, note: dict[str, Any], d: int, k: int) -> bool:
    named = note.get("mechanism", "symmetric-gaussian") in _MATRIX_NOISE
    return named and _symmetric(value) and value.shape in ((d, d), (d + k, d + k))


def _average(
    releases: Sequence[tuple[AnyArray, dict[str, Any]]],
) -> tuple[Array, float | None, str]:
    """Average rounds by precision; the noise scale is None where it is not on record."""
    scales = [float(note.get("scale", math.nan)) for _, note in releases]
    name = str(releases[-1][1].get("mechanism", ""))
    if not all(math.isfinite(s) and s > 0 for s in scales):
        return np.asarray(releases[-1][0], dtype=float), None, name
    weights = np.array(scales) ** -2
    values = np.stack([np.asarray(value, dtype=float) for value, _ in releases])
    mean = np.tensordot(weights / weights.sum(), values, axes=1)
    return mean, float(weights.sum() ** -0.5), name


def _spectrum(moment: Array, scale: float | None, name: str, public: Public) -> Spectrum:
    values, vectors = np.linalg.eigh(moment)
    values, vectors = values[::-1], vectors[:, ::-1]
    if scale is None or name not in ("symmetric-gaussian", "two-sided-wishart"):
        return Spectrum(values, vectors, None, 0)
    law: Semicircle | WishartDifference = Semicircle.of_gaussian(scale, len(moment))
    if name == "two-sided-wishart":
        law = WishartDifference.of_wishart(scale, len(moment))
    m = public.n_tasks
    trace = float(m) if public.directions_sent else max(float(np.trace(moment)), 1e-9)
    shape = shrink_spectrum(moment, law, trace=trace, n_tasks=m * public.n_outputs)
    band = (shape.floor - law.edge, shape.floor + law.edge)
    return Spectrum(values, vectors, band, int((shape.excess > 0).sum()))


def _threshold(norms: Array, scale: float | None, name: str) -> float | None:
    """Return the average plus what the largest of d noises passes once in ten draws."""
    d = len(norms)
    if scale is None or name not in ("gaussian", "laplace"):
        return None
    ceiling = math.log(5 * d) if name == "laplace" else math.sqrt(2 * math.log(4 * d))
    return float(norms.mean()) + scale * ceiling


def _task_map(models: AnyArray, note: dict[str, Any]) -> TaskMap | None:
    """Return the map of what stands out of the noise; None if nothing does."""
    scale = float(note.get("scale", math.nan))
    if not math.isfinite(scale) or scale <= 0:
        return None
    deviation = scale
    if note.get("mechanism") == "gamma-vector":  # E z_j² = scale² (D + 1)
        deviation = scale * math.sqrt(models.shape[1] + 1)
    left, values, _ = denoised_models(np.asarray(models, dtype=float), deviation)
    if not len(values):
        return None
    embedding = left * values
    shares = tuple(float(share) for share in values[:2] ** 2 / float((values**2).sum()))
    if len(shares) == 2:
        return TaskMap(embedding[:, :2], shares, embedding)
    # One direction only: tasks stand one below the other, in their order along it.
    ranks = np.argsort(np.argsort(-embedding[:, 0], kind="stable")).astype(float)
    return TaskMap(np.column_stack([embedding[:, 0], ranks]), shares, embedding)
