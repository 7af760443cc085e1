"""The exact minimiser of a perturbed, strongly convex logistic loss, or nothing."""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import expit

from tacit._types import Array
from tacit.errors import PrivacyLeak

__all__ = ["minimise"]

# The gradient must vanish up to this multiple of the rounding of its own terms.
_TOLERANCE = 2.0**-44
_MOST_STEPS = 200
_REUSE = 0.03


def minimise(rows: Array, labels: Array, linear: Array, strength: float, centre: Array) -> Array:
    """Return argmin_w Σ log(1 + e^z) − y z + bᵀw + (α/2)‖w − c‖², z = rows @ w, by damped Newton.

    The loss is strictly convex and three times differentiable, so Newton steps with backtracking
    reach the minimiser from anywhere; the last steps are full and quadratic.

    Parameters
    ----------
    rows : (n, d), labels : (n,) in {0, 1}
    linear : (d,)
        The noise b.
    strength : float
        α > 0.
    centre : (d,)

    Guarantee: the privacy proofs hold for the exact minimiser. What is returned is within
    ‖gradient‖/α of it, with a gradient that is zero up to the rounding of its terms; anything worse
    raises `PrivacyLeak` and nothing is released.
    """
    w = centre - linear / (strength + 0.25 * float(np.einsum("ij,ij->", rows, rows)))
    row_norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    fixed = float(np.linalg.norm(linear)) + strength * float(np.linalg.norm(centre))
    per_length = 0.25 * float(row_norms @ row_norms) + strength
    best, best_size = w, math.inf
    factor = None
    for _ in range(_MOST_STEPS):
        z = rows @ w
        residual = expit(z) - labels
        gradient = rows.T @ residual + linear + strength * (w - centre)
        size = float(np.linalg.norm(gradient))
        if not math.isfinite(size):
            break
        terms = float(np.abs(residual) @ row_norms) + per_length * float(np.linalg.norm(w)) + fixed
        exact = size <= _TOLERANCE * terms
        if exact and size >= 0.5 * best_size:
            return best
        # Steps that shrink the gradient this well may go on with the old Hessian, which is most
        # of the work; near the minimiser three of them reach machine precision.
        if factor is None or not size <= _REUSE * best_size:
            factor = _factor(rows, z, strength)
        if size < best_size:
            best, best_size = w, size
        if size == 0.0:
            return best
        step = cho_solve(factor, gradient, check_finite=False)
        if not exact:
            step = step * _damping(rows, labels, linear, strength, centre, w, gradient, step)
        w = w - step
    raise PrivacyLeak(
        "objective perturbation: the minimiser was not reached by Newton steps "
        f"(gradient {best_size:.3g}); nothing is released: scale the features or raise alpha"
    )


def _factor(rows: Array, z: Array, strength: float) -> tuple[Array, bool]:
    """Return the Cholesky factor of the Hessian Σ σ'(z) x xᵀ + αI."""
    scaled = rows * np.sqrt(expit(z) * expit(-z))[:, None]
    hessian = scaled.T @ scaled  # numpy sees the symmetry and does half the work
    hessian.flat[:: len(hessian) + 1] += strength
    try:
        factor: tuple[Array, bool] = cho_factor(hessian, overwrite_a=True, check_finite=False)
    except (LinAlgError, ValueError) as error:
        raise PrivacyLeak(
            "objective perturbation: the Newton system cannot be solved; nothing is released: "
            "scale the features or raise alpha"
        ) from error
    return factor


def _value(
    z: Array, labels: Array, linear: Array, strength: float, centre: Array, w: Array
) -> float:
    away = w - centre
    return float(
        (np.logaddexp(0.0, z) - labels * z).sum() + linear @ w + 0.5 * strength * away @ away
    )


def _damping(
    rows: Array,
    labels: Array,
    linear: Array,
    strength: float,
    centre: Array,
    w: Array,
    gradient: Array,
    step: Array,
) -> float:
    """Return the first of 1, ½, ¼, … that decreases the loss by a share of what its slope says."""
    z, along = rows @ w, rows @ step
    decrement = float(gradient @ step)
    before = _value(z, labels, linear, strength, centre, w)
    # Below this a difference of two values is rounding, and the full step is quadratic anyway.
    blind = 2.0**-40 * (len(labels) + abs(before))
    damping = 1.0
    while damping > 2.0**-60:
        after = _value(z - damping * along, labels, linear, strength, centre, w - damping * step)
        if after <= before - 1e-4 * damping * decrement + blind:
            return damping
        damping *= 0.5
    return damping
