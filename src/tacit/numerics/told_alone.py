"""How well a task tells labels by itself, and what that has to say against a model from others.

Public evidence that tasks are alike, summed over all of them, is worth dozens of nats to each: it
would overrule any task, also one that tells its labels far better alone than under the prior that
suits most. So the rows of a task that tells them well are asked: left out one by one, are they told
worse by the shared model than by the own one?
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._types import Array
from tacit.losses import LogisticLoss, Loss
from tacit.numerics.local_fit import STRENGTHS, leave_one_out_weights, relative_strengths
from tacit.numerics.logistic import logistic_paths
from tacit.numerics.threads import quiet_arithmetic
from tacit.tasks import TaskSet

__all__ = [
    "doubted",
    "left_out",
    "left_to_gain",
    "own_left_out",
    "standard_error",
    "weighted_mean",
]

_AGAINST = -8.0  # log-odds for what loses more labels than chance would
_FEW_LABELS = 3  # of the rarer kind: fewer cannot say that labels are told well
_UPPER_END = 2.0  # standard errors: some luck with a few rows is not telling labels well
_BATCH_ROWS = 200_000
_LOSS = LogisticLoss()


def doubted(
    odds: Array, tasks: TaskSet, own: Array, shared: Array, *, most: float = np.inf
) -> Array:
    """Return log-odds (m,) for the shared models, less where a task's labels speak against them.

    Parameters
    ----------
    odds : (m,) array
        Log-odds by evidence, the task's and everybody's.
    own, shared : (N,) arrays
        Loss of every row when it is left out, of the own fits and of the shared models.
    most : float
        Log-odds are at most this times t/(1 − t), with t as below, in tasks that can tell it.

    With a part t of the labels' entropy left by the own fit, at the upper end of what it may be
    (two standard errors), odds for sharing count by t, and give way where the shared model loses by
    more than t/(1 − t) standard errors: at once where labels are told well alone, never where they
    are hardly told at all.

    Guarantee: row i depends on task i's rows and on public arguments only.
    """
    with quiet_arithmetic():
        positive = tasks.task_sums(np.asarray(tasks.y, dtype=np.float64))
        few = np.minimum(positive, tasks.counts - positive) < _FEW_LABELS
        left = tasks.task_sums(own) + _UPPER_END * standard_error(tasks, own)
        there = left_to_gain(tasks, left / tasks.amounts)
        there = np.where(few, 1.0, there)
        gain, doubt = tasks.task_sums(own - shared), standard_error(tasks, own - shared)
        lost = np.divide(-gain, doubt, out=np.zeros_like(gain), where=doubt > 0)
        hard = there / np.maximum(1 - there, 1e-9)
        certain = np.clip(lost - hard, 0.0, 1.0)
        kept = np.minimum(odds, there * odds)
        kept = np.minimum(kept, np.where(few | np.isinf(most), np.inf, most * hard))
        found = kept + certain * np.minimum(_AGAINST - kept, 0.0)
    return np.where(np.isfinite(found), found, odds)


def own_left_out(tasks: TaskSet, *, intercept: bool, many: bool | None) -> Array:
    """Return the loss (N,) of every row, told by its task's `local_fit` of labels without it."""
    found = []
    with quiet_arithmetic():
        for part in tasks.batches(_BATCH_ROWS):
            strengths = relative_strengths(part, STRENGTHS, intercept=intercept)
            path = logistic_paths(part, strengths, intercept=intercept, many=many)
            weights = leave_one_out_weights(path.loo_errors, part.amounts, _LOSS)
            found.append(left_out(part, _LOSS, path, weights))
    return np.concatenate(found)


def left_out(tasks: TaskSet, loss: Loss, path: Any, weights: Array) -> Array:
    """Return the loss (N,) of every row, told by the average of the path's fits without it."""
    weights = weights[:, tasks.task_of_row]
    if loss.name == "squared":
        return weighted_mean(weights, path.loo_residuals) ** 2
    told = weighted_mean(weights, path.loo_predictions)
    found = loss.value(told, np.asarray(tasks.y, dtype=np.float64))
    return np.asarray(found if tasks.weights is None else tasks.weights * found)


def left_to_gain(tasks: TaskSet, left: Array) -> Array:
    """Return the log loss ``left`` by own fits, a row, as a part of what no model leaves, (m,).

    At most 1; far below, labels are told so well alone that others can hardly but harm.
    """
    share = (tasks.task_sums(np.asarray(tasks.y, dtype=np.float64)) + 0.5) / (tasks.counts + 1.0)
    no_model = -(share * np.log(share) + (1 - share) * np.log1p(-share))
    return np.asarray(np.clip(left / no_model, 0.0, 1.0))


def standard_error(tasks: TaskSet, values: Array) -> Array:
    """Return the standard error of the sum over each task's rows, (m,)."""
    n = tasks.counts
    apart = values - (tasks.task_sums(values) / n)[tasks.task_of_row]
    return np.sqrt(tasks.task_sums(apart * apart) * n / np.maximum(n - 1, 1))


def weighted_mean(weights: Array, values: Array) -> Array:
    """Return the weighted mean over axis 0; what has no weight is not looked at.

    Along the last axis of a copy, so that the order of additions depends on nobody else.
    """
    counted = np.where(weights > 0, weights * values, 0.0)
    return np.asarray(np.ascontiguousarray(counted.T).sum(axis=-1))
