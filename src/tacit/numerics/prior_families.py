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

from tacit._types import Array, IntArray
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

_TEMPER = {"squared": 1.0, "logistic": 0.5}


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
        within = [leave_one_out_weights(path.loo_errors, tasks.counts, loss) for path in paths]
        share = _between([path.loo_errors for path in paths], within, favour, tasks.counts, loss)
        own = _own(tasks, loss, paths[0], within[0], intercept)
        offered = np.concatenate([w * part for w, part in zip(within[1:], share[1:], strict=True)])
        coef = weighted(offered, np.concatenate([path.coef for path in paths[1:]]))
        offset = weighted(offered, np.concatenate([path.intercept for path in paths[1:]]))
        coef += share[0][:, None] * own.coef
        return LocalFit(*settled(coef, share[0] * own.intercept + offset))


def _own(tasks: TaskSet, loss: Loss, path: Any, weights: Array, intercept: bool) -> LocalFit:
    """Return the fit of `local_fit` from its path and weights."""
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


def _between(
    errors: Sequence[Array], within: Sequence[Array], favour: float, counts: IntArray, loss: Loss
) -> Array:
    """Return each family's share (f, m), the task's own first.

    The strengths of a family are averaged softly first, as a task alone averages them; families
    are then weighed by the errors that this leaves, more sharply.
    """
    left = np.stack([_mean(part, each) for part, each in zip(within, errors, strict=True)])
    by_task = np.ascontiguousarray(left.T)
    if loss.name == "squared":
        by_task = 0.5 * np.log(np.maximum(by_task, np.finfo(float).tiny))
    best = by_task.min(axis=1, keepdims=True)
    gain = np.where(np.isfinite(by_task), best - by_task, -np.inf)
    odds = np.full(len(errors), favour - np.log(len(errors) - 1))
    odds[0] = 0.0
    score = odds + _TEMPER[loss.name] * counts[:, None] * gain
    return np.exp(score - logsumexp(score, axis=1, keepdims=True)).T


def _mean(weights: Array, errors: Array) -> Array:
    """Return the weighted mean over axis 0; fits of infinite error have no weight."""
    return np.asarray(np.sum(np.where(weights > 0, weights * errors, 0.0), axis=0))
