"""What the run cost: the budget release by release, and what a ledger has left."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.privacy.billboard import Billboard
    from tacit.privacy.ledger import Line
    from tacit.privacy.statement import Statement

__all__ = ["Account", "Step", "account_of", "steps_of"]

# Composing a prefix with numerical accountants takes up to a second; beyond this many releases
# only every n-th prefix is composed.
_MOST_PREFIXES = 40


@dataclass(frozen=True)
class Step:
    """One release: what it was, its public noise scale, and ε of all releases up to it."""

    number: int
    label: str
    shape: str
    scale: float | None
    epsilon: float | None  # cumulative
    sound: bool


@dataclass(frozen=True)
class Account:
    """A ledger's totals and lines, without the folder it lies in."""

    name: str
    epsilon: float
    delta: float
    lines: tuple[Line, ...]


def steps_of(
    billboard: Billboard | None, history: Sequence[dict[str, Any]], statement: Statement
) -> tuple[Step, ...]:
    """Return the releases in order; of ``history`` only round, mechanism and scale are read."""
    if billboard is None or not len(billboard):
        return tuple(
            Step(t + 1, str(row.get("mechanism", "release")), "", _scale(row), None, True)
            for t, row in enumerate(history)
            if "mechanism" in row
        )
    costs = _cumulative(billboard, statement)
    return tuple(
        Step(
            posting.number + 1,
            posting.label,
            " × ".join(map(str, posting.value.shape)) or "1",
            _scale(history[t]) if t < len(history) else None,
            costs.get(t),
            posting.sound,
        )
        for t, posting in enumerate(billboard)
    )


def _scale(row: dict[str, Any]) -> float | None:
    value = row.get("scale")
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _cumulative(billboard: Billboard, statement: Statement) -> dict[int, float]:
    """Return ε at the statement's δ after release t, at the statement's accountant."""
    if not statement.private:
        return {}
    from tacit.privacy.accounting import compose

    charged = billboard.charged
    stride = math.ceil(len(charged) / _MOST_PREFIXES)
    costs = {}
    for t, posting in enumerate(charged):
        if (len(charged) - 1 - t) % stride == 0:
            events = [earlier.event for earlier in charged[: t + 1]]
            cost = compose(events, delta=statement.delta, adjacency=statement.adjacency)
            costs[posting.number] = float(cost.epsilon)
    return costs


def account_of(ledger: Any) -> Account | None:
    """Read an open ledger, or a ledger file by its path."""
    from tacit.privacy.ledger import Ledger

    if ledger is None:
        return None
    if isinstance(ledger, Ledger):
        return _read(ledger)
    if not isinstance(ledger, str | os.PathLike):
        raise InvalidInput(f"ledger={ledger!r}: must be a Ledger or the path of one")
    with Ledger(ledger) as opened:
        return _read(opened)


def _read(ledger: Any) -> Account:
    name = "in memory" if str(ledger.path) == ":memory:" else Path(str(ledger.path)).name
    return Account(name, ledger.epsilon, ledger.delta, ledger.lines())
