"""Personal fits under the shared parts of all tasks, once the conversation is over."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tacit._types import Array, IntArray
from tacit.losses import Loss
from tacit.numerics.prior_families import Family, family_fit
from tacit.protocols._home import Outputs, fitted

__all__ = ["personal_models"]

_STRENGTHS = (0.01, 0.1, 1.0, 10.0, 100.0)
_NOISE = 0.1  # variance of answers about a model, over the square of their public bound
_APART = 0.3  # slopes of an own part, over the slope that spans the bounds


def personal_models(
    outputs: Outputs,
    positions: IntArray,
    loss: Loss,
    shared: Array | None,
    *,
    scale: float,
    target_bound: float,
    intercept: bool,
    many: bool,
) -> Array:
    """Return every task's models (m, k, d + 1): its rows alone, and around what the others share.

    Parameters
    ----------
    shared
        Shared parts of all tasks as raw models (M, k, d + 1); None where nothing was released.
    scale, target_bound
        Public: the slope that spans the bounds of rows and answers, and the bound of answers.
    many
        Of all tasks, see `are_many`.

    A task solves for both parts at once: p is a combination of the others' shared parts, and q what
    its own rows add; as a prior, N(p̄, Σ_s p_s p_sᵀ/m + I). The mean leaves the task's own part out,
    which was fitted to its rows: leave-one-out errors under it would be too good. Fits at several
    strengths, and those of the task alone, are averaged by leave-one-out likelihood.

    Guarantee: row i depends on task i's rows and on ``shared``, which is public.
    """
    if shared is None:
        return fitted(outputs, loss, intercept=intercept, many=many)
    models = np.empty((outputs[0].n_tasks, len(outputs), outputs[0].n_features + 1))
    for number, rows in enumerate(outputs):
        families = _families(shared[:, number], positions, loss, scale, target_bound)
        fit = family_fit(rows, loss, families, favour=0.0, intercept=intercept, many=many)
        models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
    return models


def _families(
    shared: Array, positions: IntArray, loss: Loss, scale: float, target_bound: float
) -> list[Family]:
    others = _means_of_others(shared, positions)
    slopes = shared[:, :-1]
    noise = _NOISE * target_bound**2 if loss.name == "squared" else 1.0
    apart = (_APART * scale) ** 2 * np.eye(slopes.shape[1]) / noise
    shape = slopes.T @ slopes / (len(slopes) * noise) + 0.1 * apart
    level = target_bound**2 / noise if loss.name == "squared" else 1.0
    free = [Family(others[:, :-1], one, _STRENGTHS) for one in (shape, apart)]
    levelled = [replace(one, level=others[:, -1], level_variance=level) for one in free]
    return [*free, levelled[1]] if loss.name == "squared" else levelled


def _means_of_others(shared: Array, positions: IntArray) -> Array:
    """Return, for every task at home, the mean of all parts but its own."""
    spoke = (positions >= 0)[:, None]
    own = np.where(spoke, shared[np.maximum(positions, 0)], 0.0)
    return np.asarray((shared.sum(axis=0) - own) / np.maximum(len(shared) - spoke, 1))
