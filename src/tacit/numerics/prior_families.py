"""Personal fits under several priors, averaged by what each task's own rows say of them.

One family is the task alone; the others are priors that somebody else's rows gave, with strengths
that are known up to a few factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.local_fit import (
    STRENGTHS,
    LocalFit,
    bounded_slopes,
    leave_one_out_weights,
    local_fit,
    relative_strengths,
)
from tacit.numerics.logistic import logistic_paths
from tacit.numerics.prior import Prior
from tacit.numerics.ridge import ridge_paths
from tacit.numerics.stacks import settled, weighted
from tacit.numerics.threads import quiet_arithmetic
from tacit.tasks import TaskSet

__all__ = ["Family", "family_fit"]

_TEMPER = {"squared": 0.25, "logistic": 0.5}


@dataclass(frozen=True)
class Family:
    """Priors N(mean_i, covariance / strength) of the slopes of task i, one for each strength.

    ``mean`` is (m, d), or (d,) for all tasks; ``covariance`` (d, d) may be singular, and is in
    units of the answers' noise variance for the squared loss. With ``level`` (m,) the intercept has
    a prior too, N(level_i, level_variance / strength); without, it is free.
    """

    mean: Array
    covariance: Array
    strengths: tuple[float, ...]
    level: Array | None = None
    level_variance: float = 0.0


def family_fit(
    tasks: TaskSet, loss: Loss, families: Sequence[Family], *, favour: float, intercept: bool
) -> LocalFit:
    """Fit every task alone and under each family, and average by leave-one-out likelihood.

    Parameters
    ----------
    favour : float
        Log-odds for what was shared before a task's own rows have spoken.

    Guarantee: row i of the result depends on task i's rows and row i of the families' means only,
    bit for bit. A task that finds no finite model gets zero. Without families it is `local_fit`.
    """
    if not families:
        return local_fit(tasks, loss, intercept=intercept)
    fit = ridge_paths if loss.name == "squared" else logistic_paths
    with quiet_arithmetic():
        alone = relative_strengths(tasks, STRENGTHS, intercept=intercept)
        paths = [fit(tasks, alone, intercept=intercept)]
        paths += [_path(fit, tasks, family, intercept) for family in families]
        n_own = len(paths[0].coef)
        offered = sum(len(path.coef) for path in paths[1:])
        odds = np.full(n_own + offered, favour - np.log(offered))
        odds[:n_own] = -np.log(n_own)
        errors = np.concatenate([path.loo_errors for path in paths])
        weights = _weights(errors, odds, tasks.counts.astype(np.float64), loss)
        own = _own(tasks, loss, paths[0], intercept)
        share = np.ascontiguousarray(weights[:n_own].T).sum(axis=1)
        shared = weights[n_own:]
        coef = weighted(shared, np.concatenate([path.coef for path in paths[1:]]))
        offset = weighted(shared, np.concatenate([path.intercept for path in paths[1:]]))
        return LocalFit(*settled(share[:, None] * own.coef + coef, share * own.intercept + offset))


def _own(tasks: TaskSet, loss: Loss, path: Any, intercept: bool) -> LocalFit:
    """Return the fit of `local_fit` from its path."""
    weights = leave_one_out_weights(path.loo_errors, tasks.counts, loss)
    fit = LocalFit(*settled(weighted(weights, path.coef), weighted(weights, path.intercept)))
    return bounded_slopes(tasks, fit) if intercept and loss.name == "squared" else fit


def _path(fit: Any, tasks: TaskSet, family: Family, intercept: bool) -> Any:
    """Return the fits under one family; a level is a column of the rows while they are fitted."""
    strengths = np.asarray(family.strengths)
    if family.level is None or not intercept:
        prior = Prior(family.mean, family.covariance)
        return fit(tasks, strengths, intercept=intercept, prior=prior)
    d = tasks.n_features
    covariance = np.zeros((d + 1, d + 1))
    covariance[:d, :d], covariance[d, d] = family.covariance, family.level_variance
    mean = np.broadcast_to(family.mean, (tasks.n_tasks, d))
    mean = np.concatenate([mean, family.level[:, None]], axis=1)
    prior = Prior(mean, covariance)
    path = fit(tasks.with_intercept(), strengths, intercept=False, prior=prior)
    return replace(path, coef=path.coef[..., :d], intercept=path.coef[..., d])


def _weights(errors: Array, odds: Array, counts: Array, loss: Loss) -> Array:
    """Return weights (a, m) from leave-one-out errors (a, m), prior log-odds (a,), rows (m,)."""
    by_task = np.ascontiguousarray(errors.T)
    if loss.name == "squared":
        by_task = 0.5 * np.log(np.maximum(by_task, np.finfo(float).tiny))
    best = by_task.min(axis=1, keepdims=True)
    gain = np.where(np.isfinite(by_task), best - by_task, -np.inf)
    score = odds + _TEMPER[loss.name] * counts[:, None] * gain
    return np.exp(score - logsumexp(score, axis=1, keepdims=True)).T
