"""One model for everybody: the average of the tasks' models."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.estimators._base import Learned, outputs
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.estimators._weighted import WeightedRows
from tacit.numerics.local_fit import local_fit
from tacit.numerics.logistic_dual import are_many
from tacit.privacy.ledger import Ledger
from tacit.privacy.statement import Statement
from tacit.protocols.averaged import AveragedProtocol
from tacit.tasks import TaskSet

__all__ = ["AveragedClassifier", "AveragedRegressor"]


class _Averaged(WeightedRows, PrivateEstimator):
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
        fit_intercept: bool = True,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _protocol(self, sizes: Sizes) -> AveragedProtocol:
        return AveragedProtocol(
            loss=self._loss,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_outputs=sizes.n_outputs,
            clip=None if self.clip == "auto" else float(self.clip),
            fit_intercept=self.fit_intercept,
        )

    def _read_public(self, public: Array, sizes: Sizes) -> dict[str, Any]:  # noqa: ARG002
        if self.clip == "auto":
            return {}
        return {"shared_coef": public[:, :-1], "shared_intercept": public[:, -1]}

    def _learn_open(self, tasks: TaskSet, targets: Array) -> Learned:
        many = are_many(tasks.n_tasks, tasks.n_features)
        fits = [
            local_fit(output, self._loss, intercept=self.fit_intercept, many=many)
            for output in outputs(tasks, targets)
        ]
        coef = np.stack([fit.coef.mean(axis=0) for fit in fits])
        intercept = np.stack([fit.intercept.mean(axis=0) for fit in fits])
        return Learned(
            coef=np.repeat(coef[None], tasks.n_tasks, axis=0),
            intercept=np.repeat(intercept[None], tasks.n_tasks, axis=0),
            statement=Statement.non_private(n_units=tasks.n_tasks),
            shared_coef=coef,
            shared_intercept=intercept,
        )


class AveragedRegressor(MultiTaskRegressor, _Averaged):
    """One regression for everybody: the average of the tasks' own models (DP-AGGR).

    A baseline: it fits where tasks are alike, and unlike the other private estimators it does not
    fall back to single-task learning when the noise is large.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget for one whole task; ``float("inf")`` is the exact average.
    delta : "auto" or float
    mechanism : "auto", "gaussian" or "gamma-vector"
    clip : "auto" or float
        "auto" averages directions, which every task scales, with an intercept of its own, at home;
        a number is the public radius of a model with its intercept, and the average is the model.
    fit_intercept : bool, default True
    ledger, data, random_state, engine, progress, unknown_task
        See :class:`tacit.estimators.PrivateEstimator`.

    Guarantee: (ε, δ) joint differential privacy for every task under replace-one, against all other
    tasks together; the curator is trusted. Proof in
    :class:`tacit.protocols.averaged.AveragedProtocol`.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # with one task the average is mostly noise
        return tags


class AveragedClassifier(MultiTaskClassifier, _Averaged):
    """One logistic regression for everybody: the average of the tasks' own models (DP-AGGR).

    Parameters and guarantee are those of :class:`AveragedRegressor`.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # with one task the average is mostly noise
        return tags
