"""Models as a shared part plus an own part, W = P + Q, without privacy.

Minimises Σ_i L_i(p_i + q_i) + λ₁·shared(P) + λ₂·own(Q): trace norm (or ℓ2,1) on P, ℓ1 on the
entries of Q (or ℓ2 by task, or ridge). λ₁ is first chosen for Q = 0, then compared with pairs
(λ₁, λ₂), all by cross-validation within tasks.
"""

from __future__ import annotations

import numpy as np

from tacit._types import Array
from tacit.joint.structured import (
    Prepared,
    StructuredFit,
    choose_strength,
    held_out_error,
    largest_strength,
    prepare,
    validation_folds,
)
from tacit.losses import Loss
from tacit.numerics.descent import proximal_gradient
from tacit.numerics.objective import Objective
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES, Penalty
from tacit.protocols.decomposed import SplitPenalty
from tacit.tasks import TaskSet

__all__ = ["choose_decomposed_strengths", "fit_decomposed"]

# Shares of the strengths at which P, and Q, vanish; Q is of use when both fall together.
_SHARED_PATH = (0.1, 0.03, 0.01, 0.003)
_OWN_SHARES = (1.0, 0.3)


def _twice(ready: Prepared) -> Objective:
    """Return the objective of (P, Q[, intercept]): every row's features stand there twice."""
    tasks, d = ready.objective.tasks, ready.n_features
    return Objective(tasks.replace(X=np.hstack([tasks.X[:, :d], tasks.X])), ready.objective.loss)


def _solve(
    ready: Prepared,
    twice: Objective,
    pattern: str,
    own: str,
    strengths: tuple[float, float],
    *,
    max_rounds: int,
    tolerance: float,
) -> Array:
    """Return W = P + Q (with the intercept column last, if there is one) of prepared rows."""
    d = ready.n_features
    parts: list[tuple[Penalty, int]] = [(SHARED_PENALTIES[pattern](strengths[0]), d)]
    parts.append((OWN_PENALTIES[own](strengths[1]), d))
    if ready.appended:
        parts.append((ready.levels, 1))
    W = proximal_gradient(
        twice,
        SplitPenalty(tuple(parts)),
        max_rounds=max_rounds,
        tolerance=tolerance,
    ).W
    return np.hstack([W[:, :d] + W[:, d : 2 * d], W[:, 2 * d :]])


def _largest_own(ready: Prepared) -> float:
    """Return the ℓ1 strength above which Q stays zero at W = 0."""
    objective = ready.objective
    gradient = objective.gradient(np.zeros(objective.shape))[:, : ready.n_features]
    return max(float(np.abs(gradient).max(initial=0.0)), 1e-12)


def choose_decomposed_strengths(
    tasks: TaskSet, loss: Loss, pattern: str, own: str, *, fit_intercept: bool
) -> tuple[float, float]:
    """Return (λ₁, λ₂) with the least cross-validated loss; λ₂ may be so large that Q = 0."""
    first = choose_strength(tasks, loss, pattern, fit_intercept=fit_intercept)
    full = prepare(tasks, loss, fit_intercept=fit_intercept)
    top, largest = largest_strength(full, pattern), _largest_own(full)
    candidates = [(first, 1e6 * largest)] + [
        (part * top, share * part * largest) for part in _SHARED_PATH for share in _OWN_SHARES
    ]
    errors = np.zeros(len(candidates))
    for train, held in validation_folds(tasks, n_folds=3):
        ready = prepare(train, loss, fit_intercept=fit_intercept)
        twice = _twice(ready)
        for number, pair in enumerate(candidates):
            W = _solve(ready, twice, pattern, own, pair, max_rounds=60, tolerance=2e-3)
            errors[number] += held_out_error(ready.restored(W, pair[0]), train, held, loss)
    return candidates[int(np.argmin(errors))]


def fit_decomposed(
    tasks: TaskSet,
    loss: Loss,
    pattern: str,
    own: str,
    strengths: tuple[float, float],
    *,
    fit_intercept: bool,
) -> StructuredFit:
    """Return the models P + Q."""
    ready = prepare(tasks, loss, fit_intercept=fit_intercept)
    W = _solve(ready, _twice(ready), pattern, own, strengths, max_rounds=500, tolerance=1e-4)
    return ready.restored(W, strengths[0])
