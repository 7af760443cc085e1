"""Proximal gradient descent on all tasks' models at once, plain and accelerated."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._check import non_negative, positive, positive_integer
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.numerics.objective import Objective
from tacit.numerics.threads import quiet_arithmetic

if TYPE_CHECKING:
    from tacit.penalties import Penalty

__all__ = ["Solution", "nesterov_momentum", "proximal_gradient", "strongly_convex_momentum"]


@dataclass(frozen=True)
class Solution:
    """Where the descent ended.

    Attributes
    ----------
    W : ndarray of shape (m, d)
        Models of all tasks.
    n_rounds : int
        Gradient rounds taken.
    converged : bool
        Whether the tolerance was reached within the rounds allowed.
    value : float
        Sum of the tasks' mean losses plus the penalty, at ``W``.
    """

    W: Array
    n_rounds: int
    converged: bool
    value: float


def nesterov_momentum(t: float | Array) -> float | Array:
    """Momentum ``(t − 1)/(t + 2)`` of round ``t`` = 1, 2, … for convex objectives."""
    return (t - 1) / (t + 2)


def strongly_convex_momentum(mu: float, L: float | Array) -> float | Array:
    """Momentum ``(1 − √(μ/L))/(1 + √(μ/L))`` for strong convexity μ and curvature L."""
    root = np.sqrt(np.minimum(mu / np.maximum(L, mu), 1.0)) if mu > 0 else 0.0
    return (1 - root) / (1 + root)


def proximal_gradient(
    objective: Objective,
    penalty: Penalty,
    *,
    start: Array | None = None,
    accelerated: bool = True,
    strong_convexity: float = 0.0,
    step: float | Array | str = "curvature",
    max_rounds: int = 1000,
    tolerance: float = 1e-6,
    restart: bool = True,
    callback: Callable[[int, Array], bool | None] | None = None,
) -> Solution:
    """Minimise ``Σ_i L_i(w_i) + penalty(W)``.

    Parameters
    ----------
    objective : Objective
        The tasks' mean losses.
    penalty : Penalty
        Any penalty on the models of all tasks.
    start : ndarray of shape (m, d), optional
        First models (zeros if absent); along a path of strengths, the last solution.
    accelerated : bool
        With momentum: `strongly_convex_momentum` if ``strong_convexity`` is positive, else
        `nesterov_momentum`.
    strong_convexity : float
        A μ such that every task's loss is μ-strongly convex, if known.
    step : "curvature", float or ndarray of shape (m,)
        Step size. ``"curvature"`` takes 1/L_i task by task where the penalty is separable, and
        1/max L_i where it couples the tasks.
    max_rounds : int
        Gradient rounds at most.
    tolerance : float
        Stop when the gradient mapping ``(Y − prox(Y − step·∇))/step`` is this small relative to
        the gradient at zero, which makes the rule independent of the units of X and y. The rule
        looks at all tasks together; zero never stops, so that with a penalty that is separable a
        task's model depends on nobody else.
    restart : bool
        Drop the momentum whenever it points uphill (O'Donoghue and Candès 2015), task by task
        where the penalty is separable. Applies to `nesterov_momentum` only.
    callback : callable, optional
        Called with the round and the models; returning True stops.

    Returns
    -------
    Solution
        Final models and how the descent ended.
    """
    rounds = positive_integer("max_rounds", max_rounds, remedy="use max_rounds=1000")
    limit = non_negative("tolerance", tolerance, remedy="use tolerance=1e-6")
    mu = non_negative("strong_convexity", strong_convexity, remedy="use 0.0 if it is not known")
    momentum = _Momentum(accelerated, mu, restart)
    with quiet_arithmetic():
        return _descend(objective, penalty, start, step, rounds, limit, momentum, callback)


@dataclass(frozen=True)
class _Momentum:
    accelerated: bool
    strong_convexity: float
    restart: bool


def _descend(
    objective: Objective,
    penalty: Penalty,
    start: Array | None,
    step: float | Array | str,
    rounds: int,
    limit: float,
    momentum: _Momentum,
    callback: Callable[[int, Array], bool | None] | None,
) -> Solution:
    mu = momentum.strong_convexity
    sizes = _step_sizes(objective, penalty, step)
    zeros = np.zeros(objective.shape, dtype=objective.tasks.X.dtype)
    W = zeros if start is None else np.array(start, dtype=zeros.dtype)
    scale = float(np.linalg.norm(objective.gradient(zeros))) if limit > 0 else 0.0
    Y, converged, t = W, False, 0
    age = np.ones_like(sizes)
    for t in range(1, rounds + 1):
        moved = penalty.prox(objective.step(Y, _squeezed(sizes)), _squeezed(sizes))
        if limit > 0:
            mapping = float(np.linalg.norm((Y - moved) / sizes))
            converged = mapping <= limit * (scale or 1.0)
        change = moved - W
        if momentum.accelerated and mu > 0:
            Y = moved + np.asarray(strongly_convex_momentum(mu, 1 / sizes), W.dtype) * change
        elif momentum.accelerated:
            if momentum.restart:
                uphill = np.sum((Y - moved) * change, axis=1 if sizes.size > 1 else None)
                age = np.where(np.reshape(uphill, age.shape) > 0, 1.0, age)
            Y = moved + np.asarray(nesterov_momentum(age), W.dtype) * change
            age = age + 1
        else:
            Y = moved
        W = moved
        if (callback is not None and callback(t, W)) or converged:
            break
    value = float(objective.value(W).sum()) + penalty.value(W)
    return Solution(W, t, converged, value)


def _squeezed(sizes: Array) -> float | Array:
    """Return a lone step as a number, which is what coupling penalties take."""
    return float(sizes[0, 0]) if sizes.size == 1 else sizes


def _step_sizes(objective: Objective, penalty: Penalty, step: float | Array | str) -> Array:
    """Return steps of shape (m, 1) or (1, 1), in the precision of the data."""
    dtype = objective.tasks.X.dtype
    if isinstance(step, str):
        if step != "curvature":
            raise InvalidInput(f'step={step!r}: must be a number, (m,) numbers or "curvature"')
        curvature = objective.curvature()
        ceiling = max(float(curvature.max()), math.ulp(0.0) * 1e20)
        if not penalty.task_separable:
            return np.full((1, 1), 1 / ceiling, dtype=dtype)
        # A task whose rows are all zero has no curvature; any step serves it.
        bent = np.where(curvature > 1e-12 * ceiling, curvature, ceiling)
        return (1 / bent).astype(dtype)[:, None]
    if np.ndim(step) == 0:
        return np.full((1, 1), positive("step", step, remedy='use step="curvature"'), dtype=dtype)
    if not penalty.task_separable:
        raise InvalidInput(
            f"step of shape {np.shape(step)}: {type(penalty).__name__} couples the tasks and needs "
            "one step for all of them; pass a number"
        )
    sizes = np.asarray(step, dtype=dtype).reshape(-1, 1)
    if len(sizes) != objective.shape[0] or not np.all(sizes > 0):
        raise InvalidInput(f"step of shape {np.shape(step)}: must be {objective.shape[0]} positive")
    return sizes
