"""The average of the tasks' models, one release: DP-AGGR accounted for whole tasks.

Pathak et al. (2010) average locally trained models and protect single rows; turned into protection
of whole tasks by group privacy that costs n times the budget. Bounding every model and adding noise
to the sum protects tasks directly. Up: k·(d + 1) numbers a task; down: the same, once.

With directions (``clip=None``) the average has no scale: every task scales it, and adds its own
intercept, by a one-dimensional fit at home. With a public radius the average itself is the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.numerics.logistic_dual import are_many
from tacit.privacy.bounds import VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.protocols._home import Outputs, fitted, joining, shadow
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["AveragedProtocol"]


@dataclass(frozen=True)
class AveragedProtocol(Protocol[Array, Outputs]):
    """One round; the public state is the average (k, d), with the intercept if there is a clip.

    Guarantee: joint DP with the task as unit under replace-one: a replaced task moves the sum of
    bounded models by 2K in ℓ2 norm, and the divisor m is public. The scale and the intercept that
    a task fits to the average stay with the task.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    n_outputs: int = 1
    clip: float | None = None
    fit_intercept: bool = True

    def rounds(self) -> tuple[Round, ...]:
        """Return the one round: the sum of directions, or of models with their intercept."""
        if self.clip is None:
            return (Round("mean", VectorNormalise(1.0), (self.n_outputs, self.n_features)),)
        return (Round("mean", VectorClip(self.clip), (self.n_outputs, self.n_features + 1)),)

    def opening(self) -> Array:
        """Return the constant 0."""
        return np.zeros(self.rounds()[0].shape)

    def read(self, public: Array, release: AnyArray, call: Call, noise: Mechanism) -> Array:  # noqa: ARG002
        """Return the average."""
        return np.asarray(release) / self.n_tasks

    def shown(self, public: Array) -> Shared:
        """Show the average, without its intercept."""
        return Shared(mean_model=public[:, : self.n_features])

    def start(self, rows: TaskSet, positions: IntArray) -> Outputs:  # noqa: ARG002
        """Keep the rows, once per output."""
        return one_vs_rest(rows, self.n_outputs)

    def speak(
        self,
        home: Outputs,
        public: Array,  # noqa: ARG002
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[Outputs, Array]:
        """Say the own model (directions: without intercept)."""
        many = are_many(self.n_tasks, self.n_features)
        models = fitted(home, self.loss, intercept=self.fit_intercept, many=many)
        return home, joining(models[..., :-1] if self.clip is None else models, joined)

    def finish(self, home: Outputs, public: Array) -> Array:
        """Return the average as everybody's model, scaled at home where it has no scale."""
        n_tasks = home[0].n_tasks
        if self.clip is not None:
            return np.repeat(public[None], n_tasks, axis=0)
        many = are_many(self.n_tasks, self.n_features)
        models = np.zeros((n_tasks, self.n_outputs, self.n_features + 1))
        for number, part in enumerate(home):
            unit = public[number] / max(float(np.linalg.norm(public[number])), 1e-300)
            fit = local_fit(shadow(part, unit), self.loss, intercept=self.fit_intercept, many=many)
            models[:, number, :-1] = np.maximum(fit.coef, 0.0) * unit
            models[:, number, -1] = fit.intercept
        return models
