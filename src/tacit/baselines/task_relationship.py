"""Multi-task relationship learning (Zhang & Yeung 2010), without privacy.

Minimises Σ_i L_i(w_i) + (λ/2m) tr(Wᵀ Ω⁻¹ W) over models W (m, d) and a task covariance Ω ⪰ 0 of
trace 1, alternately: given W, Ω = (W Wᵀ)^½ / tr (W Wᵀ)^½; given Ω, accelerated proximal gradient.
Unrelated tasks have Ω = I/m, where the penalty is an ordinary ridge of strength λ.

W has rank d at most, so Ω is kept as V diag(s) Vᵀ plus a small multiple of the identity: a step
costs O(m d²), and no m × m matrix is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit._types import Array
from tacit.baselines.structured import (
    OnFeatures,
    Prepared,
    StructuredFit,
    held_out_error,
    prepare,
    validation_folds,
)
from tacit.losses import Loss
from tacit.numerics.descent import proximal_gradient
from tacit.tasks import TaskSet

__all__ = ["RelationshipPenalty", "choose_relationship_strength", "fit_relationships"]

_IDENTITY_SHARE = 1e-2
_OUTER_ROUNDS = 6
# From weak to strong: models that a strong penalty has made zero tell no relationships.
_STRENGTHS = np.logspace(-3.5, 1, 10)


@dataclass(frozen=True)
class RelationshipPenalty:
    """(strength/2m) tr(Wᵀ Ω⁻¹ W) with Ω = V diag(values) Vᵀ + rest·(I − V Vᵀ)."""

    strength: float
    vectors: Array
    values: Array
    rest: float
    task_separable: ClassVar[bool] = False

    @classmethod
    def of_models(cls, strength: float, W: Array) -> RelationshipPenalty:
        """Return the penalty at the best Ω for ``W``, slightly regularised towards I/m."""
        m = len(W)
        vectors, singular, _ = np.linalg.svd(W, full_matrices=False)
        total = max(float(singular.sum()), 1e-300)
        floor = _IDENTITY_SHARE / m
        return cls(strength, vectors, (1 - _IDENTITY_SHARE) * singular / total + floor, floor)

    @classmethod
    def unrelated(cls, strength: float, m: int) -> RelationshipPenalty:
        """Return the penalty at Ω = I/m."""
        return cls(strength, np.zeros((m, 0)), np.zeros(0), 1 / m)

    def value(self, W: Array) -> float:
        """Penalty of all models together."""
        inside = self.vectors.T @ W
        outside = W - self.vectors @ inside
        weighted = float(np.sum(inside**2 / self.values[:, None]))
        return self.strength / (2 * len(W)) * (weighted + float(np.sum(outside**2)) / self.rest)

    def prox(self, W: Array, step: float | Array) -> Array:
        """Return (I + step·strength/m · Ω⁻¹)⁻¹ W."""
        pull = float(step) * self.strength / len(W)
        inside = self.vectors.T @ W
        outside = self.rest / (self.rest + pull)
        factors = self.values / (self.values + pull) - outside
        return np.asarray(outside * W + self.vectors @ (factors[:, None] * inside), dtype=W.dtype)


def _solve(ready: Prepared, strength: float, *, start: Array | None, rounds: int) -> Array:
    objective = ready.objective
    W = start
    d = ready.n_features
    for turn in range(_OUTER_ROUNDS):
        if turn == 0 and W is None:
            penalty = RelationshipPenalty.unrelated(strength, objective.shape[0])
        else:
            penalty = RelationshipPenalty.of_models(strength, np.asarray(W)[:, :d])
        W = proximal_gradient(
            objective, OnFeatures(penalty, d), start=W, max_rounds=rounds, tolerance=1e-3
        ).W
    return np.asarray(W)


def choose_relationship_strength(tasks: TaskSet, loss: Loss, *, fit_intercept: bool) -> float:
    """Return the strength with the least cross-validated loss, along a warm-started path.

    Strengths are relative to the mean curvature of the tasks' losses.
    """
    full = prepare(tasks, loss, fit_intercept=fit_intercept)
    scale = float(full.objective.curvature().mean()) or 1.0
    strengths = scale * _STRENGTHS
    errors = np.zeros(len(strengths))
    folds = 0
    for train, held in validation_folds(tasks, n_folds=3):
        folds += 1
        ready = prepare(train, loss, fit_intercept=fit_intercept)
        W = None
        for number, strength in enumerate(strengths):
            W = _solve(ready, float(strength), start=W, rounds=10)
            errors[number] += held_out_error(ready.restored(W, 0.0), train, held, loss)
    return float(strengths[int(np.argmin(errors)) if folds else len(strengths) // 2])


def fit_relationships(
    tasks: TaskSet, loss: Loss, strength: float, *, fit_intercept: bool
) -> tuple[StructuredFit, Array]:
    """Return the models and an (m, r) factor F of the task covariance, Ω ≈ F Fᵀ."""
    ready = prepare(tasks, loss, fit_intercept=fit_intercept)
    W = _solve(ready, strength, start=None, rounds=60)
    penalty = RelationshipPenalty.of_models(strength, W[:, : ready.n_features])
    return ready.restored(W, strength), penalty.vectors * np.sqrt(penalty.values)
