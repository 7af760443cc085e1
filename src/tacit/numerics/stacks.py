"""Linear algebra on stacks of matrices, one matrix a task: nobody's matrix reaches the others'.

What comes out for a task is a function of that task's matrix alone, bit for bit: the library works
a stack off matrix by matrix, so neither the others' values nor their number matter. A matrix that
is not finite, or on which the library gives up, gets NaN; its task finds a zero model in the end
(`settled`), and everybody else finds what they would have found without it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tacit._types import AnyArray, Array

__all__ = [
    "eigh",
    "eigvalsh",
    "finite_models",
    "finite_tasks",
    "inv",
    "settled",
    "solve",
    "weighted",
]


def finite_tasks(stack: Array) -> AnyArray:
    """Return which tasks (axis 0) have finite numbers throughout."""
    finite: AnyArray = np.isfinite(stack).reshape(len(stack), -1)
    return np.logical_and.reduce(finite, axis=1)


def finite_models(models: Array) -> Array:
    """Return models with zeros for every task that has a number that is not finite."""
    finite = finite_tasks(models).reshape(-1, *(1,) * (models.ndim - 1))
    return np.where(finite, models, 0.0)


def _by_matrix(
    function: Callable[..., tuple[Array, ...]], square: Array, *others: Array
) -> tuple[Array, ...]:
    """Apply ``function`` to stacks (b, p, p), (b, p, …); NaN where it cannot be applied."""
    sound = finite_tasks(square)
    for other in others:
        sound &= finite_tasks(other)
    if not sound.all():
        square = np.where(sound[:, None, None], square, np.eye(square.shape[1]))
        others = tuple(np.where(sound[:, None, None], other, 0.0) for other in others)
    try:
        found = function(square, *others)
    except np.linalg.LinAlgError:  # raised after all matrices were worked off; it names none
        found = _one_by_one(function, square, *others)
    if not sound.all():
        for part in found:
            part[~sound] = np.nan
    return found


def _one_by_one(function: Callable[..., tuple[Array, ...]], *stacks: Array) -> tuple[Array, ...]:
    # An identity in place of each matrix tells the shapes of what is to be returned.
    eyes = np.broadcast_to(np.eye(stacks[0].shape[1]), stacks[0].shape)
    found = function(eyes, *(np.zeros_like(other) for other in stacks[1:]))
    for part in found:
        part[...] = np.nan
    for number in range(len(stacks[0])):
        one = slice(number, number + 1)
        try:
            own = function(*(stack[one] for stack in stacks))
        except np.linalg.LinAlgError:
            continue
        for part, value in zip(found, own, strict=True):
            part[one] = value
    return found


def eigh(stack: Array) -> tuple[Array, Array]:
    """Return eigenvalues (b, p), ascending, and eigenvectors (b, p, p) of symmetric matrices.

    Numbers (p = 1) are their own eigenvalues; the library would say the same.
    """
    if stack.shape[1] == 1:
        values = np.where(np.isfinite(stack[:, 0]), stack[:, 0], np.nan)
        return values, np.where(np.isfinite(stack), 1.0, np.nan)
    values, vectors = _by_matrix(lambda matrices: tuple(np.linalg.eigh(matrices)), stack)
    return values, vectors


def eigvalsh(stack: Array) -> Array:
    """Return eigenvalues (b, p) of symmetric matrices, ascending."""
    return _by_matrix(lambda matrices: (np.linalg.eigvalsh(matrices),), stack)[0]


def inv(stack: Array) -> Array:
    """Return the inverses of (b, p, p) matrices."""
    return _by_matrix(lambda matrices: (np.linalg.inv(matrices),), stack)[0]


def solve(stack: Array, right: Array) -> Array:
    """Return the solutions (b, p, q) of ``stack @ x = right``."""
    return _by_matrix(lambda matrices, r: (np.linalg.solve(matrices, r),), stack, right)[0]


def weighted(weights: Array, values: Array) -> Array:
    """Return ``Σ_a weights[a, i] · values[a, i]`` for every task i: (m,) or (m, d).

    One product a task, so that a lone task is added up in the same order as one of many.
    """
    by_task = np.ascontiguousarray(np.moveaxis(values, 0, 1))
    flat = by_task.reshape(*by_task.shape[:2], -1)
    total = np.ascontiguousarray(weights.T)[:, None, :] @ flat
    return total.reshape(values.shape[1:])


def settled(coef: Array, intercept: Array) -> tuple[Array, Array]:
    """Return models (m, d) and intercepts (m,), both zero for a task with one that is not finite.

    Guarantee: row i depends on row i alone.
    """
    sound = finite_tasks(coef) & np.isfinite(intercept)
    if sound.all():
        return coef, intercept
    return np.where(sound[:, None], coef, 0.0), np.where(sound, intercept, 0.0)
