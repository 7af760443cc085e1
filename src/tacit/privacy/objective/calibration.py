"""How much noise objective perturbation needs; replace-one rows, every bound proved.

This is about the *ideal* mechanism, with real noise and the exact minimiser w of

    Σ_i log(1 + e^(z_i)) − y_i z_i  +  bᵀw  +  (α/2)‖w − c‖²,    z_i = x_iᵀw,  ‖x_i‖ ≤ R,

for noise b and a public centre c; `tacit.privacy.objective.output` pays for what floats make of it.
Optimality gives b = −Σ_i (σ(z_i) − y_i) x_i − α(w − c), one b
for one w, so the density of w is h(b(w)) times the Jacobian det(Σ_i σ'(z_i) x_i x_iᵀ + αI). Let
s = |σ(z) − y| ∈ (0, 1) for the row that is replaced; then its gradient has norm ≤ R·s and its
curvature is σ'(z) = s(1 − s): both at once cannot be large.

*Jacobian.* With A the Hessian of the other rows plus αI, the ratio of determinants is
(1 + s(1−s) xᵀA⁻¹x) / (1 + s'(1−s') x'ᵀA⁻¹x') ≤ 1 + s(1−s)·R²/α ≤ 1 + R²/(4α)
(matrix determinant lemma; the denominator is at least 1).

*Gamma noise*, h ∝ exp(−κ‖b‖). The gradients of old and new row move b by at most R(s + s'), hence

    ε(κ) = κR + max_{0≤s≤1} [κR·s + log(1 + s(1−s)·R²/α)].

The bracket is concave in s with slope κR − R²/α at s = 1. So as soon as α ≥ R/κ the maximum is at
s = 1, where the curvature vanishes, and ε = 2κR: *the Jacobian costs nothing* if α ≥ 2R²/ε.

*Gaussian noise*, h = N(0, σ²I). Let m = R/σ and j = log(1 + R²/(4α)). One row added to or removed
from the sum costs at most the curve of m-GDP, its ε shifted by j when the row is in the numerator;
replacing a row is one removal and one addition, and Gaussian curves chain exactly (m + m = 2m):

    δ(ε) ≤ e^j · δ_{2m}(ε − j),        δ_μ the curve of μ-GDP.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from tacit._types import Array
from tacit.privacy.accounting.gaussian import gaussian_mu

__all__ = ["gamma_scale", "gaussian_scales", "jacobian_cost", "pure_cost", "smallest_strength"]

_GRID = 1000  # points of the privacy-loss grid per ε, when several models are composed
_RELATIVE = 5e-4  # noise is found this close to the smallest that is safe, from above
_TRUNCATION = 1e-17
_ROUNDING = 4e-16


def smallest_strength(epsilon: float, row_norm: float) -> float:
    """Return 2R²/ε, the strength α from which gamma noise pays nothing for the Jacobian."""
    return math.nextafter(2 * row_norm**2 / epsilon, math.inf)


def jacobian_cost(row_norm: float, strength: float) -> float:
    """Return log(1 + R²/(4α)), the largest log-ratio of the Jacobians of neighbouring data."""
    return math.log1p(row_norm**2 / (4 * strength))


def pure_cost(rate: float, row_norm: float, strength: float) -> float:
    """Return the ε of gamma noise exp(−κ‖b‖) at any strength α > 0 (module docstring).

    Guarantee: an upper bound of the privacy loss for replaced rows, attained in the limit.
    """
    slope, curvature = rate * row_norm, row_norm**2 / strength
    if slope >= curvature:
        return 2 * slope
    # Stationary point of κR·s + log(1 + s(1−s)τ): slope·τ·s² + (2τ − slope·τ)·s − (slope + τ) = 0.
    half = 1 - 0.5 * slope
    product = slope * (slope + curvature) / curvature
    s = (slope + curvature) / curvature / (half + math.sqrt(half * half + product))
    s = min(max(s, 0.0), 1.0)
    return slope + slope * s + math.log1p(s * (1 - s) * curvature)


def gamma_scale(epsilon: float, row_norm: float) -> float:
    """Return 1/κ = 2R/ε, the scale of gamma noise at any strength α ≥ 2R²/ε.

    Guarantee: ε-DP for one replaced row of norm ≤ R, for the ideal minimiser.
    """
    return math.nextafter(2 * row_norm / epsilon, math.inf)


def gaussian_scales(
    epsilon: float,
    delta: float,
    row_norm: float,
    strengths: Sequence[float],
    weights: Sequence[float],
) -> tuple[float, ...]:
    """Return the standard deviations σ_k ∝ 1/weight_k of models released together.

    Guarantee: all K ideal minimisers together are (ε, δ)-DP for one replaced row whose part in
    every model has norm ≤ R. One model: closed form (module docstring). Several: each model's
    curve is turned into a privacy loss distribution that lies above it (connect-the-dots,
    Doroshenko et al. 2022) and these are convolved, which is sound for any such curve (Zhu, Dong,
    Wang 2022, Theorem 10).
    """
    costs = tuple(jacobian_cost(row_norm, strength) for strength in strengths)
    if len(costs) == 1:
        (cost,) = costs
        mu = gaussian_mu(epsilon - cost, delta * math.exp(-cost))
        return (math.nextafter(2 * row_norm / mu, math.inf),)
    mu = _largest_mu(epsilon, delta, costs, tuple(weights))
    return tuple(math.nextafter(2 * row_norm / (mu * weight), math.inf) for weight in weights)


@functools.lru_cache(maxsize=256)
def _largest_mu(
    epsilon: float, delta: float, costs: tuple[float, ...], weights: tuple[float, ...]
) -> float:
    """Return μ, rounded down, such that models with curves (μ·weight_k, j_k) are (ε, δ)-DP."""
    unsafe = gaussian_mu(epsilon, delta) / math.hypot(*weights)
    safe = 0.5 * unsafe
    while _composed_delta(safe, epsilon, costs, weights) > delta:
        unsafe, safe = safe, 0.5 * safe
    while unsafe - safe > _RELATIVE * safe:
        middle = 0.5 * (safe + unsafe)
        if _composed_delta(middle, epsilon, costs, weights) <= delta:
            safe = middle
        else:
            unsafe = middle
    return safe


def _composed_delta(
    mu: float, epsilon: float, costs: tuple[float, ...], weights: tuple[float, ...]
) -> float:
    from dp_accounting.pld import pld_pmf

    step = epsilon / _GRID
    total: Any = None
    for (cost, weight), count in Counter(zip(costs, weights, strict=True)).items():
        part = mu * weight
        # The grid takes any larger loss for infinite; beyond nine deviations δ is below 1e-18.
        half = math.ceil((cost + part * (0.5 * part + 9.0)) / step)
        grid = np.arange(-half, half + 1)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
            step, grid, _curve(grid * step, part, cost)
        )
        pmf = pmf.to_dense_pmf().self_compose(count, tail_mass_truncation=_TRUNCATION)
        total = pmf if total is None else total.compose(pmf, tail_mass_truncation=_TRUNCATION)
    return float(total.get_delta_for_epsilon(epsilon))


def _curve(epsilons: Array, mu: float, cost: float) -> Array:
    """Return a convex upper bound of one model's curve δ(ε), for ε of both signs.

    For ε ≥ j it is e^j δ_μ(ε − j). For 0 ≤ ε < j the chain with its second link at 0 gives
    e^ε δ_m(0) + δ_m(ε − j), m = μ/2. For ε < 0 it is 1 − e^ε + e^ε δ(−ε), because neighbours are
    symmetric. The true curve is convex in e^ε, so the convex hull from below is still above it.
    """
    size = np.abs(epsilons)
    far = math.exp(cost) * _delta(np.maximum(size - cost, 0.0), mu)
    near = np.exp(size) * _delta(np.zeros(1), 0.5 * mu) + _delta(
        np.minimum(size - cost, 0.0), 0.5 * mu
    )
    growth = np.exp(epsilons)
    one_sided = np.minimum(np.where(size >= cost, far, near), 1.0)
    bound = np.where(epsilons >= 0, one_sided, 1 - growth + growth * one_sided)
    return _lower_hull(growth, bound)


def _delta(epsilons: Array, mu: float) -> Array:
    """Return the curve of μ-GDP at ε of both signs, plus more than its rounding."""
    upper = ndtr(0.5 * mu - epsilons / mu)
    lower = np.exp(epsilons + log_ndtr(-0.5 * mu - epsilons / mu))
    curve: Array = np.minimum(upper - lower + _ROUNDING, 1.0)
    return curve


def _lower_hull(x: Array, y: Array) -> Array:
    """Return the largest convex function below the points (x, y), at every x."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[a]) < (y[i] - y[a]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    hull: Array = np.interp(x, x[corners], y[corners])
    return hull
