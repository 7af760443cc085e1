"""Composition of steps of which only (ε_t, δ_t) is known, the papers' bound, and group privacy.

Every (ε, δ)-DP step is a post-processing of randomised response (Kairouz, Oh, Viswanath 2015,
"KOV"), so the composition of the responses is the worst case: exact for equal ε, and on a fine
grid, always rounded up, for unequal ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import gammaln

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.privacy.accounting.gaussian import check_delta

__all__ = ["composition_bound", "group_privacy", "optimal_composition", "sum_up"]

_GRID = 1 << 16
_ROUNDING = 2.0**-53
# Beyond this many steps the arrays get large and the closed bound is used alone.
_MOST_STEPS = 2_000_000
_MOST_UNEQUAL = 20_000
# Masses lost to underflow stay far below this; smaller δ are left to the closed bound.
_LEAST_DELTA = 1e-250


def _epsilons(values: Sequence[float] | Array) -> Array:
    epsilons = np.atleast_1d(np.asarray(values, dtype=float))
    bad = epsilons[~(np.isfinite(epsilons) & (epsilons >= 0))]
    if epsilons.ndim != 1 or bad.size:
        shown = bad[0] if bad.size else epsilons.shape
        raise InvalidInput(
            f"epsilons: {shown!r} must be finite numbers of at least 0, one per step"
        )
    return epsilons


def composition_bound(epsilons: Sequence[float] | Array, delta: float) -> float:
    """Return CB({ε_t}, δ), the three-way bound by which the papers compose pure-ε steps.

    Guarantee: (CB, δ)-DP for ε_t-DP steps fixed in advance (KOV 2015, Theorem 3.5), for the unit
    and adjacency of the steps. Loose; kept for reproductions. `compose` is tighter.

    Notes
    -----
    Definition 7 of the model-protected paper: the smallest of Σε_t,
    Σ ε_t (e^ε_t − 1)/(e^ε_t + 1) + √(2 Σε_t² log(1/δ)), and the same with
    log(e + √(Σε_t²)/δ).
    """
    steps, delta = _epsilons(epsilons), check_delta(delta)
    total = math.fsum(steps)
    if delta == 0:
        return total
    drift = math.fsum(steps * np.tanh(steps / 2))
    squares = math.fsum(steps**2)
    second = drift + math.sqrt(2 * squares * math.log(1 / delta))
    third = drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta))
    return min(total, second, third)


def _epsilon_from_losses(log_p: Array, losses: Array, delta: float, error: float) -> float:
    """Return an ε at which the pair with masses p at ``losses``, from the highest, is within δ.

    Guarantee: if every mass is right to a factor 1 ± ``error``, the ε returned is not below the
    exact one. δ(ε) = Σ p (1 − e^(ε − loss)) over the losses above ε is a sum of positive terms, so
    its computed value is right to a factor of the masses' error plus one rounding for every
    term: no absolute error enters, however small δ. The rounding of ε − loss moves ε by less than
    ``shift``. The first guess, from δ(ε) = max over j of P_j − e^ε Q_j with the masses P_j, Q_j of
    the j highest losses, is only a guess: what is returned was evaluated and found safe.
    """
    log_p_tail = np.logaddexp.accumulate(log_p)
    log_q_tail = np.logaddexp.accumulate(log_p - losses)
    counts = log_p_tail > math.log(delta)
    share = np.exp(math.log(delta) - log_p_tail[counts])
    guesses = log_p_tail[counts] + np.log1p(-share) - log_q_tail[counts]
    guess = max(0.0, float(np.max(guesses, initial=0.0)))

    masses, largest = np.exp(log_p), max(1.0, float(np.abs(losses).max()))
    slack = math.exp(2 * error + 8 * _ROUNDING * losses.size + 1e-14)
    shift, step = 8 * _ROUNDING * largest, 1e-14 * largest

    def safe(epsilon: float) -> bool:
        above = losses > epsilon
        return float(-masses[above] @ np.expm1(epsilon - losses[above])) * slack <= delta

    while not safe(guess):
        guess, step = guess + step, 2 * step
    return guess + shift


def _homogeneous(epsilon: float, count: int, delta: float) -> float:
    """Return the exact ε of ``count`` ε-DP steps at any δ (KOV 2015, Theorem 3.3)."""
    lies = np.arange(count + 1)
    log_choose = gammaln(count + 1) - gammaln(lies + 1) - gammaln(count - lies + 1)
    log_true, log_lie = -math.log1p(math.exp(-epsilon)), -epsilon - math.log1p(math.exp(-epsilon))
    log_p = log_choose + (count - lies) * log_true + lies * log_lie
    # The log-gammas, of size count·log(count), are right to a few units in the last place.
    error = 8 * _ROUNDING * count * (math.log(count + 1.0) + epsilon + 1.0) + 1e-14
    return _epsilon_from_losses(log_p, epsilon * (count - 2.0 * lies), delta, error)


def _on_grid(epsilon: float, width: float) -> Array:
    """Return masses at −(k+1), …, k+1 grid widths of a pair that dominates the ε-response.

    Connect-the-dots (Doroshenko et al. 2022): the response's δ curve, linear in e^x between −ε and
    ε, is interpolated at the grid points, which can only raise it, to second order in the width.
    Only the cells that hold ±ε change: with k = ⌊ε/width⌋ and f = ε − k·width, the mass at ε moves
    to k and k + 1; the pair is symmetric, so the mass at −x is e^(−x) times that at x.
    """
    # Rounding moves f by a few units in the last place of ε; a larger ε dominates.
    epsilon *= 1 + 16 * _ROUNDING
    k = math.floor(epsilon / width)
    f = min(max(epsilon - k * width, 0.0), width)
    truth = 1 / (1 + math.exp(-epsilon))
    inner = truth * math.expm1(width - f) / math.expm1(width)
    outer = truth * math.expm1(-f) / math.expm1(-width)
    masses = np.zeros(2 * k + 3)
    masses[-1], masses[0] = outer, outer * math.exp(-(k + 1) * width)
    masses[-2] += inner
    masses[1] += inner * math.exp(-k * width)
    return masses


def _heterogeneous(epsilons: Array, delta: float) -> float:
    """Return an upper bound of the optimal ε for unequal pure steps, by convolution on a grid.

    Guarantee: never below the optimal ε. Every step has at most four masses, so the distributions
    are joined by adding shifted copies, one step after the other: sums and products of positive
    numbers, each right to a factor (1 ± u)^16 a step with u = 2⁻⁵³. A Fourier transform is faster
    for many steps, but its error is absolute, of the size of the largest mass in every entry and
    √n as large in a tail's sum, which no δ near 1e-12 survives. Underflow loses less than
    n · 2⁻¹⁰⁷⁴ a step.
    """
    if epsilons.size > _MOST_UNEQUAL or delta < _LEAST_DELTA:
        return math.inf
    width = 2 * math.fsum(epsilons) / _GRID
    masses = np.ones(1)
    for epsilon in np.sort(epsilons):
        step = _on_grid(float(epsilon), width)
        joined = np.zeros(masses.size + step.size - 1)
        for place in np.flatnonzero(step):
            joined[place : place + masses.size] += step[place] * masses
        masses = joined
    masses = masses[::-1]
    losses = width * (0.5 * (masses.size - 1) - np.arange(masses.size))
    with np.errstate(divide="ignore"):
        log_p = np.log(masses)
    # exp(log p) brings back p to |log p| ≤ 746 roundings.
    error = _ROUNDING * (16 * epsilons.size + 1000)
    return _epsilon_from_losses(log_p, losses, delta * (1 - 1e-14), error)


def sum_up(values: Sequence[float] | Array) -> float:
    """Return the exact sum of ``values``, rounded up."""
    total = math.fsum(values)
    if math.isinf(total) or math.fsum([*values, -total]) <= 0:
        return total
    return math.nextafter(total, math.inf)


def optimal_composition(
    epsilons: Sequence[float] | Array,
    delta: float,
    *,
    deltas: Sequence[float] | Array | None = None,
) -> float:
    """Return the smallest ε known to hold at δ for ε_t-DP (or (ε_t, δ_t)-DP) steps.

    Guarantee: the steps, fixed in advance, adaptively queried, are (ε, δ)-DP together for their
    unit and adjacency. Exact for equal ε_t; for unequal ones the optimal value (which is #P-hard)
    is approached from above on a grid. Never worse than the sum or than `composition_bound`.
    Steps with δ_t > 0 use up 1 − Π(1 − δ_t) of δ first (KOV 2015, Theorem 3.3).
    """
    steps, delta = _epsilons(epsilons), check_delta(delta)
    if deltas is not None:
        failures = np.asarray(deltas, dtype=float)
        if failures.shape != steps.shape or not np.all((failures >= 0) & (failures < 1)):
            raise InvalidInput("deltas: must be numbers in [0, 1), one per step")
        kept = -math.expm1(math.fsum(np.log1p(-failures))) * (1 + 1e-12)
        if kept > delta:
            return math.inf
        delta = (delta - kept) / (1 - kept) * (1 - 1e-12) if kept else delta
    steps = steps[steps > 0]
    total = sum_up(steps)
    if delta <= 0 or steps.size == 0:
        return total
    best = min(total, composition_bound(steps, delta) * (1 + 1e-12))
    if steps.size > _MOST_STEPS:
        return best
    if np.all(steps == steps[0]):
        return min(best, _homogeneous(float(steps[0]), steps.size, delta))
    if total > _GRID / 2:  # so coarse a grid says no more than the sum, and overflows
        return best
    return min(best, _heterogeneous(steps, delta))


def group_privacy(epsilon: float, delta: float, size: int) -> tuple[float, float]:
    """Return the (ε, δ) that an (ε, δ)-DP method gives to a group of ``size`` units.

    Guarantee: k units changed at once are protected with ε' = kε and
    δ' = δ (e^(kε) − 1)/(e^ε − 1), for the same adjacency. This sum of a geometric series is what
    the proof of Vadhan's Lemma 2.2 gives; the paper's Proposition 3 prints the weaker k e^(kε) δ.
    A person with rows in several tasks, or a task with k rows under a row guarantee, is a group.

    Returns
    -------
    epsilon, delta : float
        ``delta`` is capped at 1, which means no protection.
    """
    epsilon = _check.non_negative("epsilon", epsilon, remedy="use a finite ε of at least 0")
    delta = check_delta(delta)
    k = _check.positive_integer("size", size, remedy="it is the number of units in the group")
    if k == 1 or delta == 0:
        return k * epsilon, delta
    if k * epsilon > 700:
        return k * epsilon, 1.0
    growth = math.expm1(k * epsilon) / math.expm1(epsilon) if epsilon > 0 else float(k)
    return k * epsilon, min(1.0, growth * delta * (1 + 2e-15))
