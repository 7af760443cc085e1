"""The runs of a ledger: how they begin, are charged, change hands and end."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tacit.errors import LedgerError
from tacit.privacy._book import Book
from tacit.privacy._budget import Budget, spend_from_json, spend_to_json
from tacit.privacy._chain import Chain, Entry
from tacit.privacy._pricing import Part, Request, cost_for_rows
from tacit.privacy._reservation import Reservation
from tacit.privacy.accounting.composition import Cost
from tacit.privacy.accounting.filters import Spend, total_cost
from tacit.privacy.accounting.leaves import Leaves, event_from_json, event_to_json
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["Runs"]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _counts(parts: Leaves) -> dict[str, int]:
    return {event_to_json(event): count for event, count in parts}


def _spends(spend: Spend, rows: Spend | None) -> dict[str, Any]:
    return {"spend": spend_to_json(spend), "rows": rows and spend_to_json(rows)}


@dataclass(frozen=True)
class Runs:
    """The entries of runs in one chain.

    Guarantee: a charge is on disk when `charge` returns, was made by the run's last holder, and
    belongs to a run that is not closed. What a run ends with is at least what it charged.
    """

    chain: Chain
    budget: Budget

    def begin(
        self, asked: Request, parts: list[Part], book: Book, rule: str, label: str
    ) -> Reservation:
        """Append a priced request, inside a `writing` block, and return its reservation."""
        run, holder = asked.run or secrets.token_hex(16), secrets.token_hex(16)
        if self._reserved(run):
            raise LedgerError(f"{self.chain.path}: run {run!r} is in this file; resume it")
        number, lines = 0, {}
        for part in parts:
            lines[part.unit] = self._line(book, asked.data, part, rule)
            body = {
                **_spends(part.spend, part.rows),
                "run": run,
                "holder": holder,
                "events": _counts(part.parts),
                "steps": part.steps,
                "stated": asked.adjacency.value,
                "label": label,
                "time": _now(),
            }
            added = self.chain.append("reserve", body, line=lines[part.unit], reservation=number)
            number = number or added
        return Reservation(
            runs=self,
            number=number,
            run=run,
            data=asked.data,
            unit=asked.unit,
            adjacency=asked.adjacency,
            cost=self._cost(rule, parts[0].spend),
            left={part.unit: _counts(part.parts) for part in parts},
            holder=holder,
            lines=lines,
        )

    def _line(self, book: Book, data: str, part: Part, rule: str) -> int:
        known = book.lines.get((data, part.unit))
        if known is not None and self._entry(known).kind == "line":
            return known
        body = {"data": data, "unit": part.unit.value, "rule": rule}
        return self.chain.append("line", {**body, "adjacency": part.adjacency.value})

    def _entry(self, number: int) -> Entry:
        return self.chain.entries("number = ?", (number,))[0]

    def _cost(self, rule: str, spend: Spend) -> Cost:
        return total_cost(rule, [spend], self.budget.epsilon, self.budget.delta)

    def _reserved(self, run: str) -> list[Entry]:
        reserved = self.chain.entries("kind = 'reserve'")
        return [entry for entry in reserved if entry.body.get("run") == run]

    def known(self, run: str) -> bool:
        """Whether the file holds ``run``, open or settled."""
        return bool(self._reserved(run))

    def take_over(self, run: str, *, settled: bool = False) -> Reservation:
        """Make the caller the holder of an open run; see `Ledger.resume`."""
        with self.chain.writing():
            found = self._reserved(run)
            if not found:
                raise LedgerError(
                    f"{self.chain.path}: no run {run!r}; give Reservation.run of one in this file"
                )
            main, holder = found[0], secrets.token_hex(16)
            closed = self._closed(main.number)
            if closed and not settled:
                self._refuse_closed(main.number)
            units = {Unit(self._entry(entry.line).body["unit"]): entry for entry in found}
            left = {unit: self._uncharged(main.number, entry) for unit, entry in units.items()}
            if not closed:
                body = {"holder": holder, "time": _now()}
                self.chain.append("hold", body, line=main.line, reservation=main.number)
            line = self._entry(main.line).body
        return Reservation(
            runs=self,
            number=main.number,
            run=run,
            data=line["data"],
            unit=Unit(line["unit"]),
            adjacency=Adjacency(main.body["stated"]),
            cost=self._cost(line["rule"], spend_from_json(main.body["spend"])),
            left=left,
            holder=holder,
            lines={unit: entry.line for unit, entry in units.items()},
            marks=self.marks(main.number),
            closed=closed,
        )

    def marks(self, reservation: int) -> set[str]:
        """Return the hashes of what was charged to a run."""
        charges = self.chain.entries("reservation = ? AND kind = 'charge'", (reservation,))
        return {entry.body["mark"] for entry in charges if "mark" in entry.body}

    def charged(self, run: str) -> set[str]:
        """Return the hashes of what was charged to ``run``."""
        reserved = self._reserved(run)
        return self.marks(reserved[0].number) if reserved else set()

    def _uncharged(self, reservation: int, entry: Entry) -> dict[str, int]:
        charged = self._charged(reservation, entry.line)
        return {text: count - charged.get(text, 0) for text, count in entry.body["events"].items()}

    def _closed(self, reservation: int) -> bool:
        return bool(self.chain.entries("reservation = ? AND kind = 'close'", (reservation,)))

    def _refuse_closed(self, reservation: int) -> None:
        if self._closed(reservation):
            raise LedgerError(
                f"{self.chain.path}: reservation {reservation} is closed; reserve again"
            )

    def _holder(self, reservation: int) -> str:
        """Return who holds the reservation: the last who took it over, or who made it."""
        where = "number = ? OR (reservation = ? AND kind = 'hold')"
        return str(self.chain.entries(where, (reservation, reservation))[-1].body["holder"])

    def charge(
        self, reservation: Reservation, line: int, events: dict[str, int], mark: str | None
    ) -> None:
        """Append a charge, or raise `LedgerError` if the run is closed or in other hands."""
        number = reservation.number
        with self.chain.writing():
            self._refuse_closed(number)
            if self._holder(number) != reservation.holder:
                raise LedgerError(
                    f"{self.chain.path}: reservation {number} was taken over by another process; "
                    "publish nothing more here"
                )
            body: dict[str, Any] = {"events": events} | ({} if mark is None else {"mark": mark})
            self.chain.append("charge", body, line=line, reservation=number)

    def _charged(self, reservation: int, line: int) -> dict[str, int]:
        counts: dict[str, int] = {}
        where = "reservation = ? AND line = ? AND kind = 'charge'"
        for entry in self.chain.entries(where, (reservation, line)):
            for text, count in entry.body["events"].items():
                counts[text] = counts.get(text, 0) + int(count)
        return counts

    def close(self, reservation: Reservation) -> None:
        """Settle a run, if it is still the caller's."""
        with self.chain.writing():
            if self._holder(reservation.number) == reservation.holder:
                self._settle(reservation.number)

    def settle_open(self) -> int:
        """Settle every run that was not closed, whoever holds it, and return their number."""
        with self.chain.writing():
            closed = {entry.reservation for entry in self.chain.entries("kind = 'close'")}
            reserved = self.chain.entries("kind = 'reserve' AND reservation = 0")
            opened = [e.number for e in reserved if "run" in e.body and e.number not in closed]
            for number in opened:
                self._settle(number)
        return len(opened)

    def _settle(self, reservation: int) -> None:
        """Append the final spends of a reservation: what was charged, where that is sound."""
        if self._closed(reservation):
            return
        where = "kind = 'reserve' AND (number = ? OR reservation = ?)"
        for entry in self.chain.entries(where, (reservation, reservation)):
            line = self._entry(entry.line).body
            rule, final = line["rule"], spend_from_json(entry.body["spend"])
            rows = entry.body["rows"] and spend_from_json(entry.body["rows"])
            charged = self._charged(reservation, entry.line)
            if charged != entry.body["events"]:
                parts = tuple((event_from_json(text), count) for text, count in charged.items())
                final = self.budget.settled(rule, final, parts, entry.body["steps"])
                counted = Adjacency(line["adjacency"])
                rows = rows and cost_for_rows(self.budget, final, parts, counted, rule)
            self.chain.append(
                "close",
                {**_spends(final, rows), "time": _now()},
                line=entry.line,
                reservation=reservation,
            )
