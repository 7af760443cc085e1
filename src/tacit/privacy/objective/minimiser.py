"""The minimiser of a perturbed, strongly convex logistic loss, to a proved public accuracy."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from tacit._types import Array
from tacit.privacy.objective.accuracy import BLOCK, Accuracy

__all__ = ["minimise"]

# Newton steps aim at this multiple of the rounding of the gradient's terms, below the tolerance.
_AIM = 2.0**-44
_MOST_STEPS = 200
_REUSE = 0.25  # a step that shrinks the gradient this well may be followed by one with its Hessian
_NEAR = 1e-3  # relative gradient from which on all rows enter the Hessian
_ROWS_PER_FEATURE = 40  # rows that make a good enough Hessian far from the minimiser


def minimise(
    rows: Array, labels: Array, linear: Array, strength: float, centre: Array, accuracy: Accuracy
) -> Array:
    """Return argmin_w Σ log(1 + e^z) − y z + bᵀw + (α/2)‖w − c‖², z = rows @ w.

    Newton steps get there quickly: first a quick descent (old or subsampled Hessians, no
    backtracking), then steps with backtracking. Should both stop short of the public tolerance,
    gradient descent, which cannot fail, takes over.

    Parameters
    ----------
    rows : (n, d), labels : (n,) in {0, 1}
    linear : (d,)
        The noise b.
    strength : float
        α > 0.
    centre : (d,)
    accuracy : Accuracy
        The public bounds that rows, noise and centre keep.

    Guarantee: what is returned is within ``accuracy.distance`` of the exact minimiser, whatever the
    rows and labels are (`tacit.privacy.objective.accuracy`); nothing is raised. How long it takes
    depends on them and is not protected.
    """
    loss = _Loss(rows, labels, linear, strength, centre, accuracy)
    start = centre - linear / (strength + 0.25 * loss.squared)
    with np.errstate(all="ignore"):  # a warning turned into an error would be an output
        for descend in (_quick, _damped):
            found, size = descend(loss, start)
            if loss.reached(found, size):
                return found
        return _steady(loss)


class _Loss:
    """The perturbed loss of one problem, its derivatives and the rounding of its gradient."""

    def __init__(
        self,
        rows: Array,
        labels: Array,
        linear: Array,
        strength: float,
        centre: Array,
        accuracy: Accuracy,
    ) -> None:
        self.rows, self.labels, self.linear = np.ascontiguousarray(rows), labels, linear
        self.strength, self.centre = strength, centre
        self.accuracy, self.tolerance = accuracy, accuracy.rounding
        squares = np.einsum("ij,ij->i", rows, rows)
        self.squared = float(squares.sum())
        self._norms = np.sqrt(squares)
        self.longest = float(self._norms.max(initial=0.0))
        self._fixed = float(np.linalg.norm(linear)) + strength * float(np.linalg.norm(centre))

    def gradient(self, w: Array, z: Array) -> tuple[Array, float, float]:
        """Return the gradient, its norm, and the sum of the norms of its terms."""
        residual = expit(z)
        residual -= self.labels
        whole = len(z) - len(z) % BLOCK
        blocks = self.rows[:whole].reshape(-1, BLOCK, len(w))
        gradient = (residual[:whole].reshape(-1, 1, BLOCK) @ blocks).sum(axis=0)[0]
        gradient += residual[whole:] @ self.rows[whole:]
        gradient += self.linear + self.strength * (w - self.centre)
        terms = (
            float(np.abs(residual) @ self._norms)
            + (0.25 * self.squared + self.strength) * float(np.linalg.norm(w))
            + self._fixed
        )
        return gradient, float(np.linalg.norm(gradient)), terms

    def reached(self, w: Array, size: float) -> bool:
        """Return whether w is certified: near the centre, with a gradient within the tolerance.

        ``size`` is the gradient's norm at scores computed from w.
        """
        near = float(np.linalg.norm(w - self.centre)) <= 1.1 * self.accuracy.radius
        return near and size <= self.tolerance

    def value(self, w: Array, z: Array) -> float:
        """Return the loss."""
        away = w - self.centre
        fit = float((np.logaddexp(0.0, z) - self.labels * z).sum())
        return fit + float(self.linear @ w + 0.5 * self.strength * away @ away)

    def factor(self, z: Array, stride: int = 1) -> tuple[Array, bool] | None:
        """Return the Cholesky factor of the Hessian, from every ``stride``-th row."""
        rows, p = self.rows[::stride], expit(z[::stride])
        root, hessian = np.sqrt(stride * p * (1 - p)), np.zeros((rows.shape[1],) * 2)
        for low in range(0, len(rows), BLOCK):
            scaled = rows[low : low + BLOCK] * root[low : low + BLOCK, None]
            hessian += scaled.T @ scaled  # numpy sees the symmetry and does half the work
        hessian.flat[:: len(hessian) + 1] += self.strength
        try:
            factor: tuple[Array, bool] = cho_factor(hessian, overwrite_a=True, check_finite=False)
        except (LinAlgError, ValueError):
            return None
        return factor


def _quick(loss: _Loss, w: Array) -> tuple[Array, float]:
    """Return the minimiser and its gradient's norm, infinite once a step does not shrink it.

    No step moves a score by more than 2, where the curvature is still of the same order.
    """
    n_rows, n_features = loss.rows.shape
    stride = max(1, n_rows // (_ROWS_PER_FEATURE * n_features))
    z = loss.rows @ w
    gradient, size, terms = loss.gradient(w, z)
    before, factor, whole, polished, fresh = math.inf, None, False, False, True
    for _ in range(_MOST_STEPS):
        exact = size <= min(loss.tolerance, _AIM * terms)
        if exact and polished and fresh:
            return w, size
        polished = exact  # one more step costs little and takes the last digits
        near = size <= _NEAR * terms
        if factor is None or near > whole or (size > _REUSE * before and not exact):
            factor, whole = loss.factor(z, 1 if near else stride), near
            if factor is None:
                break
        step = cho_solve(factor, gradient, check_finite=False)
        # Scores are carried along until the last digits, where they are computed afresh.
        fresh, damping, along = size <= 1e-6 * terms, 1.0, None
        if not fresh or loss.longest * float(np.linalg.norm(step)) > 1.0:
            along = loss.rows @ step
            damping = min(1.0, 2.0 / max(float(np.abs(along).max(initial=0.0)), 1e-300))
        candidate = w - damping * step
        moved = loss.rows @ candidate if fresh or along is None else z - damping * along
        found, found_size, found_terms = loss.gradient(candidate, moved)
        if not found_size < size:
            return w, loss.gradient(w, loss.rows @ w)[1] if exact else math.inf
        w, z, gradient, terms = candidate, moved, found, found_terms
        before, size = size, found_size
    return w, math.inf


def _damped(loss: _Loss, w: Array) -> tuple[Array, float]:
    """Return the nearest point that damped Newton steps get to, and its gradient's norm."""
    best, best_size = w, math.inf
    for _ in range(_MOST_STEPS):
        z = loss.rows @ w
        gradient, size, terms = loss.gradient(w, z)
        exact = size <= min(loss.tolerance, _AIM * terms)
        if not math.isfinite(size) or (exact and size >= 0.5 * best_size):
            break
        if size < best_size:
            best, best_size = w, size
        factor = loss.factor(z)
        if size == 0.0 or factor is None:
            break
        step = cho_solve(factor, gradient, check_finite=False)
        w = w - (step if exact else _damping(loss, w, z, gradient, step) * step)
    return best, best_size


def _steady(loss: _Loss) -> Array:
    """Return the minimiser by gradient descent from the centre, in a bounded number of steps."""
    w, radius, smoothness = loss.centre, loss.accuracy.radius, loss.accuracy.smoothness
    for _ in range(loss.accuracy.most_steps):
        gradient, size, _ = loss.gradient(w, loss.rows @ w)
        if size <= loss.tolerance:
            break
        away = (w - gradient / smoothness) - loss.centre
        w = loss.centre + away * min(1.0, radius / max(float(np.linalg.norm(away)), 1e-300))
    return w


def _damping(loss: _Loss, w: Array, z: Array, gradient: Array, step: Array) -> float:
    """Return the first of 1, ½, ¼, … that decreases the loss by a share of what its slope says."""
    along, decrement, before = loss.rows @ step, float(gradient @ step), loss.value(w, z)
    # Below this a difference of two values is rounding, and the full step is quadratic anyway.
    blind = 2.0**-40 * (len(z) + abs(before))
    damping = 1.0
    while damping > 2.0**-60:
        after = loss.value(w - damping * step, z - damping * along)
        if after <= before - 1e-4 * damping * decrement + blind:
            return damping
        damping *= 0.5
    return damping
