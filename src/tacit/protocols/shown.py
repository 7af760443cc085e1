"""What a protocol's public state tells a reader: shared directions, features, a mean, a map.

A protocol says what its releases mean by returning a `Shared` from `Protocol.shown`; whoever writes
a page about a run asks it and guesses nothing. All of it is read off releases and public
constants, so it costs nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit._types import AnyArray, Array

__all__ = ["Shared", "Spectrum", "TaskMap"]


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of a released second moment, largest first, and what the noise alone reaches."""

    values: Array
    vectors: Array  # (d, d), one direction a column
    band: tuple[float, float] | None  # where eigenvalues of noise alone lie; None without noise
    n_standing_out: int


@dataclass(frozen=True)
class TaskMap:
    """Tasks in the plane, and their similarity (cosine), from released noisy models."""

    points: Array  # (m, 2)
    explained: tuple[float, ...]  # one share for each axis that means something
    embedding: Array  # (m, r)

    @classmethod
    def of_embedding(cls, embedding: Array) -> TaskMap | None:
        """Return the map of denoised models (m, r), strongest direction first; None if r = 0."""
        strength = np.einsum("mr,mr->r", embedding, embedding)
        if not strength.size:
            return None
        shares = tuple(float(share) for share in strength[:2] / float(strength.sum()))
        if len(shares) == 2:
            return cls(embedding[:, :2], shares, embedding)
        # One direction only: tasks stand one below the other, in their order along it.
        ranks = np.argsort(np.argsort(-embedding[:, 0], kind="stable")).astype(float)
        return cls(np.column_stack([embedding[:, 0], ranks]), shares, embedding)

    def similarity(self, index: Sequence[int] | AnyArray) -> Array:
        """Return the cosines between the tasks at ``index``."""
        rows = self.embedding[np.asarray(index)]
        unit = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
        return np.clip(unit @ unit.T, -1.0, 1.0)


@dataclass(frozen=True)
class Shared:
    """What the releases tell; what a method does not release is None."""

    task_map: TaskMap | None = None
    per_task: bool = False  # something was released for each task, whether or not it stands out
    spectrum: Spectrum | None = None
    feature_norms: Array | None = None
    feature_threshold: float | None = None  # what hardly any noise exceeds; None without noise
    mean_model: Array | None = None  # (k, d)
