"""The runs of a ledger as an officer reads them: when, what, for whom, at which price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tacit.privacy._budget import spend_from_json
from tacit.privacy._chain import Chain, Entry
from tacit.privacy.accounting.composition import Cost
from tacit.privacy.accounting.filters import total_cost
from tacit.privacy.unit import Unit

__all__ = ["RunRecord", "run_records"]


@dataclass(frozen=True)
class RunRecord:
    """One run.

    ``cost`` is what it costs alone, for its own unit: what it set aside while it is open, what it
    kept when it ended. ``seal`` is what was written down about its files, if anything was.
    """

    number: int
    label: str
    data: str
    unit: Unit
    began: str
    ended: str | None
    cost: Cost
    n_charges: int
    seal: dict[str, Any] | None = None


def run_records(chain: Chain, epsilon: float, delta: float) -> tuple[RunRecord, ...]:
    """Return every run of the chain in order, but for those brought forward from format 1."""
    with chain.reading():
        entries = chain.entries()
    by_number = {entry.number: entry for entry in entries}
    first = [e for e in entries if e.kind == "reserve" and not e.reservation and "run" in e.body]
    later: dict[int, list[Entry]] = {}
    for entry in entries:
        later.setdefault(entry.reservation, []).append(entry)
    return tuple(
        _record(entry, by_number[entry.line].body, later.get(entry.number, []), epsilon, delta)
        for entry in first
    )


def _record(
    entry: Entry, line: dict[str, Any], later: list[Entry], epsilon: float, delta: float
) -> RunRecord:
    own = [part for part in later if part.line in (entry.line, 0)]
    closed = next((part for part in own if part.kind == "close"), None)
    spend = spend_from_json((closed or entry).body["spend"])
    seals = [part.body for part in later if part.kind == "seal"]
    charges = (part.body["events"] for part in own if part.kind == "charge")
    return RunRecord(
        number=entry.number,
        label=str(entry.body.get("label", "")),
        data=str(line["data"]),
        unit=Unit(line["unit"]),
        began=str(entry.body.get("time", "")),
        ended=None if closed is None else str(closed.body["time"]),
        cost=total_cost(line["rule"], [spend], epsilon, delta),
        n_charges=sum(sum(events.values()) for events in charges),
        seal=seals[-1] if seals else None,
    )
