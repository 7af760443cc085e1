"""Ridge regression of all tasks in closed form: whole paths, with leave-one-out residuals.

For every task i and every α, the minimiser of ``‖y_i − X_i w − b‖² + α (w − μ)ᵀ C⁻¹ (w − μ)``
(the intercept b is optional and not penalised), and the residual of every row when that row alone
is left out. One eigendecomposition for each task serves all α; tasks of similar size are
decomposed together, on the smaller side of X_i.

Guarantee: what is returned for a task depends on that task's rows (and the prior) alone, bit for
bit. A fit that is not finite is returned as the zero model, with an infinite error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._types import Array
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.objective import row_targets
from tacit.numerics.prior import Prior, PriorFrame, alpha_table
from tacit.numerics.stacks import eigh
from tacit.numerics.threads import batched_map

if TYPE_CHECKING:
    from tacit.tasks import TaskSet

__all__ = ["RidgeFit", "RidgePath", "ridge_best", "ridge_paths"]


@dataclass(frozen=True)
class RidgePath:
    """Ridge fits of all tasks along a path of strengths.

    Attributes
    ----------
    alphas : ndarray of shape (m, a)
        Strengths of every task.
    coef : ndarray of shape (a, m, d)
        Models.
    intercept : ndarray of shape (a, m)
        Intercepts (zero if none was asked for).
    loo_residuals : ndarray of shape (a, N)
        ``y_r`` minus its prediction by the fit without row r, in stored order; (a, 0) if they
        were not asked for.
    loo_errors : ndarray of shape (a, m)
        Mean squared leave-one-out residual of every task.
    """

    alphas: Array
    coef: Array
    intercept: Array
    loo_residuals: Array
    loo_errors: Array


@dataclass(frozen=True)
class RidgeFit:
    """Each task's fit at the strength with its least leave-one-out error.

    Attributes
    ----------
    alpha : ndarray of shape (m,)
        Strength chosen by every task.
    coef : ndarray of shape (m, d)
        Models.
    intercept : ndarray of shape (m,)
        Intercepts.
    loo_residuals : ndarray of shape (N,)
        Leave-one-out residuals at the chosen strength, in stored order.
    loo_errors : ndarray of shape (m,)
        Their mean square, by task.
    """

    alpha: Array
    coef: Array
    intercept: Array
    loo_residuals: Array
    loo_errors: Array


def ridge_paths(
    tasks: TaskSet,
    alphas: Array | float,
    *,
    targets: Array | None = None,
    prior: Prior | None = None,
    intercept: bool = False,
    residuals: bool = True,
) -> RidgePath:
    """Fit every task at every strength.

    Parameters
    ----------
    tasks : TaskSet
        Rows sorted by task; one task makes it a pooled ridge.
    alphas : float, ndarray of shape (a,) or (m, a)
        Strengths, for all tasks or for each.
    targets : ndarray of shape (N,), optional
        Targets in stored order; those of ``tasks`` if absent.
    prior : Prior, optional
        What models are pulled to, and the shape of the pull; zero and the identity if absent.
    intercept : bool
        Fit an unpenalised intercept for each task. Leave-one-out is exact: it moves the
        intercept too. The lone row of a one-row task is predicted by the prior, intercept zero.
    residuals : bool
        Keep every row's residual, and not only the tasks' errors.

    Returns
    -------
    RidgePath
        Models, intercepts and leave-one-out residuals.
    """
    y, frame, table = _prepared(tasks, targets, alphas, prior)
    m, a = table.shape
    coef = np.empty((a, m, tasks.X.shape[1]))
    offset = np.zeros((a, m))
    kept = np.empty((a, len(y) if residuals else 0))
    errors = np.empty((a, m))

    def fill(bucket: Bucket) -> None:
        chosen = table[bucket.tasks]
        V, b, loo = _bucket_path(tasks, y, bucket, frame, chosen, intercept)
        models = frame.models(V, bucket.tasks)
        mean_square = _mean_square(loo, bucket, tasks.weights)
        _settle(models, b, mean_square)
        coef[:, bucket.tasks] = models.transpose(1, 0, 2)
        offset[:, bucket.tasks] = b.T
        errors[:, bucket.tasks] = mean_square.T
        if residuals:
            bucket.scatter(loo.transpose(1, 0, 2), kept)

    batched_map(fill, size_buckets(tasks.offsets, tasks.X.shape[1]))
    return RidgePath(table, coef, offset, kept, errors)


def ridge_best(
    tasks: TaskSet,
    alphas: Array | float,
    *,
    targets: Array | None = None,
    prior: Prior | None = None,
    intercept: bool = False,
) -> RidgeFit:
    """Fit every task at the strength with its least leave-one-out error.

    Parameters are those of `ridge_paths`; the memory of the whole path is never held.

    Returns
    -------
    RidgeFit
        Chosen strengths, models, intercepts and leave-one-out residuals.
    """
    y, frame, table = _prepared(tasks, targets, alphas, prior)
    m = len(table)
    coef = np.empty((m, tasks.X.shape[1]))
    alpha, offset, errors = np.empty(m), np.zeros(m), np.empty(m)
    residuals = np.empty(len(y))

    def fill(bucket: Bucket) -> None:
        chosen = table[bucket.tasks]
        V, b, loo = _bucket_path(tasks, y, bucket, frame, chosen, intercept)
        models = frame.models(V, bucket.tasks)
        mean_square = _mean_square(loo, bucket, tasks.weights)
        _settle(models, b, mean_square)
        row, best = np.arange(len(V)), np.argmin(mean_square, axis=1)
        coef[bucket.tasks] = models[row, best]
        offset[bucket.tasks] = b[row, best]
        alpha[bucket.tasks] = chosen[row, best]
        errors[bucket.tasks] = mean_square[row, best]
        bucket.scatter(loo[row, best], residuals)

    batched_map(fill, size_buckets(tasks.offsets, tasks.X.shape[1]))
    return RidgeFit(alpha, coef, offset, residuals, errors)


def _mean_square(residuals: Array, bucket: Bucket, weights: Array | None) -> Array:
    return np.sum(residuals**2, axis=2) / bucket.shares(weights).sum(axis=1, keepdims=True)


def _settle(models: Array, intercepts: Array, errors: Array) -> None:
    """Put zero for models (b, a, d) that are not finite, and infinity for errors (b, a)."""
    bad = ~(np.isfinite(models).all(axis=2) & np.isfinite(intercepts) & np.isfinite(errors))
    if bad.any():
        models[bad], intercepts[bad], errors[bad] = 0.0, 0.0, np.inf


def _prepared(
    tasks: TaskSet,
    targets: Array | None,
    alphas: Array | float,
    prior: Prior | None,
) -> tuple[Array, PriorFrame, Array]:
    y, frame = row_targets(tasks, targets), (prior or Prior()).frame(tasks)
    return np.asarray(y, dtype=np.float64), frame, alpha_table(alphas, len(tasks.offsets) - 1)


def _bucket_path(
    tasks: TaskSet, y: Array, bucket: Bucket, frame: PriorFrame, alphas: Array, intercept: bool
) -> tuple[Array, Array, Array]:
    """Return models (b, a, r), intercepts (b, a) and leave-one-out residuals (b, a, n).

    A row of weight w is solved for as √w times the row, and its residual is √w times its own.
    """
    rows = frame.rows(bucket, tasks.X)
    target = bucket.stack(y) - frame.predictions(bucket, tasks.X)
    shares, weighs = bucket.shares(tasks.weights), tasks.weights is not None
    amounts, root = shares.sum(axis=1, keepdims=True), np.sqrt(shares) if weighs else shares
    raw, row_mean, target_mean = target, np.zeros(0), 0.0
    if intercept:  # the padding is zero, and without weights needs no share
        row_mean = (rows * shares[:, :, None] if weighs else rows).sum(axis=1) / amounts
        target_mean = (target * shares if weighs else target).sum(axis=1, keepdims=True) / amounts
        rows -= row_mean[:, None, :]  # a stack of its own
        target = target - target_mean
    if weighs or (intercept and not bucket.mask.all()):
        rows *= root[:, :, None]
        target = target * root
    solve = _dual_path if bucket.least <= rows.shape[2] else _primal_path
    V, loo = solve(rows, target, alphas, root if intercept else None)
    if not intercept:
        return V, np.zeros(alphas.shape), loo
    lone = (shares > 0).sum(axis=1) == 1
    loo[lone] = (raw * root)[lone][:, None, :]
    return V, target_mean - (V @ row_mean[:, :, None])[:, :, 0], loo


def _dual_path(
    rows: Array, target: Array, alphas: Array, centred: Array | None
) -> tuple[Array, Array]:
    """Solve on the rows' side: with ``K = X Xᵀ``, dual ``c = (K + α)⁻¹ y`` and ``w = Xᵀ c``.

    The leave-one-out residual is ``c_r / [(K + α)⁻¹]_rr``, which stays accurate as α → 0. With
    centred data the intercept's share 1/n of the leverage has to come off. The vector ``centred``
    (ones, or the roots of weights) is in K's null space; giving it the eigenvalue of the trace's
    size first keeps that subtraction from cancelling.
    """
    kernel = rows @ rows.transpose(0, 2, 1)
    shift = np.zeros((len(rows), 1))
    if centred is not None:
        counts = (centred * centred).sum(axis=1)[:, None]
        trace = np.trace(kernel, axis1=1, axis2=2)[:, None]
        shift = np.where(trace > 0, trace, 1.0)
        ones = centred / np.sqrt(counts)
        kernel = kernel + shift[:, :, None] * ones[:, :, None] * ones[:, None, :]
    eigenvalues, U = eigh(kernel)
    inverse = 1 / (np.maximum(eigenvalues, 0)[:, None, :] + alphas[:, :, None])
    projected = target[:, None, :] @ U
    dual = (inverse * projected) @ U.transpose(0, 2, 1)
    diagonal = inverse @ (U * U).transpose(0, 2, 1)
    if centred is not None:
        share = 1 / (counts * (shift + alphas))
        diagonal = diagonal - share[:, :, None] * (centred * centred)[:, None, :]
        diagonal = np.where(diagonal > 0, diagonal, 1.0)
    return dual @ rows, dual / diagonal


def _primal_path(
    rows: Array, target: Array, alphas: Array, centred: Array | None
) -> tuple[Array, Array]:
    """Solve on the features' side: leverage ``h_r = x_rᵀ (XᵀX + α)⁻¹ x_r``, residual/(1 − h)."""
    eigenvalues, V = eigh(rows.transpose(0, 2, 1) @ rows)
    inverse = 1 / (np.maximum(eigenvalues, 0)[:, None, :] + alphas[:, :, None])
    rotated = rows @ V
    solved = inverse * (target[:, None, :] @ rotated)
    # In place from here on: for one task of all rows, fresh memory costs as much as the arithmetic.
    residual = solved @ rotated.transpose(0, 2, 1)
    np.subtract(target[:, None, :], residual, out=residual)
    np.square(rotated, out=rotated)
    spare = inverse @ rotated.transpose(0, 2, 1)
    np.subtract(1, spare, out=spare)
    if centred is not None:
        shares = centred * centred
        spare -= (shares / shares.sum(axis=1)[:, None])[:, None, :]
    residual /= spare
    return solved @ V.transpose(0, 2, 1), residual
