"""The ledger: a durable record of what was spent, on which data, for which unit and adjacency."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from tacit import _check
from tacit.errors import BudgetExceeded, InvalidInput, LedgerError
from tacit.privacy._budget import Budget, spend_from_json, spend_to_json
from tacit.privacy._chain import Chain, Entry, finite_or_text
from tacit.privacy.accounting.composition import Cost, check_sampling
from tacit.privacy.accounting.filters import RULES, Spend, remaining, total_cost
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon
from tacit.privacy.accounting.leaves import (
    Event,
    Leaves,
    event_from_json,
    event_to_json,
    leaves,
)
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["Ledger", "Line", "Reservation"]


@dataclass(frozen=True)
class Line:
    """One budget line: the spend on one data set, for one unit and adjacency."""

    number: int
    data: str
    unit: Unit
    adjacency: Adjacency
    rule: str
    spent: Cost
    left: Cost
    n_reservations: int
    n_charges: int


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Reservation:
    """Budget set aside for one run; every release is charged to it before it is published.

    Guarantee: the whole reservation counts as spent from the moment it exists until it is closed,
    so a run that dies at any instant is over-counted, never under-counted. `charge` is on disk
    when it returns. Use it as a context manager, or call `close`.
    """

    def __init__(
        self,
        ledger: Ledger,
        line: int,
        number: int,
        parts: Leaves,
        cost: Cost,
        named: dict[str, str],
    ) -> None:
        self.ledger, self.number, self.cost, self._line = ledger, number, cost, line
        self.unit, self.adjacency = Unit(named["unit"]), Adjacency(named["adjacency"])
        self.data = named["data"]
        self._left = {event_to_json(event): count for event, count in parts}
        self.closed = False

    def charge(self, event: Event) -> None:
        """Record, durably, that ``event`` is about to be published.

        Raises
        ------
        BudgetExceeded
            If ``event`` was not reserved, or not that often.
        LedgerError
            If this reservation or its ledger was closed.
        """
        asked = {event_to_json(part): count for part, count in leaves(event)}
        for text, count in asked.items():
            if count > self._left.get(text, 0):
                raise BudgetExceeded(
                    f"event {text}: asked {count} time(s), {self._left.get(text, 0)} left in "
                    f"reservation {self.number}; reserve every release before the run",
                    asked=float(count),
                    left=float(self._left.get(text, 0)),
                )
        self.ledger._charge(self.number, self._line, asked)
        for text, count in asked.items():
            self._left[text] -= count

    def close(self) -> None:
        """End the run and give back what can soundly be given back; closing twice is harmless."""
        if not self.closed:
            self.ledger._settle(self.number)
            self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Ledger:
    """What was spent, on which data, for which unit and adjacency; refuses what exceeds the total.

    Guarantee: on every line (data set, unit, adjacency) all runs together, also runs chosen from
    earlier runs' releases and runs interleaved in many processes, are (ε, δ)-DP for the total
    (ε, δ) of the file, provided that every release is charged here. A refusal comes before any
    data are touched. The file survives ``kill -9`` at any instant with the spend at least what was
    published. Lines of different adjacency or unit are not comparable and never added.

    Parameters
    ----------
    path : path or ":memory:"
    epsilon, delta : float, optional
        Totals of every line. Needed to create a file; when it exists they may be left out, and
        must agree if given. ``epsilon=float("inf")`` records without limit.
    rule : {"auto", "gdp", "rdp", "basic"}
        How runs add up; see `tacit.privacy.accounting.PrivacyFilter`. ``"auto"`` decides once for
        each line, at its first reservation (before anything was released): ``"gdp"`` if all its
        releases are Gaussian, else ``"basic"``, where every run counts with its own tight (ε, δ).

    Notes
    -----
    Reservation → charges → close. Closing gives back what is provably unused: with ``"gdp"``,
    ``"rdp"`` and sums of pure ε the releases that were not charged; a tight (ε, δ) of a whole run
    is kept in full unless nothing was charged, because when to stop may have depended on releases.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        epsilon: float | None = None,
        delta: float | None = None,
        *,
        rule: str = "auto",
    ) -> None:
        _check.one_of("rule", rule, ("auto", *RULES))
        first = None
        delta = None if delta is None else check_delta(delta)
        if epsilon is not None:
            epsilon = check_epsilon(epsilon)
            if rule in ("gdp", "rdp") and (not delta or math.isinf(epsilon)):
                raise InvalidInput(f"rule={rule!r}: needs 0 < δ and a finite ε; use rule='basic'")
            first = {"epsilon": finite_or_text(epsilon), "delta": delta or 0.0, "rule": rule}
        self._chain = Chain(path, first)
        self.path = self._chain.path
        try:
            self._read_totals(epsilon, delta, rule)
        except BaseException:
            self._chain.close()
            raise

    def _read_totals(self, epsilon: float | None, delta: float | None, rule: str) -> None:
        opened = self._chain.entries("number = 1")
        if not opened or opened[0].kind != "open" or "epsilon" not in opened[0].body:
            raise LedgerError(f"{self.path}: entry 1 was edited; restore the file from a copy")
        body = opened[0].body
        self.epsilon, self.delta = float(body["epsilon"]), float(body["delta"])
        self.rule, self._budget = str(body["rule"]), Budget(self.epsilon, self.delta)
        asked = (
            self.epsilon if epsilon is None else epsilon,
            self.delta if delta is None else delta,
        )
        if asked != (self.epsilon, self.delta):
            raise LedgerError(
                f"{self.path}: holds a total of ε = {self.epsilon!r}, δ = {self.delta!r}, not "
                f"ε = {asked[0]!r}, δ = {asked[1]!r}; leave them out, or use another file"
            )
        if rule not in ("auto", self.rule):
            raise LedgerError(
                f"{self.path}: adds up by rule {self.rule!r}, not {rule!r}; leave it out, or use "
                "another file"
            )

    # -- reading ---------------------------------------------------------------------------------

    def _spends(self, line: int) -> list[Spend]:
        """Return what every reservation of the line takes: as reserved, or as settled."""
        latest: dict[int, Spend] = {}
        for entry in self._chain.entries("line = ? AND kind IN ('reserve', 'close')", (line,)):
            latest[entry.reservation or entry.number] = spend_from_json(entry.body["spend"])
        return list(latest.values())

    def _line(self, entry: Entry) -> Line:
        spends = self._spends(entry.number)
        body = entry.body
        counted = self._chain.entries("line = ? AND kind = 'charge'", (entry.number,))
        return Line(
            number=entry.number,
            data=body["data"],
            unit=Unit(body["unit"]),
            adjacency=Adjacency(body["adjacency"]),
            rule=body["rule"],
            spent=total_cost(body["rule"], spends, self.epsilon, self.delta),
            left=remaining(body["rule"], spends, self.epsilon, self.delta),
            n_reservations=len(spends),
            n_charges=sum(sum(part.body["events"].values()) for part in counted),
        )

    def lines(self) -> tuple[Line, ...]:
        """Return every budget line with what was spent and what is left."""
        with self._chain.reading():
            return tuple(self._line(entry) for entry in self._chain.entries("kind = 'line'"))

    def _only(
        self, data: str | None, unit: Unit | str | None, adjacency: Adjacency | str | None
    ) -> Line | None:
        asked = {"data": data, "unit": unit, "adjacency": adjacency}
        wanted = {key: value for key, value in asked.items() if value is not None}
        found = [
            line
            for line in self.lines()
            if all(getattr(line, key) == value for key, value in wanted.items())
        ]
        if len(found) > 1:
            named = "; ".join(f"{line.data}, {line.unit}, {line.adjacency}" for line in found)
            raise LedgerError(
                f"{self.path}: several lines ({named}), whose budgets are not comparable; name "
                "data, unit and adjacency"
            )
        return found[0] if found else None

    def spent(
        self,
        data: str | None = None,
        unit: Unit | str | None = None,
        adjacency: Adjacency | str | None = None,
    ) -> Cost:
        """Return what the line that matches has spent; open reservations count in full."""
        line = self._only(data, unit, adjacency)
        return line.spent if line else Cost(0.0, 0.0, self.rule)

    def left(
        self,
        data: str | None = None,
        unit: Unit | str | None = None,
        adjacency: Adjacency | str | None = None,
    ) -> Cost:
        """Return the (ε, δ) to which one more run on the matching line may be calibrated."""
        line = self._only(data, unit, adjacency)
        return line.left if line else Cost(self.epsilon, self.delta, self.rule)

    # -- spending --------------------------------------------------------------------------------

    def reserve(
        self,
        events: Event | Iterable[Event],
        *,
        unit: Unit | str,
        adjacency: Adjacency | str,
        data: str = "data",
        delta: float | None = None,
        label: str = "",
    ) -> Reservation:
        """Set budget aside for all releases of a run, or raise `BudgetExceeded`.

        Parameters
        ----------
        events : event or iterable of events
            Every release the run may make, their noise fixed now.
        delta : float, optional
            The run's own share of δ, used where its (ε, δ) is composed as a whole.
        """
        parts = leaves(events)
        unit, adjacency = Unit(unit), Adjacency(adjacency)
        check_sampling(parts, adjacency, "participants")
        share = None if delta is None else check_delta(delta)
        # Priced once outside: a slow accountant fills its cache before the file is held.
        self._price_on_line(parts, unit, adjacency, data, share)
        with self._chain.writing():
            number, rule, taken, spend = self._price_on_line(parts, unit, adjacency, data, share)
            self._budget.check(rule, taken, spend, self.path)
            named = {"data": data, "unit": unit.value, "adjacency": adjacency.value}
            if number == 0:
                number = self._chain.append("line", {**named, "rule": rule})
            body = {
                "events": {event_to_json(event): count for event, count in parts},
                "spend": spend_to_json(spend),
                "label": label,
                "time": _now(),
            }
            reservation = self._chain.append("reserve", body, line=number)
        cost = total_cost(rule, [spend], self.epsilon, self.delta)
        return Reservation(self, number, reservation, parts, cost, named)

    def _price_on_line(
        self, parts: Leaves, unit: Unit, adjacency: Adjacency, data: str, share: float | None
    ) -> tuple[int, str, list[Spend], Spend]:
        """Return the line (0 if new), its rule, what it has spent, and what ``parts`` add."""
        number, taken = 0, list[Spend]()
        rule = self._budget.rule_for(parts) if self.rule == "auto" else self.rule
        for entry in self._chain.entries("kind = 'line'"):
            body = entry.body
            if (body["data"], body["unit"], body["adjacency"]) == (data, unit, adjacency):
                number, rule, taken = entry.number, body["rule"], self._spends(entry.number)
        return number, rule, taken, self._budget.price(rule, parts, taken, share, adjacency)

    def _charge(self, reservation: int, line: int, events: dict[str, int]) -> None:
        with self._chain.writing():
            if self._chain.entries("reservation = ? AND kind = 'close'", (reservation,)):
                raise LedgerError(
                    f"{self.path}: reservation {reservation} is closed; reserve again"
                )
            self._chain.append("charge", {"events": events}, line=line, reservation=reservation)

    def _charged(self, reservation: int) -> dict[str, int]:
        counts: dict[str, int] = {}
        for entry in self._chain.entries("reservation = ? AND kind = 'charge'", (reservation,)):
            for text, count in entry.body["events"].items():
                counts[text] = counts.get(text, 0) + int(count)
        return counts

    def _settle(self, reservation: int) -> None:
        """Append the final spend of a reservation: what was charged, where that is sound."""
        with self._chain.writing():
            if self._chain.entries("reservation = ? AND kind = 'close'", (reservation,)):
                return
            (entry,) = self._chain.entries("number = ?", (reservation,))
            (line,) = self._chain.entries("number = ?", (entry.line,))
            final = spend_from_json(entry.body["spend"])
            charged = self._charged(reservation)
            if charged != entry.body["events"]:
                parts = tuple((event_from_json(text), count) for text, count in charged.items())
                adjacency = Adjacency(line.body["adjacency"])
                final = self._budget.settled(line.body["rule"], final, parts, adjacency)
            self._chain.append(
                "close",
                {"spend": spend_to_json(final), "time": _now()},
                line=entry.line,
                reservation=reservation,
            )

    # -- care ------------------------------------------------------------------------------------

    def recover(self) -> int:
        """Settle reservations that were never closed, by what the chain shows was charged.

        Guarantee: nothing published goes uncounted, because a release is published only after its
        charge is on disk; a process that still runs finds its reservation closed at its next
        charge and publishes nothing more. The chain is verified first.

        Returns
        -------
        int
            The number of reservations settled.
        """
        self._chain.verify()
        with self._chain.reading():
            closed = {entry.reservation for entry in self._chain.entries("kind = 'close'")}
            reserved = [entry.number for entry in self._chain.entries("kind = 'reserve'")]
        opened = [number for number in reserved if number not in closed]
        for number in opened:
            self._settle(number)
        return len(opened)

    @property
    def head(self) -> str:
        """Hash of the last entry; note it elsewhere and give it to `verify` to show tampering."""
        return self._chain.head

    def verify(self, head: str | None = None) -> int:
        """Check the whole file: structure, every hash, the head; return the number of entries.

        Raises `LedgerError` naming the first entry that was edited or removed, or if a ``head``
        noted earlier is no longer in the chain.
        """
        return self._chain.verify(head)

    def close(self) -> None:
        """Close the file. Open reservations stay counted in full."""
        self._chain.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Ledger({self.path!r}, epsilon={self.epsilon!r}, delta={self.delta!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Ledger:
        """Return itself: a copied budget would be spent twice."""
        return self

    def __reduce__(self) -> tuple[type[Ledger], tuple[str]]:
        """Let other processes open the same file."""
        if self.path == ":memory:":
            raise LedgerError("a ledger in memory cannot leave its process; use a file")
        return Ledger, (self.path,)
