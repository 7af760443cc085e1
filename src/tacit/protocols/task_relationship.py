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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.privacy.bounds import Bound, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import GammaVector, Mechanism
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.shrinkage import Shape
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["RelationshipProtocol", "RelationshipState", "denoised_models"]

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
class RelationshipState:
    """What a stack of tasks keeps: rows by output, models (m, k, d + 1), the public embedding.

    ``embedding`` (m, r) holds the tasks' coordinates along the shared directions; inner products
    of its rows are the relationships. Both come from the release only.
    """

    outputs: tuple[TaskSet, ...]
    models: Array
    embedding: Array
    directions: Array


@dataclass(frozen=True)
class RelationshipProtocol:
    """One round; ``mechanisms`` holds the one mechanism, calibrated by the caller.

    Guarantee: joint DP with the task as unit under replace-one, against everybody *including the
    curator* when each task adds its own noise: a replaced task changes its own row only, by 2K in
    ℓ2 norm. Everything read off the matrix is post-processing; personal fits are local.
    """

    loss: Loss
    mechanisms: tuple[Mechanism, ...]
    n_outputs: int = 1
    clip: float | None = None
    fit_intercept: bool = True
    n_rounds: int = 1
    unit: Unit = Unit.TASK
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @staticmethod
    def limit(clip: float | None) -> Bound:
        """Return the bound of a message."""
        return VectorNormalise(1.0) if clip is None else VectorClip(clip)

    def start(self, tasks: TaskSet) -> RelationshipState:
        """Fit every task on its own."""
        outputs = one_vs_rest(tasks, self.n_outputs)
        models = np.empty((tasks.n_tasks, len(outputs), tasks.n_features + 1))
        for number, part in enumerate(outputs):
            fit = local_fit(part, self.loss, intercept=self.fit_intercept)
            models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
        width = len(outputs) * tasks.n_features
        return RelationshipState(
            outputs, models, np.zeros((tasks.n_tasks, 0)), np.zeros((0, width))
        )

    def speak(self, state: RelationshipState, t: int) -> Array:  # noqa: ARG002
        """Say the model without its intercept."""
        return state.models[..., :-1].reshape(len(state.models), -1)

    def bound(self, messages: Array) -> Array:
        """Limit every task's message."""
        return self.limit(self.clip)(messages)

    def aggregate(self, messages: Array) -> Array:
        """Return the stack itself: the noise is each task's own."""
        return messages

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of the only round."""
        return self.mechanisms[t]

    def listen(self, state: RelationshipState, release: Array, t: int) -> RelationshipState:
        """Read the relationships and fit again under the priors they give."""
        mechanism = self.mechanisms[t]
        deviation = mechanism.scale
        if isinstance(mechanism, GammaVector):  # E z_j² = scale² (D + 1)
            deviation = mechanism.scale * math.sqrt(release.shape[1] + 1)
        left, values, right = denoised_models(np.asarray(release), deviation)
        if not len(values):
            return state
        embedding = left * values
        models = np.empty_like(state.models)
        for number, part in enumerate(state.outputs):
            d = part.n_features
            block = right[:, number * d : (number + 1) * d]
            priors = self._priors(part, embedding @ block, state.models[:, number, :-1])
            fit = local_fit(part, self.loss, intercept=self.fit_intercept, priors=priors)
            models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
        return replace(state, models=models, embedding=embedding, directions=right)

    @staticmethod
    def _priors(tasks: TaskSet, denoised: Array, own: Array) -> Sequence[Mapping[str, Array]]:
        """Return the candidates: alone, the shared directions, and the task's own row besides.

        A denoised row has a direction but no scale; a task scales it by its own model's shadow.
        """
        moment = denoised.T @ denoised
        values, vectors = np.linalg.eigh(moment)
        trace = max(float(tasks.n_tasks) - float(values.sum()), 0.0)
        covariance = Shape(np.maximum(values, 0.0), trace / len(values), vectors).covariance(
            _FLOOR_SHARE
        )
        norms = np.einsum("md,md->m", denoised, denoised)
        shadow = np.einsum("md,md->m", denoised, own) / np.maximum(norms, 1e-300)
        mean = np.maximum(shadow, 0.0)[:, None] * denoised
        return (
            {},
            {"prior_covariance": covariance},
            {"prior_mean": mean, "prior_covariance": covariance},
        )

    def finish(self, state: RelationshipState) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        return state.models
