"""Ledgers of format 1, brought forward.

Format 1 kept a line for every (data, unit, adjacency), where the data of the estimators were named
by their role ("data", "source", "target"), not by what they were: one row could be spent on four
lines that never met. Nobody can tell afterwards which of these runs used the same data, so all of
them are counted on one data set, as if they had. What was under-counted then shows now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tacit.privacy._book import UNNAMED
from tacit.privacy._budget import Budget, spend_to_json
from tacit.privacy._chain import Chain, Entry
from tacit.privacy.accounting.filters import Spend, mu_spend, total_cost
from tacit.privacy.accounting.leaves import Leaves, event_from_json
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["bring_forward"]

_ROLES = ("data", "source", "target")


@dataclass(frozen=True)
class _Line:
    data: str
    unit: Unit
    adjacency: Adjacency
    rule: str
    spends: tuple[tuple[Spend, Leaves], ...]
    n_runs: int
    n_charges: int


def bring_forward(chain: Chain, budget: Budget, rule: str) -> None:
    """Append to a file of format 1 what it amounts to, and make it one of the present format.

    Guarantee: what is brought forward is at least what the runs in the file cost together, on any
    data set and for either unit, if each cost what its own line said. Runs that were not closed
    count in full for ever. The old entries stay in the chain, so a head noted earlier is still
    found.
    """

    def body(entries: list[Entry]) -> dict[str, Any]:
        return _amount(_lines(entries), budget, rule)

    chain.upgrade(body)


def _spend(fields: dict[str, Any]) -> Spend:
    """Return a spend of format 1, whose sums of μ² were rounded to the nearest float."""
    values = {key: float(value) for key, value in fields.items()}
    square = values.pop("mu_squared")
    if math.isinf(square):
        return Spend(epsilon=math.inf)
    return Spend(mu_squared=Fraction(square * (1 + 1e-12)), **values)


def _lines(entries: Iterable[Entry]) -> list[_Line]:
    lines: dict[int, dict[str, Any]] = {}
    spends: dict[int, dict[int, tuple[Spend, Leaves]]] = {}
    charges: dict[int, int] = {}
    for entry in entries:
        run = entry.reservation or entry.number
        if entry.kind == "line":
            lines[entry.number], spends[entry.number] = entry.body, {}
        elif entry.kind == "reserve":
            events = entry.body["events"].items()
            parts = tuple((event_from_json(text), int(count)) for text, count in events)
            spends[entry.line][run] = _spend(entry.body["spend"]), parts
        elif entry.kind == "close":
            spends[entry.line][run] = _spend(entry.body["spend"]), spends[entry.line][run][1]
        elif entry.kind == "charge":
            count = sum(int(part) for part in entry.body["events"].values())
            charges[entry.line] = charges.get(entry.line, 0) + count
    return [
        _Line(
            data=UNNAMED if body["data"] in _ROLES else body["data"],
            unit=Unit(body["unit"]),
            adjacency=Adjacency(body["adjacency"]),
            rule=body["rule"],
            spends=tuple(spends[number].values()),
            n_runs=len(spends[number]),
            n_charges=charges.get(number, 0),
        )
        for number, body in lines.items()
    ]


def _amount(lines: list[_Line], budget: Budget, rule: str) -> dict[str, Any]:
    adjacency: dict[Unit, Adjacency] = {}
    for unit in Unit:
        used = {line.adjacency for line in lines if line.unit is unit}
        if used:
            # Whatever differs meets at replace-one, to which the others convert.
            adjacency[unit] = used.pop() if len(used) == 1 else Adjacency.REPLACE_ONE
    common = _common_rule(lines) or rule
    claims = []
    for line in lines:
        steps = 1 if line.adjacency is adjacency[line.unit] else 2
        counts = {"n_runs": line.n_runs, "n_charges": line.n_charges}
        for spend, parts in _under(line, common, budget):
            counted = budget.converted(spend, parts, steps, common)
            claim: dict[str, Any] = {
                "data": line.data,
                "unit": line.unit.value,
                "spend": spend_to_json(counted),
                **counts,
            }
            counts = {"n_runs": 0, "n_charges": 0}  # the line's first claim carries them
            if line.unit is Unit.TASK:
                for_rows = 1 if line.adjacency is Adjacency.REPLACE_ONE else 2
                rows = budget.converted(spend, parts, for_rows, common)
                claim["rows"] = spend_to_json(rows)
            claims.append(claim)
    return {
        "rule": None if common == "auto" else common,
        "adjacency": {unit.value: chosen.value for unit, chosen in adjacency.items()},
        "claims": claims,
    }


def _common_rule(lines: list[_Line]) -> str | None:
    """Return the rule under which lines of different rules can be added up; None for no lines."""
    rules = {line.rule for line in lines}
    if len(rules) < 2:
        return rules.pop() if rules else None
    basic = [spend for line in lines if line.rule == "basic" for spend, _ in line.spends]
    return "gdp" if all(spend.delta == 0 for spend in basic) else "basic"


def _under(line: _Line, rule: str, budget: Budget) -> list[tuple[Spend, Leaves]]:
    """Return the spends of ``line`` under ``rule``."""
    if line.rule == rule:
        return list(line.spends)
    if rule == "gdp":
        return [(_as_square(spend), parts) for spend, parts in line.spends]
    # All runs of a Gaussian line together are (ε, δ)-DP at the file's δ.
    total = total_cost(line.rule, [s for s, _ in line.spends], budget.epsilon, budget.delta)
    return [(Spend(epsilon=total.epsilon, delta=total.delta), ())] if line.spends else []


def _as_square(spend: Spend) -> Spend:
    from tacit.privacy.events import EpsilonDeltaDpEvent

    if math.isinf(spend.epsilon) or spend.epsilon == 0:
        return spend
    return mu_spend(((EpsilonDeltaDpEvent(spend.epsilon), 1),))
