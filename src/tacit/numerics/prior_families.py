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

# Likelihood counts to these powers, and what a family gained only beyond so many standard errors.
_TEMPER = {"squared": 0.5, "logistic": 0.25}
_DOUBTFUL = 0.5
# Strengths fall with the square of what a task's own fit leaves, in units of what the common model
# leaves, down to the first; odds for what was shared fall as well, from where it is the second on.
_LEAST_EASE, _UNLIKE = 0.01, 1 / 9
# What speaks for sharing beforehand counts up to so many times what a task's own rows gain by the
# best family; where they lose by all of them, something speaks against it. Labels tell too little
# of it: there what is known beforehand counts as it is.
_HEARD, _UNHEARD = 2.0, {"squared": -1.0, "logistic": np.inf}
# Where the best family loses more labels than chance would, this stands in its place.
_AGAINST = -8.0


@dataclass(frozen=True)
class Family:
    """Priors N(mean_i, covariance / strength) of the slopes of task i, one for each strength.

    ``strengths`` are (a,) for all tasks, or (m, a); ``mean`` is (m, d), or (d,) for all tasks.
    ``covariance`` (d, d) may be singular, and is in units of the answers' noise variance for the
    squared loss. With ``level`` (m,) the intercept has a prior too, N(level_i, level_variance /
    strength); without, it is free. ``spread`` is the variance of answers about the common model,
    for the squared loss: strengths are in its units.
    """

    mean: Array
    covariance: Array
    strengths: tuple[float, ...] | Array
    level: Array | None = None
    level_variance: float = 0.0
    spread: float = 0.0


def family_fit(
    tasks: TaskSet,
    loss: Loss,
    families: Sequence[Family],
    *,
    favour: Array | float,
    intercept: bool,
) -> LocalFit:
    """Fit every task alone and under each family, and average by leave-one-out likelihood.

    Parameters
    ----------
    favour : float or ndarray of shape (m,)
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
        left = _mean(
            leave_one_out_weights(paths[0].loo_errors, tasks.counts, loss), paths[0].loo_errors
        )
        paths += [_path(fit, tasks, family, intercept, left) for family in families]
        within = [leave_one_out_weights(path.loo_errors, tasks.counts, loss) for path in paths]
        ease = np.stack([_ease(family, left) for family in families]).min(axis=0)
        odds = favour + np.log(np.clip(ease / _UNLIKE, np.finfo(float).tiny, 1.0))
        share = _between(tasks, loss, paths, within, odds)
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


def _ease(family: Family, left: Array) -> Array:
    """Return what a task's own fit leaves, in units of the family's spread, squared, (m,).

    Far below 1 it says that answers were released in a unit that is not theirs: under loud noise a
    loose bound is taken for their size, and a model of noise for one of theirs.
    """
    if family.spread == 0:
        return np.ones_like(left)
    found = (left / family.spread) ** 2
    return np.where(np.isnan(found), 1.0, found)


def _path(fit: Any, tasks: TaskSet, family: Family, intercept: bool, left: Array) -> Any:
    """Return the fits under one family; a level is a column of the rows while they are fitted.

    A task whose own fit leaves less (``left``, (m,)) than the common model leaves of everybody's
    answers is pulled less: its noise is smaller, and its differences are not.
    """
    ease = np.clip(_ease(family, left), _LEAST_EASE, 1.0)
    strengths = ease[:, None] * np.asarray(family.strengths)
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
    tasks: TaskSet, loss: Loss, paths: Sequence[Any], within: Sequence[Array], favour: Array | float
) -> Array:
    """Return each family's share (f, m), the task's own first.

    The strengths of a family are averaged softly first, as a task alone averages them. Families are
    then weighed by how much better than the task's own fit they tell rows that are left out, less
    half the standard error of that: few rows cannot speak for a family by chance. Nor are they
    overruled: that others have something in common does not say that it can be told under noise in
    coordinates that suit this task; if no family tells its rows better, ``favour`` is not heard.
    Labels may be told so well alone that all families lose many times over, and yet by few nats:
    then what they lose counts in full, and ``favour`` by what there is left to gain.
    """
    means = np.stack([_mean(w, path.loo_errors) for w, path in zip(within, paths, strict=True)])
    means = np.maximum(means, np.finfo(float).tiny)
    rows = [_left_out(tasks, loss, path, w) for w, path in zip(within, paths, strict=True)]
    doubt = np.stack([_standard_error(tasks, rows[0] - family) for family in rows])
    tempered: Array | float = _TEMPER[loss.name]
    if loss.name == "squared":  # Gaussian, variance profiled out
        gain = 0.5 * tasks.counts * (np.log(means[0]) - np.log(means))
        doubt = doubt / (2 * np.minimum(means[0], means))
    else:
        gain = tasks.counts * (means[0] - means)
        there = _left_to_gain(tasks, means[0])
        favour = _unless_lost(np.minimum(favour, there * favour), gain[1:], doubt[1:], there)
        tempered = np.where(gain < 0, there * tempered + 1 - there, tempered)
    heard = np.minimum(favour, np.fmax(_HEARD * gain[1:].max(axis=0), _UNHEARD[loss.name]))
    score = tempered * (gain - _DOUBTFUL * doubt) + heard - np.log(len(paths) - 1)
    score[0] = 0.0
    by_task = np.ascontiguousarray(np.where(np.isfinite(score), score, -np.inf).T)
    return np.exp(by_task - logsumexp(by_task, axis=1, keepdims=True)).T


def _left_to_gain(tasks: TaskSet, left: Array) -> Array:
    """Return the log loss ``left`` by own fits, a row, as a part of what no model leaves, (m,).

    At most 1; far below, labels are told so well alone that others can hardly but harm.
    """
    share = (tasks.task_sums(np.asarray(tasks.y, dtype=np.float64)) + 0.5) / (tasks.counts + 1.0)
    no_model = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    return np.asarray(np.clip(left / no_model, 0.0, 1.0))


def _unless_lost(favour: Array, gain: Array, doubt: Array, after: Array) -> Array:
    """Return the favour (m,); it gives way from ``after`` standard errors lost to one more.

    Lost by the best family, of gains (f, m) with standard errors ``doubt``.
    """
    best = np.where(np.isfinite(gain), gain, -np.inf).argmax(axis=0)[None]
    gain, doubt = (np.take_along_axis(values, best, axis=0)[0] for values in (gain, doubt))
    lost = np.divide(-gain, doubt, out=np.zeros_like(gain), where=doubt > 0)
    against = np.minimum(_AGAINST - favour, 0.0)
    return np.asarray(favour + against * np.clip(lost - after, 0.0, 1.0))


def _left_out(tasks: TaskSet, loss: Loss, path: Any, weights: Array) -> Array:
    """Return the loss (N,) of every row, told by the average of the fits without it."""
    weights = weights[:, tasks.task_of_row]
    if loss.name == "squared":
        return _mean(weights, path.loo_residuals) ** 2
    found = loss.value(_mean(weights, path.loo_predictions), np.asarray(tasks.y, dtype=np.float64))
    return np.asarray(found if tasks.weights is None else tasks.weights * found)


def _standard_error(tasks: TaskSet, values: Array) -> Array:
    """Return the standard error of the sum over each task's rows, (m,)."""
    n = tasks.counts
    apart = values - (tasks.task_sums(values) / n)[tasks.task_of_row]
    return np.sqrt(tasks.task_sums(apart * apart) * n / np.maximum(n - 1, 1))


def _mean(weights: Array, values: Array) -> Array:
    """Return the weighted mean over axis 0; what has no weight is not looked at.

    Along the last axis of a copy, so that the order of additions depends on nobody else.
    """
    counted = np.where(weights > 0, weights * values, 0.0)
    return np.asarray(np.ascontiguousarray(counted.T).sum(axis=-1))
