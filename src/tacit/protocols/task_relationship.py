"""Task relationships without showing anybody's model: noisy models once, the rest is reading.

The paper's Wᵀ W form (m × m) has a sensitivity that grows like √m, and its map needs the other
tasks' raw models. Here every task releases its own bounded model with noise, once; relationships,
shared directions and priors are post-processing of that noisy matrix. Up and down: k·d numbers a
task (everybody may read the whole matrix, m·k·d numbers).

Reading the matrix: Y = U + s·G with G standard normal, m × D. Singular values below s(√m + √D) are
noise; those above are shrunk as in Gavish & Donoho (2017, Frobenius loss). The rows of what remains
are the tasks' denoised models, its right singular vectors the shared directions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit._rows import row_dots
from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.prior import Prior
from tacit.privacy.bounds import VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import AtTask, Call, Round
from tacit.protocols._home import Outputs, Priors, fitted, joining
from tacit.protocols._shrinkage import Shape
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared, TaskMap
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["RelationshipHome", "RelationshipProtocol", "Relationships", "denoised_models"]

_FLOOR_SHARE = 0.04


def denoised_models(released: Array, deviation: float) -> tuple[Array, Array, Array]:
    """Return (left vectors (m, r), shrunk singular values (r,), right vectors (r, D)).

    Guarantee: post-processing of the release and the public noise deviation of an entry.
    """
    m, width = released.shape
    left, values, right = np.linalg.svd(released, full_matrices=False)
    long, ratio = max(m, width), min(m, width) / max(m, width)
    unit = deviation * math.sqrt(long)
    # The margin is the Tracy–Widom fluctuation of the largest singular value of pure noise.
    margin = 1 + min(m, width) ** (-2 / 3)
    kept = values > margin * unit * (1 + math.sqrt(ratio))
    scaled = values[kept] / unit
    inside = np.maximum((scaled**2 - ratio - 1) ** 2 - 4 * ratio, 0.0)
    return left[:, kept], unit * np.sqrt(inside) / scaled, right[kept]


@dataclass(frozen=True)
class Relationships:
    """What the release tells: tasks' coordinates (m, r) along shared directions (r, k·d).

    Inner products of the coordinates are the relationships; no direction may stand out.
    """

    embedding: Array
    directions: Array

    def denoised(self, positions: IntArray, part: slice) -> Array:
        """Return the denoised models of the tasks at ``positions``; zero for a stranger (−1)."""
        rows = np.where(positions[:, None] >= 0, self.embedding[np.maximum(positions, 0)], 0.0)
        return np.einsum("mr,rd->md", rows, self.directions[:, part])

    def covariance(self, part: slice, n_tasks: int) -> Array:
        """Return the shape of all denoised models, as a prior covariance."""
        scaled = np.linalg.qr(self.embedding, mode="r") @ self.directions[:, part]
        values, vectors = np.linalg.eigh(scaled.T @ scaled)
        floor = max(float(n_tasks) - float(values.sum()), 0.0) / len(values)
        return Shape(np.maximum(values, 0.0), floor, vectors).covariance(_FLOOR_SHARE)


@dataclass(frozen=True)
class RelationshipHome:
    """What a stack of tasks keeps: rows by output, its place in the release, own models."""

    outputs: Outputs
    positions: IntArray
    own: Array


@dataclass(frozen=True)
class RelationshipProtocol(Protocol[Relationships, RelationshipHome]):
    """One round, noised by every task itself.

    Guarantee: joint DP with the task as unit under replace-one, against everybody *including the
    curator*: a replaced task changes its own row only, by 2K in ℓ2 norm. Everything read off the
    matrix is post-processing; personal fits are local.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    n_outputs: int = 1
    clip: float | None = None
    fit_intercept: bool = True

    def rounds(self) -> tuple[Round, ...]:
        """Return the one round: every task's own model."""
        bound = VectorNormalise(1.0) if self.clip is None else VectorClip(self.clip)
        return (Round("own models", bound, (self.n_outputs * self.n_features,), noise=AtTask()),)

    def opening(self) -> Relationships:
        """Nobody is related."""
        width = self.n_outputs * self.n_features
        return Relationships(np.zeros((self.n_tasks, 0)), np.zeros((0, width)))

    def read(
        self,
        public: Relationships,  # noqa: ARG002
        release: AnyArray,
        call: Call,  # noqa: ARG002
        noise: Mechanism,
    ) -> Relationships:
        """Read the relationships off the noisy models (m, k·d)."""
        deviation = noise.deviation(release.shape[1:])
        left, values, right = denoised_models(np.asarray(release), deviation)
        return Relationships(left * values, right)

    def shown(self, public: Relationships) -> Shared:
        """Show the tasks on a map, by what stands out of their noisy models."""
        return Shared(task_map=TaskMap.of_embedding(public.embedding), per_task=True)

    def start(self, rows: TaskSet, positions: IntArray) -> RelationshipHome:
        """Fit every task on its own."""
        outputs = one_vs_rest(rows, self.n_outputs)
        many = are_many(self.n_tasks, self.n_features)
        own = fitted(outputs, self.loss, intercept=self.fit_intercept, many=many)
        return RelationshipHome(outputs, positions, own)

    def memory(self, home: RelationshipHome) -> dict[str, Array]:
        """Return the own models."""
        return {"own": home.own}

    def resume(
        self, rows: TaskSet, positions: IntArray, memory: dict[str, Array]
    ) -> RelationshipHome:
        """Take the own models up again."""
        return RelationshipHome(one_vs_rest(rows, self.n_outputs), positions, memory["own"])

    def speak(
        self,
        home: RelationshipHome,
        public: Relationships,  # noqa: ARG002
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[RelationshipHome, Array]:
        """Say the model without its intercept."""
        own = joining(home.own, joined)
        return home, own[..., :-1].reshape(len(own), -1)

    def finish(self, home: RelationshipHome, public: Relationships) -> Array:
        """Return models (m, k, d + 1) under the priors that the relationships give."""
        if not len(public.directions):
            return home.own
        d = self.n_features
        parts = [slice(number * d, (number + 1) * d) for number in range(self.n_outputs)]
        priors = [self._priors(home, public, number, part) for number, part in enumerate(parts)]
        many = are_many(self.n_tasks, self.n_features)
        return fitted(home.outputs, self.loss, priors, intercept=self.fit_intercept, many=many)

    def _priors(
        self, home: RelationshipHome, public: Relationships, output: int, part: slice
    ) -> Priors:
        """Return the candidates: alone, the shared directions, and the task's own row besides.

        A denoised row has a direction but no scale; a task scales it by its own model's shadow.
        """
        covariance = public.covariance(part, self.n_tasks)
        denoised = public.denoised(home.positions, part)
        own = home.own[:, output, :-1]
        norms = row_dots(denoised, denoised)
        shadow = row_dots(denoised, own) / np.maximum(norms, 1e-300)
        mean = np.maximum(shadow, 0.0)[:, None] * denoised
        return (
            Prior(),
            Prior(covariance=covariance),
            Prior(mean, covariance),
        )
