"""How far a task's predictions may be off: the posterior of its model, computed at home.

A prediction at x has the variance  noise_i + uᵀ spread_i u,  u = (x − centre_i, 1), where the
first part is the task's own noise and the second what its rows leave open about its model.

Squared loss, Gaussian prior N(μ, σ²R) on the model and Jeffreys' prior on σ². With G = ZᵀZ and
r = y − Zμ the posterior covariance is σ²V, V = (R⁻¹ + G)⁻¹, and σ² is inverse gamma with n degrees
of freedom around quad = rᵀr − (Zᵀr)ᵀV(Zᵀr), so that E σ² = quad/(n − 2). Of several candidates for
the prior the one with the largest posterior weight is taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

from tacit._types import Array, IntArray
from tacit.numerics.hierarchical import Candidates, SquaredTasks
from tacit.numerics.local_fit import STRENGTHS, relative_strengths
from tacit.numerics.stacks import eigh
from tacit.tasks import TaskSet

__all__ = ["Spread", "spread_alone", "spread_under"]

_LEAST = 1e-12  # of the targets' energy
_BATCH = 1 << 22  # numbers in the matrices of one batch of tasks


@dataclass(frozen=True)
class Spread:
    """Predictive variances of m tasks.

    Guarantee: row i depends on task i's rows and on public arguments only.
    """

    noise: Array  # (m,)
    centre: Array  # (m, d)
    spread: Array  # (m, d + 1, d + 1)


def _noise(quad: Array, counts: Array) -> Array:
    return quad / np.maximum(counts - 2, 1.0)


@np.errstate(all="ignore")
def spread_under(
    tasks: SquaredTasks, shared: Candidates, alone: Candidates, log_weights: Array
) -> Spread:
    """Return the spread under the candidate that a task's rows and the releases favour most."""
    pulled = tasks.evidence(shared) + log_weights[: shared.size] - np.log(shared.size)
    free = tasks.evidence(alone) + log_weights[shared.size :] - np.log(alone.size)
    best = np.concatenate([pulled, free], axis=1).argmax(axis=1)
    m, d, frame = len(best), tasks.frame.origin.size, tasks.frame
    noise, spread = np.zeros(m), np.zeros((m, d + 1, d + 1))
    back = np.append(1 / frame.scale, 1.0)
    for offset, candidates in ((0, shared), (shared.size, alone)):
        mine = (best >= offset) & (best < offset + candidates.size)
        shapes, slopes, levels = np.unravel_index(
            np.where(mine, best - offset, 0), candidates.shape
        )
        for s, (root, mean) in enumerate(zip(candidates.shapes, candidates.means, strict=True)):
            for part in _batches(np.flatnonzero(mine & (shapes == s)), d):
                tau = candidates.slopes[slopes[part]], candidates.levels[levels[part]]
                found = _posterior(tasks, part, mean, root, *tau)
                noise[part] = found[0]
                p = found[1].shape[1]
                spread[part, :p, :p] = found[1] * back[:p, None] * back[:p]
    return Spread(noise, np.repeat(frame.origin[None], m, axis=0), spread)


def _batches(chosen: IntArray, d: int) -> list[IntArray]:
    step = max(1, _BATCH // (d + 1) ** 2)
    return [chosen[low : low + step] for low in range(0, len(chosen), step)]


def _posterior(
    tasks: SquaredTasks,
    part: IntArray,
    mean: Array,
    root: Array | None,
    slopes: Array,
    levels: Array,
) -> tuple[Array, Array]:
    """Return noise variances (b,) and covariances (b, p, p) in the frame's coordinates."""
    gram, d = tasks.gram[part], tasks.frame.origin.size
    p = gram.shape[1]
    half = np.zeros((len(part), p, p))  # R = half halfᵀ
    half[:, :d, :d] = np.sqrt(slopes)[:, None, None] * (np.eye(d) if root is None else root)
    if tasks.frame.intercept:
        half[:, d, d] = np.sqrt(levels)
    turned = half.transpose(0, 2, 1)
    inverse = np.linalg.inv(np.eye(p) + turned @ gram @ half)
    V = half @ inverse @ turned
    left = tasks.cross[part] - (gram @ mean[:, None])[:, :, 0]
    square = tasks.energy[part] - ((tasks.cross[part] + left) * mean).sum(axis=1)
    quad = square - (left[:, None, :] @ V @ left[:, :, None])[:, 0, 0]
    quad = np.maximum(quad, _LEAST * np.maximum(tasks.energy[part], 1e-280))
    noise = _noise(quad, tasks.counts[part])
    return noise, noise[:, None, None] * V


@np.errstate(all="ignore")
def spread_alone(tasks: TaskSet, *, intercept: bool) -> Spread:
    """Return the spread of tasks that know nothing of each other, under ridge priors of their own.

    Strengths are averaged by their evidence; the intercept has a flat prior.
    """
    w = np.ones(tasks.n_rows) if tasks.weights is None else tasks.weights
    X, y = w[:, None] * tasks.X, w * np.asarray(tasks.y, dtype=np.float64)
    counts = tasks.amounts
    m, d, flat = tasks.n_tasks, tasks.n_features, float(intercept)
    centre, level = np.zeros((m, d)), np.zeros(m)
    if intercept:
        centre = tasks.task_sums(X) / counts[:, None]
        level = tasks.task_sums(y) / counts
    noise, spread = np.zeros(m), np.zeros((m, d + 1, d + 1))
    spread[:, d, d] = flat / counts
    alphas = relative_strengths(tasks, STRENGTHS, intercept=intercept)
    for part in _batches(np.arange(m), d):
        some = tasks.take_tasks(slice(int(part[0]), int(part[-1]) + 1))
        root = np.ones(some.n_rows) if some.weights is None else np.sqrt(some.weights)
        rows = root[:, None] * (some.X - centre[part][some.task_of_row])
        target = root * (np.asarray(some.y) - level[part][some.task_of_row])
        cross, energy = some.task_sums(rows * target[:, None]), some.task_sums(target**2)
        gram = some.task_sums((rows[:, :, None] * rows[:, None, :]).reshape(len(rows), -1))
        values, vectors = eigh(gram.reshape(-1, d, d))
        seen = (cross[:, None, :] @ vectors)[:, 0]
        strengths = alphas[part]
        inverse = 1 / (np.maximum(values, 0)[:, None] + strengths[:, :, None])
        quad = energy[:, None] - (inverse * seen[:, None] ** 2).sum(axis=2)
        quad = np.maximum(quad, _LEAST * np.maximum(energy, 1e-280)[:, None])
        volume = -np.log(inverse * strengths[:, :, None]).sum(axis=2)
        degrees = np.maximum(counts[part] - flat, 0.0)
        weights = softmax(-0.5 * (degrees[:, None] * np.log(quad) + volume), axis=1)
        each = weights * _noise(quad, degrees[:, None])
        noise[part] = each.sum(axis=1)
        # Within a strength the posterior's own variance, between strengths that of their means.
        within = (each[:, :, None] * inverse).sum(axis=1)
        means = inverse * seen[:, None]
        apart = means - (weights[:, :, None] * means).sum(axis=1, keepdims=True)
        between = (weights[:, :, None] * apart).transpose(0, 2, 1) @ apart
        inner = between + within[:, :, None] * np.eye(d)
        spread[part, :d, :d] = vectors @ inner @ vectors.transpose(0, 2, 1)
        spread[part, d, d] *= noise[part]
    return Spread(noise, centre, spread)
