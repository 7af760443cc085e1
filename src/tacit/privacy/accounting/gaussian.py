"""Exact accounting of Gaussian releases (Gaussian differential privacy).

A Gaussian release with noise multiplier σ (standard deviation ÷ sensitivity) is μ-GDP with
μ = 1/σ, and releases compose exactly to μ = √(Σ μ_t²) (Dong, Roth, Su 2022). With a = ε/μ − μ/2
and b = ε/μ + μ/2 the privacy curve is (Balle & Wang 2018, Theorem 8)

    δ(ε) = Φ(−a) − e^ε Φ(−b) = φ(a) (R(a) − R(b)),   R(x) = Φ(−x) / φ(x)  (Mills' ratio),

because e^ε φ(b) = φ(a). The difference is evaluated in logarithms, and where R(a) and R(b) nearly
cancel (small μ) through R(a) − R(b) = ∫₀^∞ e^(−at − t²/2) (1 − e^(−μt)) dt, whose integrand is
positive, so that nothing cancels.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

import numpy as np
from scipy.special import erfcx, log_ndtr

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.privacy.accounting._search import safe_endpoint

__all__ = [
    "check_delta",
    "check_epsilon",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "mu_of",
    "square_of",
]

_LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
_SQRT_HALF_PI = math.sqrt(math.pi / 2)
# μ is taken this much larger and δ this much larger than computed. The first covers the rounding
# of a, b and of the composed μ (a few ulp each), the second that of the quadrature.
_GUARD_MU = 1e-13
_GUARD_DELTA = 1e-12
# Σμ² is kept in whole multiples of 2^-256. Every release is rounded up by itself, and whole numbers
# add up exactly, so that the sum does not depend on how releases are ordered, grouped or repeated.
_SQUARES = 1 << 256


def check_epsilon(epsilon: float) -> float:
    """Return ``epsilon`` if it is positive; infinity stands for no privacy."""
    return _check.positive(
        "epsilon", epsilon, allow_inf=True, remedy='use epsilon=float("inf") for no privacy'
    )


def check_delta(delta: float) -> float:
    """Return ``delta`` if it lies in [0, 1)."""
    value = _check.non_negative("delta", delta, remedy="use a δ below 1/m², or 0 for pure ε")
    if value >= 1:
        raise InvalidInput(
            f"delta={delta!r}: must be below 1, or nothing is protected; use a δ below 1/m²"
        )
    return value


def _check_mu(mu: float) -> float:
    if isinstance(mu, float) and mu == math.inf:
        return mu
    return _check.non_negative("mu", mu, remedy="mu is 1 / noise multiplier")


def square_of(mu: float | Fraction) -> Fraction:
    """Return μ² of one release as an exact number, rounded up to a multiple of 2^-256."""
    return Fraction(math.ceil(Fraction(mu) ** 2 * _SQUARES), _SQUARES)


def mu_of(square: Fraction) -> float:
    """Return √square, rounded up."""
    try:
        root = math.sqrt(square)
    except OverflowError:
        return math.inf
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


@functools.cache
def _nodes() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(120)
    return 0.5 * (nodes + 1), 0.5 * weights


def _log_mills_difference(a: float, mu: float) -> float:
    """Return log(R(a) − R(a + μ)) by quadrature; for a ≥ −1, where the integrand decays."""
    nodes, weights = _nodes()
    # Beyond this t the factor e^(−at − t²/2) is below e^(−45).
    end = -a + math.sqrt(a * a + 90) if a < 1e6 else 45 / a
    t = end * nodes
    values = np.exp(-a * t - 0.5 * t * t) * -np.expm1(-mu * t)
    return math.log(end) + math.log(float(weights @ values))


def _log_delta(mu: float, epsilon: float) -> float:
    """Return log δ(ε) of μ-GDP, for 0 < μ < ∞ and 0 ≤ ε < ∞, without the guards."""
    a, b = epsilon / mu - 0.5 * mu, epsilon / mu + 0.5 * mu
    log_phi = -0.5 * a * a - _LOG_SQRT_2PI
    mills_b = _SQRT_HALF_PI * float(erfcx(b / math.sqrt(2)))
    if mills_b == 0.0:  # b beyond 1e300: e^ε Φ(−b) vanishes beside Φ(−a)
        return float(log_ndtr(-a))
    log_upper = (
        float(log_ndtr(-a))
        if a <= 0
        else log_phi + math.log(_SQRT_HALF_PI * float(erfcx(a / math.sqrt(2))))
    )
    ratio = math.exp(min(0.0, log_phi + math.log(mills_b) - log_upper))
    if ratio < 0.5:
        return log_upper + math.log1p(-ratio)
    return log_phi + _log_mills_difference(a, mu)


def log_delta_upper(mu: float, epsilon: float) -> float:
    """Return an upper bound of log δ(ε) of μ-GDP that differs from it by rounding only."""
    if mu == 0.0:
        return -math.inf
    if math.isinf(mu):
        return -math.inf if math.isinf(epsilon) else 0.0
    if math.isinf(epsilon) or epsilon / mu == math.inf:
        return -math.inf
    return min(0.0, _log_delta(mu * (1 + _GUARD_MU), epsilon) + _GUARD_DELTA)


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Return the δ at which μ-GDP releases are (ε, δ)-DP, rounded up.

    Guarantee: exact for Gaussian releases composed adaptively, μ = √(Σ 1/σ_t²), for the unit and
    adjacency under which every noise multiplier σ_t = standard deviation ÷ sensitivity was
    computed; the value returned is never below the true δ.

    Parameters
    ----------
    mu : float
        Root of the summed squares of 1 / noise multiplier; 0 for no release.
    epsilon : float
        At least 0.
    """
    mu = _check_mu(mu)
    if epsilon != math.inf:
        epsilon = _check.non_negative("epsilon", epsilon, remedy="use an ε of at least 0")
    log_delta = log_delta_upper(mu, epsilon)
    # exp may round a positive δ down to the next float or to 0; the true δ is then still covered.
    return min(1.0, math.nextafter(math.exp(log_delta), 1.0)) if log_delta > -math.inf else 0.0


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε at which μ-GDP releases are (ε, δ)-DP, rounded up.

    Guarantee: as for `gaussian_delta`; the true ε never exceeds the value returned. With δ = 0
    Gaussian noise gives no finite ε.
    """
    mu, delta = _check_mu(mu), check_delta(delta)
    if mu == 0.0:
        return 0.0
    if delta == 0.0 or math.isinf(mu):
        return math.inf
    log_target = math.log(delta)

    def excess(epsilon: float) -> float:
        return log_delta_upper(mu, epsilon) - log_target

    if excess(0.0) <= 0:
        return 0.0
    # Φ(−a) ≤ e^(−a²/2) for a ≥ 0 bounds δ, so this ε is safe; doubling covers its rounding.
    safe = mu * (0.5 * mu + math.sqrt(-2 * log_target) + 1e-3)
    while math.isfinite(safe) and excess(safe) > 0:
        safe *= 2
    return safe_endpoint(excess, unsafe=0.0, safe=safe) if math.isfinite(safe) else math.inf


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ that is (ε, δ)-DP, rounded down: `gaussian_epsilon` of it is ≤ ε.

    Guarantee: releases with √(Σ 1/σ_t²) ≤ the value returned are (ε, δ)-DP together, also when
    every σ_t is chosen from earlier releases (the GDP filter, Koskela, Tobaben, Honkela 2023).
    """
    return _largest_mu(check_epsilon(epsilon), check_delta(delta))


@functools.lru_cache(maxsize=1024)
def _largest_mu(epsilon: float, delta: float) -> float:
    if math.isinf(epsilon):
        return math.inf
    if delta == 0.0:
        return 0.0

    def excess(mu: float) -> float:
        return gaussian_epsilon(mu, delta) - epsilon

    safe, unsafe = 1.0, 1.0
    while excess(safe) > 0:
        safe *= 0.5
    while excess(unsafe) <= 0:
        unsafe *= 2
    return safe_endpoint(excess, unsafe=unsafe, safe=safe)
