"""Personal models averaged over candidate priors, robustly enough for small tasks.

A candidate is a Gaussian prior N(μ, γC) with the scale γ unknown. Picking the candidate with the
least leave-one-out error overfits the choice on tasks of a few dozen rows, so nothing is picked:
models are averaged over candidates and scales, each weighted by how well it explains the task.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from scipy.special import logsumexp

from tacit._rows import row_dots
from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.buckets import Bucket, size_buckets
from tacit.numerics.local_fit import LocalFit, local_fit, relative_strengths
from tacit.numerics.logistic import logistic_paths
from tacit.numerics.prior import Prior
from tacit.numerics.stacks import eigh, settled, weighted
from tacit.numerics.threads import batched_map, quiet_arithmetic
from tacit.tasks import TaskSet

__all__ = ["averaged_fit"]

# Far beyond the strengths of a task on its own: a good prior mean may deserve to be kept as it is.
_STRENGTHS = np.logspace(-4, 5, 19)
# Strengths of a logistic fit, as multiples of the one under which a row's log-odds have this
# standard deviation. Wider priors are left out: where a task's labels are separable Laplace's
# approximation flatters them, as their peak runs away and its curvature vanishes.
_LARGEST_LOG_ODDS = 5.0
_LOGISTIC_STRENGTHS = np.logspace(0, 6, 10)
_BATCH_ROWS = 400_000
_LEAST_ENERGY = 1e-12  # of the targets' sum of squares: below it the arithmetic has no say


def averaged_fit(
    tasks: TaskSet,
    loss: Loss,
    candidates: Sequence[Prior],
    *,
    intercept: bool = True,
    own: LocalFit | None = None,
    many: bool | None = None,
) -> LocalFit:
    """Fit every task under every candidate prior and average the fits with the task's own weights.

    Parameters
    ----------
    candidates
        Priors beside the task's own fit (`local_fit`), which always takes part; without any, the
        own fit is the result.
    own : LocalFit, optional
        The own fit if it is at hand already.
    many : bool, optional
        See `local_fit`.

    Notes
    -----
    The weight of a candidate is its evidence, the probability it gives to the task's targets,
    averaged over the strengths α: for the squared loss the density N(Xμ, σ²(I + X C Xᵀ/α)) with
    σ² profiled and the intercept integrated out, for the logistic loss its Laplace approximation.

    Guarantee: row i of the result depends on task i's rows and on the candidates only, bit for
    bit. A task that finds no finite average gets zero.
    """
    own = own or local_fit(tasks, loss, intercept=intercept, many=many)
    if not candidates:
        return own
    coef, offset = np.empty_like(own.coef), np.empty_like(own.intercept)
    first = 0
    with quiet_arithmetic():
        for batch in tasks.batches(_BATCH_ROWS):
            part = slice(first, first + batch.n_tasks)
            fit = LocalFit(own.coef[part], own.intercept[part])
            averaged = (
                _averaged_ridge
                if loss.name == "squared"
                else partial(_averaged_logistic, many=many)
            )
            coef[part], offset[part] = settled(*averaged(batch, candidates, fit, intercept))
            first += batch.n_tasks
    return LocalFit(coef, offset)


def _averaged_logistic(
    tasks: TaskSet,
    candidates: Sequence[Prior],
    own: LocalFit,
    intercept: bool,
    *,
    many: bool | None,
) -> tuple[Array, Array]:
    """Return models (m, d) and intercepts (m,)."""
    # tr(XᵀX)/(n α) is the prior variance of a row's log-odds.
    widest = tasks.n_features / (_LARGEST_LOG_ODDS**2 * tasks.counts)
    base = relative_strengths(tasks, np.ones(1), intercept=intercept)
    alphas = base * widest[:, None] * _LOGISTIC_STRENGTHS
    coefs, offsets, scores = [], [], []
    for number, candidate in enumerate([Prior(), *candidates]):
        root = candidate.unit_root
        unit = Prior(candidate.mean, None if root is None else root @ root.T)
        path = logistic_paths(tasks, alphas, prior=unit, intercept=intercept, many=many)
        weights, score = _normalised(path.log_evidence)
        coefs.append(weighted(weights, path.coef) if number else own.coef)
        offsets.append(weighted(weights, path.intercept) if number else own.intercept)
        scores.append(score)
    weights, _ = _normalised(np.array(scores))
    return weighted(weights, np.array(coefs)), weighted(weights, np.array(offsets))


def _normalised(log_weights: Array) -> tuple[Array, Array]:
    """Return weights (a, m) that sum to 1 for every task, and the logarithms (m,) of the sums."""
    by_task = np.ascontiguousarray(log_weights.T)
    total = logsumexp(by_task, axis=1, keepdims=True)
    return np.exp(by_task - total).T, total[:, 0]


def _by_covariance(
    candidates: Sequence[Prior],
) -> list[tuple[Array | None, list[Array | None]]]:
    """Group candidates that share a covariance: one decomposition serves all their means.

    The task's own prior, N(0, γI), comes first.
    """
    groups: list[tuple[Array | None, Array | None, list[Array | None]]] = [(None, None, [None])]
    for candidate in candidates:
        for covariance, _, means in groups:
            if covariance is candidate.covariance:
                means.append(candidate.mean)
                break
        else:
            groups.append((candidate.covariance, candidate.unit_root, [candidate.mean]))
    return [(root, means) for _, root, means in groups]


def _averaged_ridge(
    tasks: TaskSet, candidates: Sequence[Prior], own: LocalFit, intercept: bool
) -> tuple[Array, Array]:
    """Return models (m, d) and intercepts (m,)."""
    groups = _by_covariance(candidates)
    alphas = relative_strengths(tasks, _STRENGTHS, intercept=intercept)
    coef, offset = np.empty_like(own.coef), np.empty(tasks.n_tasks)
    targets = np.asarray(tasks.y, dtype=np.float64)

    def fill(bucket: Bucket) -> None:
        rows, y = bucket.stack(tasks.X), bucket.stack(targets)
        row_mean, level = np.zeros((len(rows), rows.shape[2])), np.zeros(len(rows))
        degrees = bucket.counts.astype(np.float64)
        if intercept:
            row_mean, level = rows.sum(axis=1) / degrees[:, None], y.sum(axis=1) / degrees
            rows = (rows - row_mean[:, None]) * bucket.mask[:, :, None]
            y = (y - level[:, None]) * bucket.mask
            degrees = degrees - 1
        models, scores = [], []
        for root, means in groups:
            centres = np.stack([np.zeros(rows.shape[2]) if mu is None else mu for mu in means])
            left = y[:, :, None] - rows @ centres.T
            moved, score = _evidence_path(
                rows if root is None else rows @ root, left, alphas[bucket.tasks], degrees
            )
            models.append(centres + (moved if root is None else moved @ root.T))
            scores.append(score)
        fits = np.concatenate(models, axis=1)
        fits[:, 0] = own.coef[bucket.tasks]
        score = np.concatenate(scores, axis=1)
        weights = np.exp(score - logsumexp(score, axis=1, keepdims=True))
        coef[bucket.tasks] = (weights[:, None, :] @ fits)[:, 0]
        offset[bucket.tasks] = level - row_dots(row_mean, coef[bucket.tasks])

    batched_map(fill, size_buckets(tasks.offsets, 2 * tasks.n_features))
    return coef, offset


def _evidence_path(
    rows: Array, targets: Array, alphas: Array, degrees: Array
) -> tuple[Array, Array]:
    """Return models (b, t, r), averaged over strengths, and log evidence (b, t) of t targets.

    With X Xᵀ = U λ Uᵀ and p = Uᵀy, −2 log evidence = degrees·log Σ_j p_j² α/(λ_j + α) +
    Σ_j log(1 + λ_j/α) up to a constant. The smaller side of X is decomposed.
    """
    dual = rows.shape[1] <= rows.shape[2]
    energy = np.maximum(np.einsum("bnt,bnt->bt", targets, targets), 1e-300)
    gram = rows @ rows.transpose(0, 2, 1) if dual else rows.transpose(0, 2, 1) @ rows
    values, vectors = eigh(gram)
    values = np.maximum(values, 0.0)
    seen = targets if dual else rows.transpose(0, 2, 1) @ targets
    projected = seen.transpose(0, 2, 1) @ vectors  # (b, t, j)
    inverse = 1 / (values[:, None, :] + alphas[:, :, None])  # (b, a, j)
    explained = projected**2 @ inverse.transpose(0, 2, 1)
    unexplained = explained * alphas[:, None, :] if dual else energy[:, :, None] - explained
    unexplained = np.maximum(unexplained, _LEAST_ENERGY * energy[:, :, None])
    volume = np.log1p(values[:, None, :] / alphas[:, :, None]).sum(axis=2)
    score = -0.5 * (degrees[:, None, None] * np.log(unexplained) + volume[:, None, :])
    total = logsumexp(score, axis=2)
    weights = np.exp(score - total[:, :, None])
    solved = (weights @ inverse) * projected
    models = solved @ vectors.transpose(0, 2, 1)
    return (models @ rows if dual else models), total
