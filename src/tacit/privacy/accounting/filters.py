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
from fractions import Fraction

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
    mu_of,
    square_of,
)
from tacit.privacy.accounting.leaves import Event, Leaves, kind, leaves, refuse
from tacit.privacy.accounting.pure import group_privacy, sum_up

__all__ = ["RULES", "PrivacyFilter", "Spend", "rdp_order", "total_cost"]

RULES = ("gdp", "rdp", "basic")


@dataclass(frozen=True)
class Spend:
    """What one run takes from a budget: ``mu_squared``, or ``rdp``, or (``epsilon``, ``delta``).

    ``mu_squared`` is exact, so that sums of spends are the same however runs are cut into pieces;
    ``epsilon=inf`` stands for no protection under any rule.
    """

    mu_squared: Fraction = Fraction(0)
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


def mu_spend(parts: Leaves) -> Spend:
    """Return Σ μ² of the releases for the GDP filter.

    An ε-DP release is μ-GDP with Φ(−μ/2) = 1/(1 + e^ε): its trade-off curve is two chords of that
    Gaussian curve, and a convex curve lies below its chords.
    """
    total = Fraction(0)
    for event, count in parts:
        pure = curves.response_parameter(event)
        if kind(event) == "non-private" or pure == math.inf:
            return Spend(epsilon=math.inf)
        if kind(event) == "gaussian":
            total += curves.total_square(((event, count),))
        elif pure is not None:
            mu = -2 * float(ndtri_exp(-pure - math.log1p(math.exp(-pure))))
            total += count * square_of(mu * (1 + 1e-12))
        else:
            raise refuse(
                event,
                "gdp",
                "filter knows Gaussian and pure-ε releases only; a budget for others as well is "
                "made with rule='basic' or 'rdp'",
            )
    return Spend(mu_squared=total)


def rdp_spend(parts: Leaves, order: float) -> Spend:
    """Return the RDP of the releases at ``order``."""
    return Spend(rdp=float(curves.rdp_at(parts, np.array([order]), accountant="rdp filter")[1][0]))


def two_steps(spend: Spend, parts: Leaves, order: float | None) -> Spend:
    """Return what a run costs when the data change by two steps of the adjacency it was priced for.

    Guarantee: one unit replaced is one removed (or blanked) and one added (or filled in), so this
    converts add-or-remove and zero-out to replace-one. With μ² of Gaussian curves: μ doubles (Dong,
    Roth, Su 2022, Theorem 2.14). With RDP at order α, by the weak triangle inequality (Mironov
    2017, Proposition 11 at p = q = 2): (α − ½)/(α − 1) times RDP at 2α, plus RDP at 2α − 1. With
    (ε, δ): 2ε and δ(1 + e^ε). Each holds release by release given those before, so sums over
    adaptively chosen releases stay valid under the rule's filter.
    """
    if spend.rdp > 0 and order is not None:
        _, (twice, less) = curves.rdp_at(
            parts, np.array([2 * order, 2 * order - 1]), accountant="rdp filter"
        )
        return Spend(rdp=float((order - 0.5) / (order - 1) * twice + less) * (1 + 1e-14))
    if math.isinf(spend.epsilon):
        return spend
    epsilon, delta = group_privacy(spend.epsilon, spend.delta, 2)
    return Spend(mu_squared=4 * spend.mu_squared, epsilon=epsilon, delta=delta)


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


def _squares(spends: Iterable[Spend]) -> Fraction:
    return sum((spend.mu_squared for spend in spends), Fraction(0))


def total_cost(rule: str, spends: Iterable[Spend], epsilon: float, delta: float) -> Cost:
    """Return what all ``spends`` cost together under ``rule``, for a budget of (ε, δ)."""
    taken = tuple(spends)
    if any(math.isinf(spend.epsilon) for spend in taken):
        return Cost(math.inf, delta, rule)
    if rule == "gdp":
        return Cost(gaussian_epsilon(mu_of(_squares(taken)), delta), delta, rule)
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
        if any(math.isinf(spend.epsilon) for spend in taken):
            return Cost(0.0, delta, rule)
        square = Fraction(gaussian_mu(epsilon, delta)) ** 2 - _squares(taken)
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
            return mu_spend(parts)
        if self.rule == "rdp":
            return rdp_spend(parts, rdp_order(self.epsilon, self.delta))
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
