"""The average of the tasks' models, one release: DP-AGGR accounted for whole tasks.

Pathak et al. (2010) average locally trained models and protect single rows; turned into protection
of whole tasks by group privacy (`tacit.baselines.group_privacy`) that costs n times the budget.
Bounding every model and adding noise to the sum protects tasks directly. Up: k·(d + 1) numbers a
task; down: the same, once.

With directions (``clip=None``) the average has no scale: every task scales it, and adds its own
intercept, by a one-dimensional fit at home. With a public radius the average itself is the model.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.kernels import row_products
from tacit.numerics.local_fit import local_fit
from tacit.privacy.bounds import Bound, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["AveragedProtocol", "AveragedState"]


@dataclass(frozen=True)
class AveragedState:
    """What a stack of tasks keeps: rows by output, models (m, k, d + 1), the public average."""

    outputs: tuple[TaskSet, ...]
    models: Array
    average: Array


@dataclass(frozen=True)
class AveragedProtocol:
    """One round; ``mechanisms`` holds the one mechanism, calibrated by the caller.

    Guarantee: joint DP with the task as unit under replace-one: a replaced task moves the sum of
    bounded models by 2K in ℓ2 norm, and the divisor m is public. The scale and the intercept that
    a task fits to the average stay with the task.
    """

    loss: Loss
    n_tasks: int
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

    def start(self, tasks: TaskSet) -> AveragedState:
        """Fit every task on its own."""
        outputs = one_vs_rest(tasks, self.n_outputs)
        models = np.empty((tasks.n_tasks, len(outputs), tasks.n_features + 1))
        for number, part in enumerate(outputs):
            fit = local_fit(part, self.loss, intercept=self.fit_intercept)
            models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
        return AveragedState(outputs, models, np.zeros(models.shape[1:]))

    def speak(self, state: AveragedState, t: int) -> Array:  # noqa: ARG002
        """Say the model (directions: without intercept)."""
        return state.models[..., :-1] if self.clip is None else state.models

    def bound(self, messages: Array) -> Array:
        """Limit every task's message."""
        return self.limit(self.clip)(messages)

    def aggregate(self, messages: Array) -> Array:
        """Sum; the public divisor is applied after the noise."""
        return self.limit(self.clip).aggregate(messages)

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of the only round."""
        return self.mechanisms[t]

    def listen(self, state: AveragedState, release: Array, t: int) -> AveragedState:  # noqa: ARG002
        """Take the average as everybody's model."""
        mean = np.asarray(release) / self.n_tasks
        if self.clip is not None:
            models = np.repeat(mean[None], len(state.models), axis=0)
            return replace(state, models=models, average=mean)
        models = np.zeros_like(state.models)
        for number, part in enumerate(state.outputs):
            unit = mean[number] / max(float(np.linalg.norm(mean[number])), 1e-300)
            shadow = part.replace(X=row_products(part.X, unit)[:, None])
            fit = local_fit(shadow, self.loss, intercept=self.fit_intercept)
            models[:, number, :-1] = np.maximum(fit.coef, 0.0) * unit
            models[:, number, -1] = fit.intercept
        average = np.concatenate([mean, np.zeros((len(mean), 1))], axis=1)
        return replace(state, models=models, average=average)

    def finish(self, state: AveragedState) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        return state.models
