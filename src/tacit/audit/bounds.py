"""From counts to lower bounds on ε, δ and μ that hold with a stated confidence.

An audit counts how often one event happened under each of two neighbouring data sets. Everything
here turns such counts into statements about *every* (ε, δ) the mechanism can truthfully claim.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special, stats

from tacit._check import fraction, non_negative, positive_integer
from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput

__all__ = [
    "delta_bound",
    "epsilon_bound",
    "mu_bound",
    "one_run_epsilon",
    "one_run_p_value",
    "rate_lower",
    "rate_upper",
]


def rate_lower(successes: AnyArray | int, trials: AnyArray | int, failure: float) -> Array:
    """Return the Clopper–Pearson lower limit of a probability.

    Guarantee: for a binomial count the limit exceeds the true probability with probability at most
    ``failure``, for every true probability (Clopper and Pearson 1934; exact, not asymptotic).
    """
    successes = np.asarray(successes, dtype=float)
    inside = np.maximum(successes, 1.0)
    limit = special.betaincinv(inside, trials - inside + 1.0, failure)
    return np.where(successes < 1.0, 0.0, limit)


def rate_upper(successes: AnyArray | int, trials: AnyArray | int, failure: float) -> Array:
    """Return the Clopper–Pearson upper limit of a probability; see `rate_lower`."""
    return 1.0 - rate_lower(trials - np.asarray(successes, dtype=float), trials, failure)


def epsilon_bound(likely: Array, unlikely: Array, delta: float) -> Array:
    """Return the ε that an event of probability ≥ ``likely`` against ≤ ``unlikely`` demands.

    Guarantee: (ε, δ)-DP says P(E) ≤ e^ε Q(E) + δ, hence ε ≥ log((P(E) − δ) / Q(E)).
    """
    with np.errstate(divide="ignore"):
        ratio = np.log(np.maximum(likely - delta, 0.0)) - np.log(unlikely)
    return np.maximum(ratio, 0.0)


def delta_bound(likely: Array, unlikely: Array, epsilon: float) -> Array:
    """Return the δ that the event demands at this ε: P(E) − e^ε Q(E), at least 0."""
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.where(unlikely > 0, np.exp(min(epsilon, 700.0)) * unlikely, 0.0)
    return np.maximum(likely - scaled, 0.0)


def mu_bound(likely: Array, unlikely: Array) -> Array:
    """Return the μ of Gaussian differential privacy that the event demands.

    Guarantee: a μ-GDP mechanism has Φ⁻¹(P(E)) − Φ⁻¹(Q(E)) ≤ μ for every event (Dong, Roth, Su
    2022). The bound refutes the claim "μ-GDP", which is what the accountant composes for Gaussian
    releases; it says nothing about a mechanism that claims only one pair (ε, δ).
    """
    return np.maximum(special.ndtri(likely) - special.ndtri(unlikely), 0.0)


def one_run_p_value(
    n_canaries: int, n_guesses: int, n_correct: int, epsilon: float, delta: float
) -> float:
    """Return the chance that an (ε, δ)-DP run lets anyone guess this well.

    Parameters
    ----------
    n_canaries
        Canaries whose presence was decided by independent fair coins.
    n_guesses, n_correct
        Canaries the adversary spoke about (abstaining on the rest), and how many it got right.

    Guarantee: Steinke, Nasr, Jagielski 2023, Theorem 5.2: the number of right guesses is
    stochastically dominated by Binomial(n_guesses, e^ε / (1 + e^ε)), plus a term for δ of at most
    2·n_canaries·δ times the largest average of the ``i`` probabilities below ``n_correct``.
    """
    if not 0 <= n_correct <= n_guesses <= n_canaries:
        raise InvalidInput(
            f"n_correct={n_correct}, n_guesses={n_guesses}, n_canaries={n_canaries}: "
            "must satisfy 0 <= n_correct <= n_guesses <= n_canaries"
        )
    truth = special.expit(epsilon)
    tail = float(stats.binom.sf(n_correct - 1, n_guesses, truth))
    if delta == 0 or n_correct == 0:
        return min(tail, 1.0)
    mass = stats.binom.pmf(np.arange(n_correct - 1, -1, -1), n_guesses, truth)
    averages = np.cumsum(mass) / np.arange(1, n_correct + 1)
    return min(tail + 2.0 * n_canaries * delta * float(averages.max()), 1.0)


def one_run_epsilon(
    n_canaries: int, n_guesses: int, n_correct: int, *, delta: float, confidence: float
) -> float:
    """Return the largest ε that ``n_correct`` right guesses in one run refute.

    Guarantee: if the run is (ε, δ)-DP for the canary's unit, the returned value exceeds ε with
    probability at most 1 − ``confidence``.
    """
    positive_integer("n_canaries", n_canaries, remedy="hide at least one canary")
    failure = 1.0 - fraction("confidence", confidence, remedy="use for example confidence=0.999")
    non_negative("delta", delta, remedy="use delta=0.0 for a pure-ε claim")

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(n_canaries, n_guesses, n_correct, epsilon, delta) <= failure

    if not refuted(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while refuted(high) and high < 700.0:
        low, high = high, 2.0 * high
    # Invariant: low is refuted. Sixty halvings reach the last bits; low is what is returned.
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low if math.isfinite(low) else 700.0
