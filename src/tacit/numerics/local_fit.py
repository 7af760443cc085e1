"""Each task's own penalised fit, with the strength settled by its own leave-one-out errors.

This is what a task can do without anybody: the single-task baseline, the message many protocols
start from, and the fall-back when what is shared does not help.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.special import expit

from tacit._rows import row_dots
from tacit._types import Array, IntArray
from tacit.losses import Loss
from tacit.numerics.logistic import LogisticPath, logistic_paths, logistic_paths_of_each
from tacit.numerics.prior import Prior
from tacit.numerics.ridge import RidgePath, ridge_paths
from tacit.numerics.stacks import settled, weighted
from tacit.numerics.threads import quiet_arithmetic
from tacit.tasks import TaskSet

__all__ = [
    "FEW_ROWS",
    "STRENGTHS",
    "LocalFit",
    "bounded_slopes",
    "leave_one_out_weights",
    "local_fit",
    "local_fits",
]
__all__ += ["relative_strengths"]

STRENGTHS = np.logspace(-4, 3, 15)  # as multiples of tr(X_iᵀX_i)/d
_TEMPER = 0.25
_LEAST_SCALE = 1e-200
FEW_ROWS = 5
_BATCH_ROWS = 200_000  # whole paths are held for one batch of tasks at a time


@dataclass(frozen=True)
class LocalFit:
    """Models (m, d) and intercepts (m,) of tasks on their own.

    ``support`` (m,) is the logarithm of the candidates' leave-one-out weights, summed.
    """

    coef: Array
    intercept: Array
    support: Array = field(default_factory=lambda: np.empty(0))


def relative_strengths(tasks: TaskSet, multiples: Array, *, intercept: bool) -> Array:
    """Return (m, a) strengths: multiples of tr(X_iᵀX_i)/d, with rows centred if ``intercept``.

    A strength then means the same whatever the unit of the features and the number of rows.
    """
    X = tasks.X.astype(np.float64, copy=False)
    w = tasks.weights
    square = row_dots(X, X)
    raw = tasks.task_sums(square if w is None else w * square)
    squares = raw
    if intercept:
        sums = tasks.task_sums(X if w is None else w[:, None] * X)
        squares = raw - row_dots(sums, sums) / tasks.amounts
    # A task of equal rows has no scale of its own, up to rounding, nor has one at the ends of the
    # float range; judged by its own rows alone.
    usable = (squares > 1e-12 * raw) & (squares > _LEAST_SCALE) & (squares < 1 / _LEAST_SCALE)
    scale = np.where(usable, squares / tasks.n_features, 1.0)
    return scale[:, None] * multiples


def leave_one_out_weights(errors: Array, counts: Array | IntArray, loss: Loss) -> Array:
    """Return weights (a, m) of candidates with leave-one-out ``errors`` (a, m), summing to 1.

    The weight is the candidate's leave-one-out likelihood to the power ¼: ``error^(−n/8)`` for
    the squared loss (Gaussian, variance profiled out), ``exp(−n·error/4)`` for the logistic.
    Picking the single best overfits small tasks: on School (30 % for training) that gives nMSE
    0.753, the weights 0.735, and on the paper's synthetic data 0.104 and 0.096.
    """
    return _weighed(errors, counts, loss)[0]


def _weighed(errors: Array, counts: Array | IntArray, loss: Loss) -> tuple[Array, Array]:
    """Return weights (a, m) that sum to 1, and the logarithms (m,) of what they summed to."""
    # By task from here on: sums along the last axis do not depend on how many tasks there are.
    by_task = np.ascontiguousarray(errors.T)
    if loss.name == "squared":
        logs: Array = 0.5 * np.log(np.maximum(by_task, np.finfo(float).tiny))
    else:
        logs = by_task
    least = logs.min(axis=1, keepdims=True)
    weights = np.exp(_TEMPER * counts[:, None] * (least - logs))
    total = weights.sum(axis=1, keepdims=True)
    return (weights / total).T, np.log(total[:, 0]) - _TEMPER * counts * least[:, 0]


def local_fit(
    tasks: TaskSet,
    loss: Loss,
    *,
    alpha: float | str = "auto",
    intercept: bool = True,
    priors: Sequence[Prior] = (Prior(),),
    beside: LocalFit | None = None,
    many: bool | None = None,
) -> LocalFit:
    """Fit every task on its own rows, under one prior or the leave-one-out average over several.

    Parameters
    ----------
    alpha : "auto" or float
        Strength on the scale of scikit-learn's ``Ridge`` (1/C of ``LogisticRegression``); "auto"
        averages the path with `leave_one_out_weights`.
    priors
        A plain one is single-task learning, and among several makes falling back one of the
        candidates. Alone with alpha="auto" and an intercept, squared losses get `bounded_slopes`.
    beside
        An earlier fit of the same tasks, whose candidates are averaged with these.
    many
        Whether many tasks are fitted, here or elsewhere (`are_many`); None where nobody says.

    Guarantee: row i of the result depends on task i's rows (and on public arguments) only, bit for
    bit: fitted alone, the task finds the same. A task that finds no finite model gets zero.
    """
    alone = alpha == "auto" and intercept and len(priors) == 1 and priors[0].plain
    with quiet_arithmetic():
        parts = [
            _fit(one, loss, alpha, intercept, priors, many) for one in tasks.batches(_BATCH_ROWS)
        ]
        fit = _concatenated(parts)
        if beside is not None:
            return _joined(fit, beside)
        return bounded_slopes(tasks, fit) if alone and loss.name == "squared" else fit


def local_fits(
    outputs: Sequence[TaskSet],
    loss: Loss,
    *,
    alpha: float | str = "auto",
    intercept: bool = True,
    many: bool | None = None,
) -> tuple[LocalFit, ...]:
    """Do as `local_fit` without priors for every output of the same rows, to the same bits.

    Labels are fitted in one pass over the rows, all classes side by side.
    """
    if loss.name == "squared" or len(outputs) == 1:
        return tuple(
            local_fit(one, loss, alpha=alpha, intercept=intercept, many=many) for one in outputs
        )
    found = []
    with quiet_arithmetic():
        rows = max(1, _BATCH_ROWS // len(outputs))
        for parts in zip(*(one.batches(rows) for one in outputs), strict=True):
            labels = np.column_stack([np.asarray(part.y, dtype=np.float64) for part in parts])
            alphas = _strengths(parts[0], alpha, intercept)
            paths = logistic_paths_of_each(parts[0], alphas, labels, intercept=intercept, many=many)
            found.append([_averaged([path], parts[0], loss) for path in paths])
    return tuple(_concatenated(fits) for fits in zip(*found, strict=True))


def _concatenated(parts: Sequence[LocalFit]) -> LocalFit:
    return LocalFit(
        np.concatenate([part.coef for part in parts]),
        np.concatenate([part.intercept for part in parts]),
        np.concatenate([part.support for part in parts]),
    )


def _strengths(tasks: TaskSet, alpha: float | str, intercept: bool) -> Array:
    if isinstance(alpha, str):
        return relative_strengths(tasks, STRENGTHS, intercept=intercept)
    return np.full((tasks.n_tasks, 1), max(alpha, 1e-10))


def _fit(
    tasks: TaskSet,
    loss: Loss,
    alpha: float | str,
    intercept: bool,
    priors: Sequence[Prior],
    many: bool | None,
) -> LocalFit:
    alphas = _strengths(tasks, alpha, intercept)
    squared = partial(ridge_paths, residuals=False)
    fit = squared if loss.name == "squared" else partial(logistic_paths, many=many)
    paths = [fit(tasks, alphas, intercept=intercept, prior=prior) for prior in priors]
    return _averaged(paths, tasks, loss)


def _averaged(paths: Sequence[RidgePath | LogisticPath], tasks: TaskSet, loss: Loss) -> LocalFit:
    """Return the average over all strengths of all paths, by their leave-one-out errors."""
    errors = np.concatenate([path.loo_errors for path in paths])
    weights, support = _weighed(errors, tasks.amounts, loss)
    coef = np.concatenate([path.coef for path in paths])
    offset = np.concatenate([path.intercept for path in paths])
    return LocalFit(*settled(weighted(weights, coef), weighted(weights, offset)), support)


def _joined(first: LocalFit, second: LocalFit) -> LocalFit:
    """Return the average over the candidates of both."""
    shares = expit(first.support - second.support)
    coef = first.coef * shares[:, None] + second.coef * (1 - shares)[:, None]
    intercept = first.intercept * shares + second.intercept * (1 - shares)
    return LocalFit(*settled(coef, intercept))


def bounded_slopes(tasks: TaskSet, fit: LocalFit) -> LocalFit:
    """Return fits of the squared loss in which small tasks predict near their own mean.

    Two rows that nearly coincide in x and differ in y make a slope as large as their distance is
    small, and leave-one-out cannot object: with one row left every strength predicts the same. For
    n_i ≤ 5 therefore ‖w_i‖·rms(‖x‖) ≤ √(n_i − 1)·sd(y_i), which is about what rows in general
    position give when nothing but their slope moves the targets; and the model passes through
    (x̄_i, ȳ_i). One row gives its target everywhere. Larger tasks are returned as they are.

    Guarantee: row i depends on task i's rows only; what is not finite becomes zero.
    """
    few = tasks.counts <= FEW_ROWS
    if not few.any():
        return fit
    small = tasks.take_tasks(np.flatnonzero(few))
    amounts, y = small.amounts, np.asarray(small.y, dtype=np.float64)
    X = small.X.astype(np.float64, copy=False)
    w = np.ones(len(y)) if small.weights is None else small.weights

    def mean(values: Array) -> Array:
        return (small.task_sums((values.T * w).T).T / amounts).T

    centre, level = mean(X), mean(y)
    apart = y - level[small.task_of_row]
    spread, length = np.sqrt(mean(apart * apart)), np.sqrt(mean(row_dots(X, X)))
    steep = np.sqrt((fit.coef[few] * fit.coef[few]).sum(axis=1))
    # Where rows have no length a slope has no effect on them: it is taken to be none.
    reach = np.sqrt(small.counts - 1.0) * spread
    most = np.divide(reach, length, out=np.zeros_like(reach), where=length > 0)
    shrink = np.divide(most, steep, out=np.ones_like(most), where=steep > most)
    coef, intercept = fit.coef.copy(), fit.intercept.copy()
    coef[few] *= shrink[:, None]
    intercept[few] = level - (coef[few] * centre).sum(axis=1)
    return LocalFit(*settled(coef, intercept), fit.support)
