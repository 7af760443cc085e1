"""Private mean-regularised learning with full participation: a shared centre, personal models.

Every round each task fits its own model under the pull of the centre and sends it; the curator
releases the noisy mean. Up: k·(d + 1) numbers a task and round; down: the same.

Two forms of message:

- *directions* (``clip=None``): the model scaled to norm 1. No scale has to be known, none is
  released; a task reads the mean direction u as a prior covariance I + τ u uᵀ and finds its own
  scale along it.
- *updates* (``clip=γ``): w_i − w̃, intercept included, clipped to the public γ; the centre moves by
  the noisy mean, and tasks are pulled to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaincinv

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.privacy.bounds import Bound, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import GammaVector, Mechanism
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["MeanRegularizedProtocol", "MeanState"]

_ALONG = (3.0, 30.0)  # prior variance along the shared direction, relative to across it


def _noise_ceiling(mechanism: Mechanism, size: int) -> float:
    """Return what the squared norm of the noise on ``size`` numbers exceeds once in 10 000 times.

    Over the scale, a Gaussian's squared norm is χ² with ``size`` degrees of freedom, and a
    gamma-vector's norm is Gamma(size).
    """
    if isinstance(mechanism, GammaVector):
        return float(mechanism.scale * gammaincinv(size, 1 - 1e-4)) ** 2
    return float(2 * gammaincinv(size / 2, 1 - 1e-4)) * mechanism.scale**2


@dataclass(frozen=True)
class MeanState:
    """What a stack of tasks keeps: rows by output, models (m, k, d + 1), the public centre."""

    outputs: tuple[TaskSet, ...]
    models: Array
    centre: Array
    informative: bool


@dataclass(frozen=True)
class MeanRegularizedProtocol:
    """The conversation; ``mechanisms`` are one a round, calibrated by the caller.

    Parameters
    ----------
    n_tasks : int
        Public number of tasks, the divisor of the mean.
    clip : float or None
        Radius of an update; None sends directions.
    alpha : "auto" or float
        Strength of the pull once there is something to be pulled to; "auto" lets every task settle
        it, and whether to be pulled at all, by its own leave-one-out errors.

    Guarantee: joint DP with the task as unit under replace-one. A message has norm at most the
    bound's radius K whatever the task did before, so the sum's ℓ2 sensitivity is 2K; the divisor
    is public; the first centre is the constant 0; the rest is post-processing or local. Whether a
    release is above the noise is judged from the release and the noise's known scale alone.
    """

    loss: Loss
    n_tasks: int
    mechanisms: tuple[Mechanism, ...]
    n_outputs: int = 1
    clip: float | None = None
    alpha: float | str = "auto"
    fit_intercept: bool = True
    unit: Unit = Unit.TASK
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def n_rounds(self) -> int:
        """Number of releases."""
        return len(self.mechanisms)

    @staticmethod
    def limit(clip: float | None) -> Bound:
        """Return the bound of a message."""
        return VectorNormalise(1.0) if clip is None else VectorClip(clip)

    def start(self, tasks: TaskSet) -> MeanState:
        """Fit every task on its own; the centre is the public constant 0."""
        outputs = one_vs_rest(tasks, self.n_outputs)
        centre = np.zeros((len(outputs), tasks.n_features + 1))
        models = np.zeros((tasks.n_tasks, *centre.shape))
        return self._fitted(MeanState(outputs, models, centre, informative=False))

    def speak(self, state: MeanState, t: int) -> Array:  # noqa: ARG002
        """Say the model (directions: without intercept) or its distance from the centre."""
        return state.models[..., :-1] if self.clip is None else state.models - state.centre

    def bound(self, messages: Array) -> Array:
        """Limit every task's message."""
        return self.limit(self.clip)(messages)

    def aggregate(self, messages: Array) -> Array:
        """Sum; the public divisor is applied after the noise."""
        return self.limit(self.clip).aggregate(messages)

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of round ``t``."""
        return self.mechanisms[t]

    def listen(self, state: MeanState, release: Array, t: int) -> MeanState:
        """Move the centre and fit again under its pull."""
        mean = np.asarray(release) / self.n_tasks
        if self.clip is None:
            centre = np.concatenate([mean, np.zeros((len(mean), 1))], axis=1)
        else:
            centre = state.centre + mean
        # A centre that pure noise would reach is not told from noise, and tasks stay on their own.
        heard = self.mechanisms[: t + 1] if self.clip is not None else self.mechanisms[t : t + 1]
        noise = sum(_noise_ceiling(mechanism, mean.size) for mechanism in heard)
        informative = bool(np.sum(centre**2) > noise / self.n_tasks**2)
        return self._fitted(replace(state, centre=centre, informative=informative))

    def finish(self, state: MeanState) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        return state.models

    def _pulls(self, centre: Array, informative: bool) -> Sequence[Mapping[str, Array]]:
        """Return the priors that the centre gives; none if it says nothing."""
        if not informative:
            return ()
        if self.clip is not None:
            return ({"prior_mean": centre[:-1]},)
        norm = float(np.linalg.norm(centre[:-1]))
        if norm == 0:
            return ()
        unit = centre[:-1] / norm
        eye, along = np.eye(len(unit)), np.outer(unit, unit)
        return [{"prior_covariance": eye + variance * along} for variance in _ALONG]

    def _fitted(self, state: MeanState) -> MeanState:
        models = np.empty_like(state.models)
        for output, tasks in enumerate(state.outputs):
            pulls = self._pulls(state.centre[output], state.informative)
            given = bool(pulls) and self.alpha != "auto"
            fit = local_fit(
                tasks,
                self.loss,
                alpha=self.alpha if given else "auto",
                intercept=self.fit_intercept,
                priors=pulls if given else ({}, *pulls),
            )
            models[:, output, :-1], models[:, output, -1] = fit.coef, fit.intercept
        return replace(state, models=models)
