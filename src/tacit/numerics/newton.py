"""Damped Newton for a stack of penalised logistic regressions, all at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from tacit._types import AnyArray, Array
from tacit.losses import LogisticLoss
from tacit.numerics.stacks import solve

__all__ = ["GRADIENT", "SHORT", "LogisticStack", "newton"]

_LOSS = LogisticLoss()
GRADIENT = 1e-10
_MAX_ROUNDS = 100
_MAX_HALVINGS = 40
SHORT = 1.5


@dataclass(frozen=True)
class LogisticStack:
    """Regressions ``Σ_r weight_r ℓ(o_r + x_rᵀu, y_r) + ½ Σ_j penalty_j u_j²``, one for each task.

    Attributes
    ----------
    rows : ndarray of shape (b, n, p)
        Rows of every task.
    offset : ndarray of shape (b, n)
        Fixed part o_r of every prediction.
    labels, weights : ndarray of shape (b, n)
        Labels in {0, 1}, and how much each row counts (zero for padding and left-out rows).
    penalty : ndarray of shape (b, p)
        Strength on every coordinate.
    """

    rows: Array
    offset: Array
    labels: Array
    weights: Array
    penalty: Array

    def take(self, index: AnyArray) -> LogisticStack:
        """Return the regressions at ``index``."""
        parts = (self.rows, self.offset, self.labels, self.weights, self.penalty)
        return LogisticStack(*(part[index] for part in parts))

    def predictions(self, u: Array) -> Array:
        """Return ``o_r + x_rᵀu`` of every row, (b, n)."""
        return self.offset + (self.rows @ u[:, :, None])[:, :, 0]

    def value(self, z: Array, u: Array) -> Array:
        """Return every regression's objective, (b,)."""
        loss = np.sum(self.weights * _LOSS.value(z, self.labels), axis=1)
        return loss + 0.5 * np.sum(self.penalty * u * u, axis=1)

    def gradient(self, z: Array, u: Array) -> Array:
        """Return every regression's gradient, (b, p)."""
        slope = self.weights * _LOSS.derivative(z, self.labels)
        return (slope[:, None, :] @ self.rows)[:, 0] + self.penalty * u

    def hessian(self, z: Array) -> Array:
        """Return every regression's Hessian, (b, p, p)."""
        bent = self.rows * np.sqrt(self.weights * expit(z) * expit(-z))[:, :, None]
        return self.penalised(bent.transpose(0, 2, 1) @ bent)  # with itself: half the work

    def penalised(self, H: Array) -> Array:
        """Add the penalty to the losses' Hessians (b, p, p), in place, and return them."""
        p = np.arange(H.shape[1])
        H[:, p, p] += self.penalty
        # Only an unpenalised intercept can have a vanishing diagonal, far from the optimum;
        # the floor bends the direction there and leaves the optimum where it is.
        H[:, p, p] += 1e-14 * H[:, p, p].max(axis=1, keepdims=True)
        return H


def newton(stack: LogisticStack, start: Array, accuracy: float = GRADIENT) -> Array:
    """Minimise every regression of the stack, from ``start`` (b, p).

    Newton steps with backtracking, so every step lowers the objective and convergence is global;
    regressions that have converged leave the stack. A regression is done when its gradient is
    below ``accuracy`` relative to its gradient at zero (or to one, if that is larger), or when no
    step lowers the objective any more: the limit of the arithmetic.
    """
    solution = np.array(start, dtype=np.float64)
    at_zero = stack.gradient(stack.offset, np.zeros_like(solution))
    limit = accuracy * np.maximum(np.linalg.norm(at_zero, axis=1), 1.0)
    active = np.arange(len(solution))
    part = stack
    for _ in range(_MAX_ROUNDS):
        u = solution[active]
        z = part.predictions(u)
        gradient = part.gradient(z, u)
        open_ = np.linalg.norm(gradient, axis=1) > limit[active]
        if not open_.any():
            break
        if not open_.all():
            active, part = active[open_], part.take(open_)
            u, z, gradient = u[open_], z[open_], gradient[open_]
        direction = solve(part.hessian(z), gradient[:, :, None])[:, :, 0]
        moved, stuck = _backtrack(part, u, z, gradient, direction)
        solution[active] = moved
        if stuck.any():
            active, part = active[~stuck], part.take(~stuck)
    return solution


def _backtrack(
    stack: LogisticStack, u: Array, z: Array, gradient: Array, direction: Array
) -> tuple[Array, AnyArray]:
    """Halve the step of each regression until it pays; tell which could not move.

    Curvature grows by at most e^s where predictions move by s, so the full step lowers the
    objective by at least 1 − (e^s − 1 − s)/s² of the decrement: for s ≤ 1.5 that is a ninth, and
    nothing has to be evaluated.
    """
    shift = (stack.rows @ direction[:, :, None])[:, :, 0]
    step, paid = np.ones(len(u)), np.abs(shift).max(axis=1) <= SHORT
    far = np.flatnonzero(~paid)
    if far.size:
        step[far], paid[far] = _shortened(
            stack.take(far), u[far], z[far], gradient[far], direction[far], shift[far]
        )
    moved = np.where(paid[:, None], u - step[:, None] * direction, u)
    tiny = np.linalg.norm(step[:, None] * direction, axis=1) <= 1e-15 * np.linalg.norm(u, axis=1)
    return moved, ~paid | tiny


def _shortened(
    stack: LogisticStack, u: Array, z: Array, gradient: Array, direction: Array, shift: Array
) -> tuple[Array, AnyArray]:
    """Return step lengths (b,) that pay, and whether one was found."""
    now = stack.value(z, u)
    decrement = np.sum(gradient * direction, axis=1)
    # So near the optimum that rounding in the objective hides the gain, the full step is right.
    trusted = decrement <= 1e-8 * np.abs(now)
    step, paid = np.ones(len(u)), trusted.copy()
    for _ in range(_MAX_HALVINGS):
        after = stack.value(z - step[:, None] * shift, u - step[:, None] * direction)
        paid = trusted | (after <= now - 1e-4 * step * decrement)
        if paid.all():
            break
        step = np.where(paid, step, step / 2)
    return step, paid
