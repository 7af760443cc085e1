"""Models related through a learned covariance of tasks."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.estimators._base import Learned, outputs
from tacit.estimators._hierarchical import HierarchicalPrior
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import Sizes
from tacit.estimators._structured import alone
from tacit.joint.structured import StructuredFit
from tacit.joint.task_relationship import choose_relationship_strength, fit_relationships
from tacit.privacy.ledger import Ledger
from tacit.privacy.statement import Statement
from tacit.protocols.hierarchical import HierarchicalProtocol, HierarchicalPublic
from tacit.protocols.task_relationship import RelationshipProtocol, Relationships
from tacit.tasks import TaskSet

__all__ = ["TaskRelationshipClassifier", "TaskRelationshipRegressor"]


class _TaskRelationship(HierarchicalPrior):
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        alpha: float | str = "auto",
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
        self.alpha = alpha
        self.mechanism = mechanism
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _protocol(self, sizes: Sizes) -> HierarchicalProtocol | RelationshipProtocol:
        if self.clip == "auto":
            return self._hierarchical(sizes, pattern="related")
        return RelationshipProtocol(
            loss=self._loss,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_outputs=sizes.n_outputs,
            clip=float(self.clip),
            fit_intercept=self.fit_intercept,
        )

    def _read_public(
        self, public: HierarchicalPublic | Relationships, sizes: Sizes
    ) -> dict[str, Any]:
        if isinstance(public, Relationships):
            return {"extra": {"task_embedding_": public.embedding}}
        places = public.embedding
        found = np.zeros((sizes.n_tasks, 0)) if places is None else places
        return {**self._shared_model(public, sizes), "extra": {"task_embedding_": found}}

    def _learn_open(self, tasks: TaskSet, targets: Array) -> Learned:
        if tasks.n_tasks == 1 and self.alpha == "auto":
            fits = [
                alone(output, self._loss, fit_intercept=self.fit_intercept)
                for output in outputs(tasks, targets)
            ]
            return self._stacked(fits, [np.ones((1, 1))] * len(fits))
        fits, factors = [], []
        for output in outputs(tasks, targets):
            strength = (
                choose_relationship_strength(output, self._loss, fit_intercept=self.fit_intercept)
                if self.alpha == "auto"
                else float(self.alpha)
            )
            fit, factor = fit_relationships(
                output, self._loss, strength, fit_intercept=self.fit_intercept
            )
            fits.append(fit)
            factors.append(factor)
        return self._stacked(fits, factors)

    @staticmethod
    def _stacked(fits: list[StructuredFit], factors: list[Array]) -> Learned:
        return Learned(
            coef=np.stack([fit.coef for fit in fits], axis=1),
            intercept=np.stack([fit.intercept for fit in fits], axis=1),
            statement=Statement.non_private(n_units=len(factors[0])),
            extra={
                "alpha_": np.array([fit.strength for fit in fits]),
                "task_embedding_": np.concatenate(factors, axis=1),
            },
        )


class TaskRelationshipRegressor(MultiTaskRegressor, _TaskRelationship):
    """Regressions related through a learned covariance of tasks.

    ``task_embedding_`` (m, r) holds the relationships: inner products of its rows are the
    covariances of tasks. Without privacy this is multi-task relationship learning (MTRL). With a
    finite ε the hierarchical prior is learned, whose covariance of features says the same of models
    as the tasks' own covariance does; and where a large ε lets it be seen, every task releases its
    deviation from the mean, with noise of its own, for the map. ``clip`` asks for DP-MTRL in a
    sound form: every task releases its model once, with noise of its own, and nobody is trusted.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget for one whole task; ``float("inf")`` is MTRL without privacy.
    delta : "auto" or float
    alpha : "auto" or float
        Strength at ``epsilon=inf`` ("auto": cross-validation within tasks).
    mechanism : "auto", "gaussian" or "gamma-vector"
    clip : "auto" or float
        "auto" learns the hierarchical prior; a number is the public radius of released models.
    fit_intercept : bool, default True
    ledger, data, random_state, engine, progress, unknown_task
        See :class:`tacit.estimators.PrivateEstimator`.

    Guarantee: (ε, δ) joint differential privacy for every task under replace-one, against all other
    tasks together; the curator is trusted unless a clip is given. Proofs in
    :class:`tacit.protocols.hierarchical.HierarchicalProtocol` and
    :class:`tacit.protocols.task_relationship.RelationshipProtocol`.
    """


class TaskRelationshipClassifier(MultiTaskClassifier, _TaskRelationship):
    """Logistic regressions related through a learned covariance of tasks.

    Parameters and guarantee are those of :class:`TaskRelationshipRegressor`.
    """
