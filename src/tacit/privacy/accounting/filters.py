"""Privacy filters: budgets that hold when the noise of a release is chosen from earlier releases.

Plain composition fixes all noise in advance. Composition that stays valid without that is known
for the sums of (ε, δ) (Rogers et al. 2016), of μ² (Koskela, Tobaben, Honkela 2023; Smith &
Thakurta 2022) and of RDP at one order (Feldman & Zrnic 2021); it also covers several interactive
runs interleaved (Haney et al. 2023). PLDs have no such filter. Nor may a filter pass whatever one
of several rules passes: which rule holds could then depend on the releases, and the δ of the rules
would add up. So the rule, and the order for RDP, are fixed before the first release.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri_exp

from tacit import _check
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy.accounting import curves
from tacit.privacy.accounting.composition import Cost
from tacit.privacy.accounting.gaussian import (
    check_delta,
    check_epsilon,
    gaussian_epsilon,
    gaussian_mu,
)
from tacit.privacy.accounting.leaves import Event, Leaves, kind, leaves, refuse
from tacit.privacy.accounting.pure import sum_up

__all__ = ["RULES", "PrivacyFilter", "Spend", "rdp_order", "total_cost"]

RULES = ("gdp", "rdp", "basic")


@dataclass(frozen=True)
class Spend:
    """What one run takes from a budget: ``mu_squared``, or ``rdp``, or (``epsilon``, ``delta``)."""

    mu_squared: float = 0.0
    rdp: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0


def rdp_order(epsilon: float, delta: float) -> float:
    """Return the order that lets the most Gaussian-like releases into (ε, δ).

    With L = log(1/δ), ρ = (ε − L/(α−1))/α is largest where ε(α−1)² = L(1 + 2(α−1)).
    """
    log_term = math.log(1 / delta)
    return 1 + (log_term + math.sqrt(log_term**2 + epsilon * log_term)) / epsilon


def _rdp_to_epsilon(order: float, rdp: float, delta: float) -> float:
    """Convert RDP at one order (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    if rdp == 0:
        return 0.0
    return max(0.0, rdp + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))


def _rdp_allowed(order: float, epsilon: float, delta: float) -> float:
    return epsilon - math.log1p(-1 / order) + math.log(delta * order) / (order - 1)


def mu_squared(parts: Leaves) -> float:
    """Return Σ μ² of the releases for the GDP filter.

    An ε-DP release is μ-GDP with Φ(−μ/2) = 1/(1 + e^ε): its trade-off curve is two chords of that
    Gaussian curve, and a convex curve lies below its chords.
    """
    squares = []
    for event, count in parts:
        pure = curves.response_parameter(event)
        if kind(event) == "non-private" or pure == math.inf:
            return math.inf
        if kind(event) == "gaussian":
            squares.append(count / event.noise_multiplier**2)
        elif pure is not None:
            mu = -2 * float(ndtri_exp(-pure - math.log1p(math.exp(-pure))))
            squares.append(count * mu**2 * (1 + 1e-12))
        else:
            raise refuse(event, "gdp", "filter knows Gaussian and pure-ε releases only")
    return math.fsum(squares)


def rdp_spend(parts: Leaves, order: float) -> float:
    """Return the RDP of the releases at ``order``."""
    return float(curves.rdp_at(parts, np.array([order]), accountant="rdp filter")[1][0])


def basic_spend(parts: Leaves) -> Spend:
    """Return (Σε, Σδ) of steps that are (ε, δ)-DP by themselves."""
    epsilons: list[float] = []
    deltas: list[float] = []
    for event, count in parts:
        pure = curves.response_parameter(event)
        if kind(event) == "non-private" or pure == math.inf:
            return Spend(epsilon=math.inf)
        if pure is None and kind(event) != "step":
            raise refuse(event, "basic", "filter knows (ε, δ)-DP steps only")
        epsilons += [event.epsilon if pure is None else pure] * count
        deltas += [event.delta if pure is None else 0.0] * count
    return Spend(epsilon=sum_up(epsilons), delta=sum_up(deltas))


def total_cost(rule: str, spends: Iterable[Spend], epsilon: float, delta: float) -> Cost:
    """Return what all ``spends`` cost together under ``rule``, for a budget of (ε, δ)."""
    taken = tuple(spends)
    if rule == "gdp":
        mu = math.sqrt(math.fsum(spend.mu_squared for spend in taken))
        return Cost(gaussian_epsilon(mu, delta), delta, rule)
    if rule == "rdp":
        rdp = sum_up([spend.rdp for spend in taken])
        if math.isinf(rdp):
            return Cost(math.inf, delta, rule)
        return Cost(_rdp_to_epsilon(rdp_order(epsilon, delta), rdp, delta), delta, rule)
    return Cost(
        sum_up([spend.epsilon for spend in taken]), sum_up([spend.delta for spend in taken]), rule
    )


def remaining(rule: str, spends: Iterable[Spend], epsilon: float, delta: float) -> Cost:
    """Return the (ε, δ) to which one more run may be calibrated, rounded down."""
    taken = tuple(spends)
    if math.isinf(epsilon):
        return Cost(epsilon, delta, rule)
    if rule == "gdp":
        if not taken:
            return Cost(epsilon, delta, rule)
        used = math.fsum(spend.mu_squared for spend in taken)
        square = gaussian_mu(epsilon, delta) ** 2 - used
        mu = math.sqrt(square) * (1 - 1e-9) if square > 1e-18 else 0.0
        return Cost(gaussian_epsilon(mu, delta), delta, rule)
    if rule == "rdp":
        order = rdp_order(epsilon, delta)
        left = _rdp_allowed(order, epsilon, delta) - sum_up([spend.rdp for spend in taken])
        return Cost(_rdp_to_epsilon(order, max(0.0, left), delta), delta, rule)
    used_cost = total_cost(rule, taken, epsilon, delta)
    return Cost(max(0.0, epsilon - used_cost.epsilon), max(0.0, delta - used_cost.delta), rule)


class PrivacyFilter:
    """A budget from which releases with adaptively chosen noise are paid, one by one.

    Guarantee: all releases that `spend` let pass are (ε, δ)-DP together for the unit and adjacency
    of their sensitivities, also if the noise, the kind and the number of releases were chosen from
    earlier releases.

    Parameters
    ----------
    epsilon, delta : float
        The budget; δ = 0 asks for pure ε.
    rule : {"auto", "gdp", "rdp", "basic"}
        ``"gdp"``: Gaussian and pure-ε releases; ``"rdp"``: also Poisson-sampled ones, at an order
        fixed by (ε, δ); ``"basic"``: sums of (ε, δ). ``"auto"`` is ``"gdp"`` if δ > 0, else
        ``"basic"``.
    """

    def __init__(self, epsilon: float, delta: float, *, rule: str = "auto") -> None:
        self.epsilon, self.delta = check_epsilon(epsilon), check_delta(delta)
        _check.one_of("rule", rule, ("auto", *RULES))
        self.rule = rule if rule != "auto" else ("gdp" if delta > 0 else "basic")
        if self.rule != "basic" and self.delta == 0:
            raise InvalidInput(f"delta=0: the {self.rule!r} filter needs δ > 0; use rule='basic'")
        self._spends: list[Spend] = []

    def _price(self, event: Event | Iterable[Event]) -> Spend:
        parts = leaves(event)
        if self.rule == "gdp":
            return Spend(mu_squared=mu_squared(parts))
        if self.rule == "rdp":
            return Spend(rdp=rdp_spend(parts, rdp_order(self.epsilon, self.delta)))
        return basic_spend(parts)

    def _fits(self, spend: Spend) -> bool:
        cost = total_cost(self.rule, [*self._spends, spend], self.epsilon, self.delta)
        return cost.epsilon <= self.epsilon and cost.delta <= self.delta

    def allows(self, event: Event | Iterable[Event]) -> bool:
        """Return whether `spend` would let ``event`` pass."""
        return self._fits(self._price(event))

    def spend(self, event: Event | Iterable[Event]) -> None:
        """Pay for ``event``, or raise `BudgetExceeded` and leave the budget as it was."""
        price = self._price(event)
        if not self._fits(price):
            asked = total_cost(self.rule, [price], self.epsilon, self.delta).epsilon
            left = self.left.epsilon
            raise BudgetExceeded(
                f"asked for ε = {asked:.6g}, left is ε = {left:.6g} of {self.epsilon:.6g} at "
                f"δ = {self.delta:.3g}; release with more noise, or stop here",
                asked=asked,
                left=left,
            )
        self._spends.append(price)

    @property
    def spent(self) -> Cost:
        """What all releases so far cost together."""
        return total_cost(self.rule, self._spends, self.epsilon, self.delta)

    @property
    def left(self) -> Cost:
        """The (ε, δ) to which one further run may be calibrated."""
        return remaining(self.rule, self._spends, self.epsilon, self.delta)
