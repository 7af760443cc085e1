"""How a budget is shared between rounds: weights, and the largest scale that stays within it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.privacy.accounting._search import safe_endpoint
from tacit.privacy.accounting.composition import compose
from tacit.privacy.accounting.curves import pld_epsilon, rdp_epsilon
from tacit.privacy.accounting.gaussian import (
    check_delta,
    check_epsilon,
    gaussian_epsilon,
    gaussian_mu,
    mu_of,
    square_of,
)
from tacit.privacy.accounting.leaves import Leaves, leaves, repeated
from tacit.privacy.accounting.pure import composition_bound, optimal_composition, sum_up

__all__ = ["geometric", "power", "scale_gaussian", "scale_pure", "scale_sampled"]

_ORDERS = (0.25, 0.4, 0.6, 1.0, 1.6, 2.5)  # Rényi orders tried, relative to the plain Gaussian's
_COARSE = 1e-3  # grid of privacy losses while searching; the answer is checked on the finest


def power(n_rounds: int, alpha: float = 0.0) -> Array:
    """Return weights t^α for t = 1 … n_rounds (α = 0: equal; α > 0: more to later rounds)."""
    count = _check.positive_integer("n_rounds", n_rounds, remedy="use at least one round")
    if isinstance(alpha, bool) or not math.isfinite(alpha):
        raise InvalidInput(f"alpha={alpha!r}: must be finite; the papers use 0 or 0.4")
    exponents = alpha * np.log(np.arange(1, count + 1))
    return np.asarray(np.exp(exponents - exponents.max()))


def geometric(n_rounds: int, Q: float) -> Array:
    """Return weights Q^(−t) for t = 1 … n_rounds (Q < 1: more to later rounds).

    Guarantee: Q must be public; one computed from the tasks' curvatures is itself a release.
    """
    count = _check.positive_integer("n_rounds", n_rounds, remedy="use at least one round")
    rate = _check.positive("Q", Q, remedy="the papers use (1 − μ/L)^(2/5)")
    exponents = -math.log(rate) * np.arange(1, count + 1)
    return np.asarray(np.exp(exponents - exponents.max()))


def _weights(weights: Sequence[float] | Array) -> Array:
    shares = np.atleast_1d(np.asarray(weights, dtype=float))
    if shares.ndim != 1 or not shares.size or not np.all(np.isfinite(shares) & (shares > 0)):
        raise InvalidInput(f"weights={weights!r}: must be positive finite numbers, one per round")
    return shares / shares.max()


def scale_gaussian(weights: Sequence[float] | Array, epsilon: float, delta: float) -> Array:
    """Return the noise multiplier of every round, with 1/σ_t ∝ weight and the total within (ε, δ).

    Guarantee: √(Σ 1/σ_t²) is the largest that is (ε, δ)-DP, rounded down; `compose` of the rounds'
    Gaussian events costs at most ε at δ, for the adjacency of the sensitivity used.
    """
    shares, epsilon, delta = _weights(weights), check_epsilon(epsilon), check_delta(delta)
    if math.isinf(epsilon):
        return np.zeros(shares.size)
    if delta == 0:
        raise InvalidInput("delta=0: Gaussian noise has no pure ε; use delta > 0 or scale_pure")
    noise = np.asarray(math.sqrt(math.fsum(shares**2)) / (gaussian_mu(epsilon, delta) * shares))

    def cost(sigmas: Array) -> float:
        total = sum((square_of(1 / Fraction(sigma)) for sigma in sigmas.tolist()), Fraction(0))
        return gaussian_epsilon(mu_of(total), delta)

    while cost(noise) > epsilon:  # by rounding alone, so a step or two
        noise = noise * (1 + 1e-15)
    return noise


def scale_pure(
    weights: Sequence[float] | Array, epsilon: float, delta: float = 0.0, *, bound: str = "optimal"
) -> Array:
    """Return ε_t ∝ weight, the largest whose composition stays within (ε, δ).

    Guarantee: the ε_t-DP rounds together are (ε, δ)-DP; the scale was found by a search that
    ends on the safe side. With δ = 0 they add up to at most ε.

    Parameters
    ----------
    bound : {"optimal", "published"}
        ``"published"`` composes by the papers' `composition_bound`, and ends where the ledger,
        which rounds upwards, finds the rounds within (ε, δ) too.
    """
    shares, epsilon, delta = _weights(weights), check_epsilon(epsilon), check_delta(delta)
    _check.one_of("bound", bound, ("optimal", "published"))
    if math.isinf(epsilon):
        return np.full(shares.size, math.inf)
    total: Callable[[Array], float] = sum_up
    if delta > 0:
        chosen = optimal_composition if bound == "optimal" else composition_bound
        total = lambda steps: chosen(steps, delta)  # noqa: E731

    def excess(scale: float) -> float:
        return total(shares * scale) - epsilon

    safe = epsilon / math.fsum(shares)
    while excess(safe) > 0:
        safe *= 1 - 1e-15
    unsafe = safe * (1 + 1e-9)
    while excess(unsafe) <= 0:
        safe, unsafe = unsafe, 2 * unsafe
    tolerance = 0.0 if delta == 0 or bound == "published" else 1e-9
    scale = safe_endpoint(excess, unsafe=unsafe, safe=safe, tolerance=tolerance)
    while delta > 0 and optimal_composition(shares * scale, delta) > epsilon:
        scale *= 1 - 1e-12  # by rounding alone, so a step or two
    return shares * scale


def scale_sampled(
    weights: Sequence[float] | Array,
    rates: Sequence[float],
    turns: Sequence[int],
    epsilon: float,
    delta: float,
) -> Array:
    """Return the noise multiplier of every round of Poisson-sampled Gaussians, 1/σ_t ∝ weight.

    Round t happens ``turns[t]`` times with sampling rate ``rates[t]``. Rényi accounting, which is
    quick and never too low, brackets the answer; privacy loss distributions finish it.

    Guarantee: `compose` of all turns costs at most ε at δ; the returned value was itself checked.
    """
    shares, epsilon, delta = _weights(weights), check_epsilon(epsilon), check_delta(delta)
    if delta == 0:
        raise InvalidInput("delta=0: Gaussian noise has no pure ε; use delta > 0")

    def released(factor: float) -> Leaves:
        from dp_accounting import dp_event

        return leaves(
            dp_event.SelfComposedDpEvent(
                dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(factor / share)),
                count,
            )
            for share, rate, count in zip(shares, rates, turns, strict=True)
        )

    # Whole orders have a closed form for sampled Gaussians; fractional ones are a slow series.
    best = 1 + 2 * math.log(1 / delta) / epsilon
    orders = np.unique(np.clip(np.rint(np.multiply(_ORDERS, best)), 2, 512))

    def rough(factor: float) -> float:
        return rdp_epsilon(released(factor), delta, orders) - epsilon

    def coarse(factor: float) -> float:
        return pld_epsilon(released(factor), delta, _COARSE) - epsilon

    # Without amplification the rounds are plain Gaussians: never less noise than needed.
    squares = math.fsum(count * share**2 for count, share in zip(turns, shares, strict=True))
    safe = math.sqrt(squares) / gaussian_mu(epsilon, delta) * (1 + 1e-9)
    unsafe = safe
    while rough(unsafe) <= 0:
        safe, unsafe = unsafe, unsafe / 2
    if safe > unsafe:
        safe = safe_endpoint(rough, unsafe=unsafe, safe=safe, tolerance=1e-2)
    while coarse(safe) > 0:  # by discretisation alone, where sampling hardly amplifies
        safe *= 1.01
    unsafe = 0.95 * safe
    while coarse(unsafe) <= 0:
        safe, unsafe = unsafe, 0.95 * unsafe
    factor = safe_endpoint(coarse, unsafe=unsafe, safe=safe, tolerance=1e-4)
    while compose(repeated(released(factor)), delta=delta).epsilon > epsilon:
        factor *= 1 + 1e-4
    return np.asarray(factor / shares)
