"""Personal fits under several priors, averaged by what each task's own rows say of them.

One family is the task alone; the others are priors that somebody else's rows gave, with strengths
that are known up to a few factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
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
from tacit.numerics.told_alone import left_out, standard_error, weighted_mean
from tacit.tasks import TaskSet

__all__ = ["Family", "family_fit"]

# Of numbers: likelihood counts to this power, and what a family gained only beyond so many standard
# errors.
_TEMPER, _DOUBTFUL = 0.5, 0.5
# Strengths fall with the square of what a task's own fit leaves, in units of what the common model
# leaves, down to the first; odds for what was shared fall as well, from where it is the second on.
_LEAST_EASE, _UNLIKE = 0.01, 1 / 9
# What speaks for sharing beforehand counts up to so many times what a task's own rows gain by the
# best family; where they lose by all of them, something speaks against it.
_HEARD, _UNHEARD = 2.0, -1.0


@dataclass(frozen=True)
class Family:
    """Priors N(mean_i, covariance / strength) of the slopes of task i, one for each strength.

    ``strengths`` are (a,) for all tasks, or (m, a); ``mean`` is (m, d), or (d,) for all tasks.
    ``covariance`` (d, d) may be singular, and is in units of the answers' noise variance for the
    squared loss. With ``level`` (m,) the intercept has a prior too, N(level_i, level_variance):
    for the squared loss divided by the strength, as the noise is; for labels at every strength.
    Without, it is free. ``spread`` is the variance of answers about the common model, for the
    squared loss: strengths are in its units.
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
    many: bool | None = None,
) -> LocalFit:
    """Fit every task alone and under each family, and average by leave-one-out likelihood.

    Parameters
    ----------
    favour : float or ndarray of shape (m,)
        Log-odds for what was shared before a task's own rows have spoken.
    many : bool, optional
        See `local_fit`.

    Guarantee: row i of the result depends on task i's rows and row i of the families' means only,
    bit for bit. A task that finds no finite model gets zero. Without families it is `local_fit`.
    """
    if not families:
        return local_fit(tasks, loss, intercept=intercept, many=many)
    fit = ridge_paths if loss.name == "squared" else partial(logistic_paths, many=many)
    with quiet_arithmetic():
        alone = relative_strengths(tasks, STRENGTHS, intercept=intercept)
        paths = [fit(tasks, alone, intercept=intercept)]
        left = weighted_mean(
            leave_one_out_weights(paths[0].loo_errors, tasks.counts, loss), paths[0].loo_errors
        )
        paths += [_path(fit, tasks, loss, family, intercept, left) for family in families]
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


def _path(
    fit: Any, tasks: TaskSet, loss: Loss, family: Family, intercept: bool, left: Array
) -> Any:
    """Return the fits under one family; a level is a column of the rows while they are fitted.

    A task whose own fit leaves less (``left``, (m,)) than the common model leaves of everybody's
    answers is pulled less: its noise is smaller, and its differences are not.
    """
    ease = np.clip(_ease(family, left), _LEAST_EASE, 1.0)
    strengths, level = ease[:, None] * np.asarray(family.strengths), family.level
    if level is None or not intercept:
        prior = Prior(family.mean, family.covariance)
        return fit(tasks, strengths, intercept=intercept, prior=prior)
    if loss.name == "squared":
        return _level_path(fit, tasks, family, level, strengths, np.ones(tasks.n_tasks))
    parts = [
        _level_path(fit, tasks, family, level, one, np.sqrt(one[:, 0]))
        for one in strengths.T[:, :, None]
    ]
    joined = {
        field.name: np.concatenate(
            [getattr(part, field.name) for part in parts], axis=int(field.name == "alphas")
        )
        for field in fields(parts[0])
    }
    return replace(parts[0], **joined)


def _level_path(
    fit: Any, tasks: TaskSet, family: Family, level: Array, strengths: Array, column: Array
) -> Any:
    """Return the fits with a prior of the level, the coefficient of a ``column`` (m,) of the rows.

    The level's variance is that of the family times column²/strength.
    """
    d = tasks.n_features
    X = np.concatenate([tasks.X, column[tasks.task_of_row, None]], axis=1)
    covariance = np.zeros((d + 1, d + 1))
    covariance[:d, :d], covariance[d, d] = family.covariance, family.level_variance
    mean = np.broadcast_to(family.mean, (tasks.n_tasks, d))
    mean = np.concatenate([mean, (level / column)[:, None]], axis=1)
    prior = Prior(mean, covariance)
    path = fit(tasks.replace(X=X), strengths, intercept=False, prior=prior)
    return replace(path, coef=path.coef[..., :d], intercept=column * path.coef[..., d])


def _between(
    tasks: TaskSet, loss: Loss, paths: Sequence[Any], within: Sequence[Array], favour: Array | float
) -> Array:
    """Return each family's share (f, m), the task's own first.

    The strengths of a family are averaged softly first, as a task alone averages them. Families are
    then weighed by how much better than the task's own fit they tell rows that are left out, less
    where few rows tell it by chance. Nor are they overruled: that others have something in common
    does not say that it can be told under noise in coordinates that suit this task; if no family
    tells its rows better, ``favour`` is not heard.
    """
    means = np.stack(
        [weighted_mean(w, path.loo_errors) for w, path in zip(within, paths, strict=True)]
    )
    rows = [left_out(tasks, loss, path, w) for w, path in zip(within, paths, strict=True)]
    apart = np.stack([rows[0] - family for family in rows])
    weigh = _by_numbers if loss.name == "squared" else _by_labels
    score = weigh(tasks, means, apart, favour) - np.log(len(paths) - 1)
    score[0] = 0.0
    by_task = np.ascontiguousarray(np.where(np.isfinite(score), score, -np.inf).T)
    return np.exp(by_task - logsumexp(by_task, axis=1, keepdims=True)).T


def _by_numbers(tasks: TaskSet, means: Array, apart: Array, favour: Array | float) -> Array:
    """Return each family's log-odds (f, m) by Gaussian likelihood, variance profiled out.

    ``means`` (f, m) are mean losses of rows left out, ``apart`` (f, N) what each gained by row.
    """
    means = np.maximum(means, np.finfo(float).tiny)
    gain = 0.5 * tasks.counts * (np.log(means[0]) - np.log(means))
    doubt = np.stack([standard_error(tasks, family) for family in apart])
    doubt = doubt / (2 * np.minimum(means[0], means))
    return np.asarray(_TEMPER * (gain - _DOUBTFUL * doubt) + _heard(favour, gain))


def _by_labels(tasks: TaskSet, means: Array, apart: Array, favour: Array | float) -> Array:
    """Return each family's log-odds (f, m) by what its rows gain in log loss, as far as it is sure.

    With l the log-odds and s² their variance, the mean of the sigmoid of N(l, s²) is the sigmoid of
    l/√(1 + π s²/8), nearly: so much is left of what rows say if other rows might have said
    something else (pseudo-BMA with a bootstrap, in closed form). s² is Σ gain² over the rows, as if
    neither were better: then few rows cannot be sure because they happen to agree, and n of them
    say at most 1.6 √n.
    """
    gain = tasks.counts * (means[0] - means)
    square = np.stack([tasks.task_sums(family * family) for family in apart])
    return np.asarray((gain + _heard(favour, gain)) / np.sqrt(1 + np.pi / 8 * square))


def _heard(favour: Array | float, gain: Array) -> Array:
    """Return what counts of ``favour``, (m,), where rows gain (f, m)."""
    return np.minimum(favour, np.fmax(_HEARD * gain[1:].max(axis=0), _UNHEARD))
