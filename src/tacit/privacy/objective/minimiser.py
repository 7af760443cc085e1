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
    best, best_size = w, math.inf
    for _ in range(_MOST_STEPS):
        z = rows @ w
        residual = expit(z) - labels
        gradient = rows.T @ residual + linear + strength * (w - centre)
        size = float(np.linalg.norm(gradient))
        terms = float(
            np.abs(residual) @ row_norms
            + 0.25 * (row_norms @ row_norms) * np.linalg.norm(w)
            + np.linalg.norm(linear)
            + strength * (np.linalg.norm(w) + np.linalg.norm(centre))
        )
        exact = size <= _TOLERANCE * terms
        if exact and size >= 0.5 * best_size:
            return best
        if size < best_size:
            best, best_size = w, size
        if size == 0.0:
            return best
        step = _newton_step(rows, z, gradient, strength)
        if not exact:
            step = step * _damping(rows, labels, linear, strength, centre, w, gradient, step)
        w = w - step
    raise PrivacyLeak(
        f"objective perturbation: the minimiser was not reached in {_MOST_STEPS} Newton steps "
        f"(gradient {best_size:.3g}); nothing is released: scale the features or raise alpha"
    )


def _newton_step(rows: Array, z: Array, gradient: Array, strength: float) -> Array:
    curvature = expit(z) * expit(-z)
    hessian = (rows * curvature[:, None]).T @ rows
    hessian.flat[:: len(hessian) + 1] += strength
    try:
        step: Array = cho_solve(cho_factor(hessian, overwrite_a=True, check_finite=False), gradient)
    except (LinAlgError, ValueError) as error:
        raise PrivacyLeak(
            "objective perturbation: the Newton system cannot be solved; nothing is released: "
            "scale the features or raise alpha"
        ) from error
    return step


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
