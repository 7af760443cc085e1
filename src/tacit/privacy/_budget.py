"""What a run takes from a budget line, before and after it happened."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tacit.errors import BudgetExceeded
from tacit.privacy._chain import finite_or_text
from tacit.privacy.accounting.composition import compose
from tacit.privacy.accounting.curves import response_parameter
from tacit.privacy.accounting.filters import (
    Spend,
    basic_spend,
    mu_squared,
    rdp_order,
    rdp_spend,
    remaining,
    total_cost,
)
from tacit.privacy.accounting.leaves import Leaves, kind, repeated
from tacit.privacy.unit import Adjacency

__all__ = ["Budget", "spend_from_json", "spend_to_json"]

# A pure-ε run is kept at δ = 0 unless its tight composition at δ saves more than this share of ε.
_WORTH_A_DELTA = 0.01


def spend_to_json(spend: Spend) -> dict[str, float | str]:
    """Return ``spend`` as JSON fields."""
    return {key: finite_or_text(value) for key, value in asdict(spend).items()}


def spend_from_json(fields: Mapping[str, Any]) -> Spend:
    """Return the spend that `spend_to_json` wrote."""
    return Spend(**{key: float(value) for key, value in fields.items()})


def _all_pure(parts: Leaves) -> bool:
    return all(response_parameter(event) is not None for event, _ in parts)


@dataclass(frozen=True)
class Budget:
    """A total of (ε, δ) for one line, and the prices of runs on it.

    Guarantee: runs that `check` lets pass are (ε, δ)-DP together even when each was chosen from
    the releases of those before it; see `tacit.privacy.accounting.filters`.
    """

    epsilon: float
    delta: float

    def rule_for(self, parts: Leaves) -> str:
        """Return the rule for a line whose first run is ``parts``."""
        plain = all(kind(event) == "gaussian" for event, _ in parts)
        limited = self.delta > 0 and math.isfinite(self.epsilon)
        return "gdp" if plain and limited else "basic"

    def price(
        self,
        rule: str,
        parts: Leaves,
        taken: list[Spend],
        share: float | None,
        adjacency: Adjacency,
    ) -> Spend:
        """Return what a run of ``parts`` takes from a line where ``taken`` is gone."""
        if rule == "gdp":
            return Spend(mu_squared=mu_squared(parts))
        if rule == "rdp":
            return Spend(rdp=rdp_spend(parts, rdp_order(self.epsilon, self.delta)))
        return self._basic(parts, taken, share, adjacency)

    def _basic(
        self, parts: Leaves, taken: list[Spend], share: float | None, adjacency: Adjacency
    ) -> Spend:
        """Return the run's own tight (ε, δ).

        The share of δ is what the caller asks for; else half of what is left if the run then fits
        (so that later runs find some), else all of it.
        """
        free = max(0.0, self.delta - total_cost("basic", taken, self.epsilon, self.delta).delta)
        best = Spend(epsilon=math.inf)
        for delta in (0.5 * free, free) if share is None else (share,):
            cost = compose(repeated(parts), delta=delta, adjacency=adjacency)
            best = Spend(epsilon=cost.epsilon, delta=delta)
            if self._fits("basic", [*taken, best]):
                break
        if _all_pure(parts):
            plain = basic_spend(parts)
            worthless = plain.epsilon * (1 - _WORTH_A_DELTA) <= best.epsilon
            if worthless and self._fits("basic", [*taken, plain]):
                return plain
        return best

    def _fits(self, rule: str, spends: list[Spend]) -> bool:
        total = total_cost(rule, spends, self.epsilon, self.delta)
        return total.epsilon <= self.epsilon and total.delta <= self.delta

    def check(self, rule: str, taken: list[Spend], spend: Spend, path: str) -> None:
        """Raise `BudgetExceeded` unless ``spend`` fits beside what is ``taken``."""
        if self._fits(rule, [*taken, spend]):
            return
        asked = total_cost(rule, [spend], self.epsilon, self.delta)
        left = remaining(rule, taken, self.epsilon, self.delta)
        raise BudgetExceeded(
            f"asked for ε = {asked.epsilon:.6g}, δ = {asked.delta:.3g}; left is "
            f"ε = {left.epsilon:.6g}, δ = {left.delta:.3g} of a total of ε = {self.epsilon:.6g}, "
            f"δ = {self.delta:.3g} in {path} ({rule} rule); calibrate the run to what is left, "
            "or give it a smaller delta",
            asked=asked.epsilon,
            left=left.epsilon,
        )

    def settled(self, rule: str, reserved: Spend, charged: Leaves, adjacency: Adjacency) -> Spend:
        """Return what a run keeps that ended after ``charged``, fewer releases than reserved.

        Under a filter's rule and for sums of pure ε unused releases come back. A tight (ε, δ) of
        the whole run does not shrink unless nothing was released: when to stop may have depended
        on the releases, which composition of a fixed list does not cover.
        """
        if not charged:
            return Spend()
        if rule != "basic":
            return self.price(rule, charged, [], None, adjacency)
        return basic_spend(charged) if reserved.delta == 0 and _all_pure(charged) else reserved
