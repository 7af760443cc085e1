"""What the entries of a ledger add up to: claims of runs on data sets, by unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from tacit.errors import InvalidInput
from tacit.privacy._budget import spend_from_json
from tacit.privacy._chain import Entry
from tacit.privacy.accounting.filters import Spend
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["UNNAMED", "Book", "Claim", "neighbour_steps"]

UNNAMED = "unnamed"
"""The data set of runs that name none: it may be any of the others."""


@dataclass(frozen=True)
class Claim:
    """What one run, or several brought forward, takes from the lines of one data set and unit.

    ``own`` is False where a run with the task as unit is counted for rows.
    """

    reservation: int
    data: str
    unit: Unit
    spend: Spend
    own: bool = True
    n_runs: int = 1
    n_charges: int = 0


def neighbour_steps(counted: Adjacency, stated: Adjacency, unit: Unit, path: str) -> int:
    """Return how many steps of the ``stated`` adjacency one step of the ``counted`` one takes.

    Guarantee: a unit replaced is a unit taken out (or blanked) and another put in, so what is
    stated for add-or-remove or zero-out holds for replace-one at two steps. Nothing follows the
    other way: replace-one keeps the number of units, which may itself be what was published.
    """
    if counted is stated:
        return 1
    if counted is Adjacency.REPLACE_ONE:
        return 2
    raise InvalidInput(
        f"adjacency={stated.value!r}: {path} counts {unit.value}s under {counted.value!r} since "
        f"its first run, and nothing follows from {stated.value!r} for that; state the run under "
        f"{counted.value!r}, or keep a ledger whose first run is under 'replace-one', to which "
        "the others convert"
    )


@dataclass
class Book:
    """A ledger at one instant: the rule, the adjacency of each unit, and every run's claim.

    Guarantee: `spends` of a data set and unit holds every run that may have used these data and
    says something about that unit: runs that name the data, runs that name none, and for rows also
    the runs whose unit is the task. A task that is replaced may differ in one row only, so a
    guarantee for a task is one for each of its rows.
    """

    rule: str | None = None
    adjacency: dict[Unit, Adjacency] = field(default_factory=dict)
    lines: dict[tuple[str, Unit], int] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Book:
        """Read the lines, reservations, closings and what was brought forward, in order."""
        book, latest = cls(), dict[tuple[int, int], Entry]()
        owner: dict[int, tuple[str, Unit]] = {}
        for entry in entries:
            if entry.kind == "forward":
                book, latest, owner = cls(), {}, {}
                book._bring_forward(entry)
            elif entry.kind == "line":
                key = entry.body["data"], Unit(entry.body["unit"])
                book.lines[key] = entry.number
                owner[entry.number] = key
                book.rule = entry.body["rule"]
                book.adjacency[key[1]] = Adjacency(entry.body["adjacency"])
            elif entry.line in owner:
                latest[entry.line, entry.reservation or entry.number] = entry
        for (line, reservation), entry in latest.items():
            book.claims += _claims(reservation, *owner[line], entry)
        return book

    def _bring_forward(self, entry: Entry) -> None:
        self.rule = entry.body["rule"]
        for unit, adjacency in entry.body["adjacency"].items():
            self.adjacency[Unit(unit)] = Adjacency(adjacency)
        for part in entry.body["claims"]:
            key = part["data"], Unit(part["unit"])
            self.lines[key] = entry.number
            runs, charges = int(part["n_runs"]), int(part["n_charges"])
            for claim in _claims(0, *key, replace(entry, body=part)):
                self.claims.append(replace(claim, n_runs=runs, n_charges=charges))

    @property
    def names(self) -> tuple[str, ...]:
        """Every data set with a line, in order of first use."""
        return tuple(dict.fromkeys(data for data, _ in self.lines))

    def limits(self, data: str, unit: Unit) -> bool:
        """Return whether runs on ``data`` are held to the total for ``unit``.

        Rows are from the first run that promises them something: a run whose unit is the task, and
        which is stated for tasks alone, is not refused for what that means for rows.
        """
        return (data, unit) in self.lines or (UNNAMED, unit) in self.lines

    def on(self, data: str, unit: Unit) -> Iterator[Claim]:
        """Yield the claims that count for ``data`` and ``unit``."""
        return (c for c in self.claims if c.unit is unit and c.data in (data, UNNAMED))

    def spends(self, data: str, unit: Unit) -> list[Spend]:
        """Return what was taken from the line of ``data`` and ``unit``."""
        return [claim.spend for claim in self.on(data, unit)]

    def touched(self, data: str) -> tuple[str, ...]:
        """Return every data set that a run on ``data`` may have used."""
        return (data,) if data != UNNAMED else tuple(dict.fromkeys((UNNAMED, *self.names)))

    def row_runs(self, data: str) -> int:
        """Return the number of runs on ``data`` that promise rows something, and tasks nothing."""
        tasks = {claim.reservation for claim in self.on(data, Unit.TASK) if claim.reservation}
        rows = (claim for claim in self.on(data, Unit.ROW) if claim.own)
        return sum(claim.n_runs for claim in rows if claim.reservation not in tasks)


def _claims(reservation: int, data: str, unit: Unit, entry: Entry) -> Iterator[Claim]:
    spend = spend_from_json(entry.body["spend"])
    yield Claim(reservation, data, unit, spend)
    rows = entry.body.get("rows")
    # None: this run protects rows by noise of their own, claimed on the row line itself.
    if unit is Unit.TASK and rows is not None:
        yield Claim(reservation, data, Unit.ROW, spend_from_json(rows), own=False)
