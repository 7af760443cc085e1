"""Multi-task relationship learning (Zhang & Yeung 2010), without privacy.

Minimises Σ_i L_i(w_i) + (λ/2m) tr(Wᵀ Ω⁻¹ W) over models W (m, d) and a task covariance Ω ⪰ 0 of
trace 1. Unrelated tasks have Ω = I/m, where the penalty is an ordinary ridge of strength λ.

For given W the best covariance is Ω = (W Wᵀ)^½ / tr (W Wᵀ)^½, and what remains of the penalty is
(λ/2m)‖W‖_*², the squared trace norm. So instead of alternating between W and Ω, which is slow
because a covariance of rank d ties W to the directions it has, the joint problem is solved in W by
accelerated proximal gradient, and Ω is read off at the end. No m × m matrix is ever formed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tacit._types import Array
from tacit.joint.structured import (
    OnFeatures,
    Prepared,
    StructuredFit,
    held_out_error,
    prepare,
    validation_folds,
)
from tacit.losses import Loss
from tacit.numerics.descent import proximal_gradient
from tacit.numerics.shared_map import symmetric_spectrum
from tacit.tasks import TaskSet

__all__ = ["RelationshipPenalty", "choose_relationship_strength", "fit_relationships"]

_STRENGTHS = np.logspace(1, -3.5, 10)


@dataclass(frozen=True)
class RelationshipPenalty:
    """min over Ω of (strength/2m) tr(Wᵀ Ω⁻¹ W), which is (strength/2m)‖W‖_*²."""

    strength: float
    task_separable: ClassVar[bool] = False

    def value(self, W: Array) -> float:
        """Penalty of all models together, at their best covariance."""
        total = float(np.linalg.svd(W, compute_uv=False).sum())
        return self.strength / (2 * len(W)) * total**2

    def prox(self, W: Array, step: float | Array) -> Array:
        """Shrink singular values by τ = step·(strength/m)·Σ_j max(σ_j − τ, 0)."""
        tall = W if W.shape[0] >= W.shape[1] else W.T
        squares, vectors = symmetric_spectrum(tall.T @ tall)
        singular = np.sqrt(np.maximum(squares, 0.0))
        threshold = _self_consistent(singular, float(step) * self.strength / len(W))
        factors = np.maximum(0.0, 1 - threshold / np.maximum(singular, 1e-300))
        shared = ((vectors * factors) @ vectors.T).astype(W.dtype)
        return np.asarray(W @ shared if tall is W else shared @ W)


def _self_consistent(singular: Array, rate: float) -> float:
    """Return the τ with τ = rate·Σ max(σ − τ, 0).

    If the k largest remain, τ = rate·Σ_k σ / (1 + rate·k); the right k is where τ is largest.
    """
    sums = np.cumsum(np.sort(singular)[::-1])
    return float(np.max(rate * sums / (1 + rate * np.arange(1, len(sums) + 1)), initial=0.0))


def _solve(
    ready: Prepared, strength: float, *, start: Array | None, rounds: int, tolerance: float
) -> Array:
    penalty = OnFeatures(RelationshipPenalty(strength), ready.n_features, ready.levels)
    return proximal_gradient(
        ready.objective, penalty, start=start, max_rounds=rounds, tolerance=tolerance
    ).W


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
            W = _solve(ready, float(strength), start=W, rounds=100, tolerance=2e-3)
            errors[number] += held_out_error(ready.restored(W, 0.0), train, held, loss)
    return float(strengths[int(np.argmin(errors)) if folds else len(strengths) // 2])


def fit_relationships(
    tasks: TaskSet, loss: Loss, strength: float, *, fit_intercept: bool
) -> tuple[StructuredFit, Array]:
    """Return the models and an (m, r) factor F of the task covariance, Ω = F Fᵀ."""
    ready = prepare(tasks, loss, fit_intercept=fit_intercept)
    W = _solve(ready, strength, start=None, rounds=500, tolerance=1e-4)
    left, singular, _ = np.linalg.svd(W[:, : ready.n_features], full_matrices=False)
    share = singular / max(float(singular.sum()), 1e-300)
    return ready.restored(W, strength), left * np.sqrt(share)
