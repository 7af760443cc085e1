"""What a run takes from a budget line, before and after it happened."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.errors import BudgetExceeded
from tacit.privacy._chain import finite_or_text
from tacit.privacy.accounting.composition import compose
from tacit.privacy.accounting.curves import response_parameter
from tacit.privacy.accounting.filters import (
    Spend,
    basic_spend,
    mu_spend,
    rdp_order,
    rdp_spend,
    remaining,
    total_cost,
    two_steps,
)
from tacit.privacy.accounting.leaves import Leaves, kind, repeated
from tacit.privacy.unit import Adjacency

__all__ = ["NEXT_TO_NOTHING", "Budget", "Lines", "spend_from_json", "spend_to_json"]

# A pure-ε run is kept at δ = 0 unless its tight composition at δ saves more than this share of ε.
_WORTH_A_DELTA = 0.01
# With less than this share of ε left there is no use in calibrating a run to it.
NEXT_TO_NOTHING = 0.01

Lines = Mapping[tuple[str, str], Sequence[Spend]]
"""What was spent on each line that a run would be counted on, by data set and unit."""


def spend_to_json(spend: Spend) -> dict[str, float | str]:
    """Return ``spend`` as JSON fields."""
    return {
        "mu_squared": str(spend.mu_squared),
        "rdp": finite_or_text(spend.rdp),
        "epsilon": finite_or_text(spend.epsilon),
        "delta": spend.delta,
    }


def spend_from_json(fields: Mapping[str, Any]) -> Spend:
    """Return the spend that `spend_to_json` wrote."""
    numbers = {key: float(fields[key]) for key in ("rdp", "epsilon", "delta")}
    return Spend(Fraction(fields["mu_squared"]), **numbers)


def _all_pure(parts: Leaves) -> bool:
    return all(response_parameter(event) is not None for event, _ in parts)


@dataclass(frozen=True)
class Budget:
    """A total of (ε, δ) for every line, and the prices of runs on them.

    Guarantee: runs that `check` lets pass are (ε, δ)-DP together even when each was chosen from
    the releases of those before it; see `tacit.privacy.accounting.filters`.
    """

    epsilon: float
    delta: float

    def rule_for(self, parts: Leaves) -> str:
        """Return the rule for a ledger whose first run is ``parts``."""
        plain = all(kind(event) == "gaussian" for event, _ in parts)
        limited = self.delta > 0 and math.isfinite(self.epsilon)
        return "gdp" if plain and limited else "basic"

    def price(
        self,
        rule: str,
        parts: Leaves,
        lines: Lines,
        share: float | None,
        adjacency: Adjacency,
        steps: int = 1,
    ) -> Spend:
        """Return what a run of ``parts`` takes from every one of ``lines``.

        ``adjacency`` is the run's, and one step of the lines' adjacency takes ``steps`` of it.
        """
        if rule == "basic":
            return self._basic(parts, lines, share, adjacency, steps)
        spend = mu_spend(parts) if rule == "gdp" else rdp_spend(parts, self._order)
        return self.converted(spend, parts, steps, rule)

    @property
    def _order(self) -> float:
        return rdp_order(self.epsilon, self.delta)

    def converted(self, spend: Spend, parts: Leaves, steps: int, rule: str) -> Spend:
        """Return ``spend`` of ``parts`` for a change of the data in ``steps`` steps, 1 or 2."""
        if steps == 1:
            return spend
        return two_steps(spend, parts, self._order if rule == "rdp" else None)

    def _basic(
        self,
        parts: Leaves,
        lines: Lines,
        share: float | None,
        adjacency: Adjacency,
        steps: int,
    ) -> Spend:
        """Return the run's own tight (ε, δ), converted.

        The share of δ is what the caller asks for; else half of what is left if the run then fits
        (so that later runs find some), else all of it.
        """
        best = Spend(epsilon=math.inf)
        for delta in self._shares(lines, steps) if share is None else (share,):
            cost = compose(repeated(parts), delta=delta, adjacency=adjacency)
            own = Spend(epsilon=cost.epsilon, delta=delta)
            best = self.converted(own, parts, steps, "basic")
            if self._fit("basic", lines, best):
                break
        if _all_pure(parts):
            plain = self.converted(basic_spend(parts), parts, steps, "basic")
            worthless = plain.epsilon * (1 - _WORTH_A_DELTA) <= best.epsilon
            if worthless and self._fit("basic", lines, plain):
                return plain
        return best

    def _shares(self, lines: Lines, steps: int) -> Iterator[float]:
        """Yield the shares of δ to try, in this order; a conversion multiplies them by 1 + e^ε."""
        taken = (total_cost("basic", line, self.epsilon, self.delta) for line in lines.values())
        free = max(0.0, self.delta - max((cost.delta for cost in taken), default=0.0))
        yield from (0.5 * free, free)
        if steps > 1 and free > 0:
            yield from (free * 0.5**power for power in range(2, 30))

    def _fit(self, rule: str, lines: Lines, spend: Spend) -> bool:
        return all(self._fits(rule, taken, spend) for taken in lines.values())

    def _fits(self, rule: str, taken: Sequence[Spend], spend: Spend) -> bool:
        total = total_cost(rule, [*taken, spend], self.epsilon, self.delta)
        return total.epsilon <= self.epsilon and total.delta <= self.delta

    def check(self, rule: str, lines: Lines, spend: Spend, path: str) -> None:
        """Raise `BudgetExceeded` unless ``spend`` fits beside what is taken, on every line."""
        for (data, unit), taken in lines.items():
            if self._fits(rule, taken, spend):
                continue
            asked = total_cost(rule, [spend], self.epsilon, self.delta)
            left = remaining(rule, taken, self.epsilon, self.delta)
            remedy = (
                "calibrate the run to what is left, or give it a smaller delta"
                if math.isinf(left.epsilon) or left.epsilon > NEXT_TO_NOTHING * self.epsilon
                else "nothing is left for another fit; models that are there go on answering, and "
                "later parties join them, at no cost"
            )
            raise BudgetExceeded(
                f"asked for ε = {asked.epsilon:.6g}, δ = {asked.delta:.3g}; left is "
                f"ε = {left.epsilon:.6g}, δ = {left.delta:.3g} of a total of "
                f"ε = {self.epsilon:.6g}, δ = {self.delta:.3g} in {path} ({data} data, unit "
                f"{unit}, {rule} rule); {remedy}",
                asked=asked.epsilon,
                left=left.epsilon,
            )

    def settled(self, rule: str, reserved: Spend, charged: Leaves, steps: int) -> Spend:
        """Return what a run keeps that ended after ``charged``, fewer releases than reserved.

        Under a filter's rule and for sums of pure ε unused releases come back. A tight (ε, δ) of
        the whole run does not shrink unless nothing was released: when to stop may have depended
        on the releases, which composition of a fixed list does not cover.
        """
        if not charged:
            return Spend()
        if rule != "basic":
            spend = mu_spend(charged) if rule == "gdp" else rdp_spend(charged, self._order)
        elif reserved.delta == 0 and _all_pure(charged):
            spend = basic_spend(charged)
        else:
            return reserved
        return self.converted(spend, charged, steps, rule)
