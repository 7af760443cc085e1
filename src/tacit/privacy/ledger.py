"""The ledger: a durable record of what was spent, on which data, for which unit."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tacit import _check
from tacit.errors import InvalidInput, LedgerError
from tacit.privacy._book import UNNAMED, Book
from tacit.privacy._budget import Budget
from tacit.privacy._chain import Chain, finite_or_text
from tacit.privacy._forward import bring_forward
from tacit.privacy._pricing import Part, Request, check_data, priced
from tacit.privacy._records import RunRecord, run_records
from tacit.privacy._reservation import Reservation
from tacit.privacy._runs import Runs
from tacit.privacy.accounting.composition import Cost, check_sampling
from tacit.privacy.accounting.filters import RULES, remaining, total_cost
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon
from tacit.privacy.accounting.leaves import Event, leaves
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["Ledger", "Line", "Reservation", "RunRecord", "refuse_other_ledger"]

_RUN_LENGTH = 32


@dataclass(frozen=True)
class Line:
    """One budget line: all that was spent on one data set, for one unit.

    ``n_row_runs`` of a line for tasks are the runs on the same data whose unit is a row. They
    promise a task as a whole nothing (k rows make it k times their ε), and ``spent`` is without
    them.
    """

    data: str
    unit: Unit
    adjacency: Adjacency
    rule: str
    spent: Cost
    left: Cost
    n_reservations: int
    n_charges: int
    n_row_runs: int = 0


class Ledger:
    """What was spent, on which data, for which unit; refuses what exceeds the total.

    Guarantee: on every line (data set, unit) all runs whose unit it is, or whose unit is the task
    where the line's is the row, also runs chosen from earlier runs' releases and runs interleaved
    in many processes, are together (ε, δ)-DP for the total (ε, δ) of the file, provided that every
    release is charged here and that data sets with different names have no row in common. A run
    that names no data counts on every line. A refusal comes before any data are touched and
    changes nothing. The file survives ``kill -9`` at any instant with the spend at least what was
    published.

    Parameters
    ----------
    path : path or ":memory:"
    epsilon, delta : float, optional
        Totals of every line. Needed to create a file; when it exists they may be left out, and
        must agree if given. ``epsilon=float("inf")`` records without limit.
    rule : {"auto", "gdp", "rdp", "basic"}
        How runs add up; see `tacit.privacy.accounting.PrivacyFilter`. ``"auto"`` decides once for
        the file, at its first reservation (before anything was released): ``"gdp"`` if all its
        releases are Gaussian, else ``"basic"``, where every run counts with its own tight (ε, δ).

    Notes
    -----
    Reservation → charges → close. Closing gives back what is provably unused: with ``"gdp"``,
    ``"rdp"`` and sums of pure ε the releases that were not charged; a tight (ε, δ) of a whole run
    is kept in full unless nothing was charged, because when to stop may have depended on releases.

    The adjacency of each unit is that of its first run in the file. Later runs under add-or-remove
    or zero-out convert to replace-one, at 2ε and δ(1 + e^ε) or better; nothing else converts, and
    is refused.
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
            if self._chain.version == 1:
                bring_forward(self._chain, self._budget, self.rule)
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
        self._runs = Runs(self._chain, self._budget)
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

    def _book(self) -> Book:
        kinds = "kind IN ('line', 'reserve', 'close', 'forward')"
        try:
            return Book.of(self._chain.entries(kinds))
        except (KeyError, ValueError, TypeError, ArithmeticError) as error:
            raise LedgerError(
                f"{self.path}: an entry was edited ({error}); restore the file from a copy"
            ) from error

    def _charge_counts(self) -> dict[tuple[int, int], int]:
        """Return the number of charges by (reservation, line)."""
        counts: dict[tuple[int, int], int] = {}
        for entry in self._chain.entries("kind = 'charge'"):
            key = entry.reservation, entry.line
            counts[key] = counts.get(key, 0) + sum(entry.body["events"].values())
        return counts

    def _line(self, book: Book, charged: dict[tuple[int, int], int], data: str, unit: Unit) -> Line:
        spends, rule = book.spends(data, unit), book.rule or self.rule
        n_charges = 0
        for claim in book.on(data, unit):
            line = book.lines[claim.data, unit if claim.own else Unit.TASK]
            n_charges += claim.n_charges + charged.get((claim.reservation, line), 0)
        return Line(
            data=data,
            unit=unit,
            adjacency=book.adjacency.get(unit, Adjacency.REPLACE_ONE),
            rule=rule,
            spent=total_cost(rule, spends, self.epsilon, self.delta),
            left=remaining(rule, spends, self.epsilon, self.delta),
            n_reservations=sum(claim.n_runs for claim in book.on(data, unit)),
            n_charges=n_charges,
            n_row_runs=book.row_runs(data) if unit is Unit.TASK else 0,
        )

    def lines(self) -> tuple[Line, ...]:
        """Return every budget line that runs were held to, with what was spent and is left."""
        with self._chain.reading():
            book, charged = self._book(), self._charge_counts()
            return tuple(self._line(book, charged, *key) for key in book.lines)

    def runs(self) -> tuple[RunRecord, ...]:
        """Return every run: when it was, which method, on which data, at which price."""
        return run_records(self._chain, self.epsilon, self.delta)

    def marks(self, reservation: int) -> set[str]:
        """Return the hashes of what was charged to a run."""
        return self._runs.marks(reservation)

    def charged(self, run: str) -> set[str]:
        """Return the hashes of what was charged to the run of that identity."""
        return self._runs.charged(run)

    def notes(self) -> tuple[dict[str, Any], ...]:
        """Return what was written down with `note`, in order."""
        return tuple(entry.body for entry in self._chain.entries("kind = 'note'"))

    def _matching(self, data: str | None, unit: Unit | str | None) -> list[Line]:
        """Return the lines asked for; with ``unit`` also one that no run was held to yet."""
        with self._chain.reading():
            book, charged = self._book(), self._charge_counts()
            names = book.names if data is None else (data,)
            units = tuple(Unit) if unit is None else (Unit(unit),)
            return [
                self._line(book, charged, name, kind)
                for name in names or (UNNAMED,)
                for kind in units
                if unit is not None or book.limits(name, kind)
            ]

    def spent(self, data: str | None = None, unit: Unit | str | None = None) -> Cost:
        """Return what was spent; open reservations count in full.

        Of several lines that match (by default all), it is the one with the most spent. For
        ``unit="row"`` runs with the task as unit count too.
        """
        spent = [line.spent for line in self._matching(data, unit)]
        nothing = Cost(0.0, 0.0, self.rule)
        return max(spent, key=lambda cost: (cost.epsilon, cost.delta), default=nothing)

    def left(self, data: str | None = None, unit: Unit | str | None = None) -> Cost:
        """Return the (ε, δ) to which one more run may be calibrated, on every line that matches."""
        left = [line.left for line in self._matching(data, unit)]
        if not left:
            return Cost(self.epsilon, self.delta, self.rule)
        return Cost(
            min(cost.epsilon for cost in left), min(cost.delta for cost in left), left[0].accountant
        )

    # -- spending --------------------------------------------------------------------------------

    def reserve(
        self,
        events: Event | Iterable[Event],
        *,
        unit: Unit | str,
        adjacency: Adjacency | str,
        data: str | None = None,
        delta: float | None = None,
        rows: Event | Iterable[Event] | None = None,
        rows_delta: float | None = None,
        label: str = "",
        run: str | None = None,
    ) -> Reservation:
        """Set budget aside for all releases of a run, on every line, or raise `BudgetExceeded`.

        Parameters
        ----------
        events : event or iterable of events
            Every release the run may make, their noise fixed now.
        data : str, optional
            Name of the data set, which shares no row with data of another name. None may be any
            of them, and counts on every line.
        delta : float, optional
            The run's own share of δ, used where its (ε, δ) is composed as a whole.
        rows, rows_delta : events and share of δ, optional
            With the task as unit: row noise that is drawn once, before any message is made.
            Everything released is then computed from these messages, so rows are charged this
            in place of ``events``. Charge it with `Reservation.charge_rows` first.
        run : str, optional
            The run's identity, a secret of whoever runs it (32 random hex digits), so that it is
            known, for `resume`, before anything is set aside.
        """
        unit, adjacency = Unit(unit), Adjacency(adjacency)
        if rows is not None and unit is not Unit.TASK:
            raise InvalidInput("rows: is for runs with unit='task'; give the events of the run")
        asked = Request(
            parts=leaves(events),
            rows=None if rows is None else leaves(rows),
            unit=unit,
            adjacency=adjacency,
            data=check_data(data),
            delta=None if delta is None else check_delta(delta),
            rows_delta=None if rows_delta is None else check_delta(rows_delta),
            run=run,
        )
        if run is not None and len(run) < _RUN_LENGTH:
            raise InvalidInput(f"run: {len(run)} characters; give 32 random hex digits")
        check_sampling(asked.parts + (asked.rows or ()), adjacency, "participants")
        # Priced once outside: a slow accountant fills its cache before the file is held.
        self._priced(asked, self._book())
        with self._chain.writing():
            book = self._book()
            rule, parts = self._priced(asked, book)
            return self._runs.begin(asked, parts, book, rule, label)

    def _priced(self, asked: Request, book: Book) -> tuple[str, list[Part]]:
        """Return the rule and what the run takes, once it is known to fit on every line."""
        everything = asked.parts + (asked.rows or ())
        first = self._budget.rule_for(everything) if self.rule == "auto" else self.rule
        rule = book.rule or first
        return rule, priced(asked, book, self._budget, rule, self.path)

    def resume(self, run: str, *, settled: bool = False) -> Reservation:
        """Take over the open reservation of ``run``, with what is left of it, in a new process.

        Guarantee: nothing is reserved or given back. What was charged stays charged, whether it
        was published or not, and from here on only the reservation returned can charge: the
        process that held the run before, if it still lives, is refused. With ``settled`` a run
        that was closed is returned as well, for its record: nothing can be charged to it.

        Raises `LedgerError` if there is no such run, or if it was settled.
        """
        return self._runs.take_over(run, settled=settled)

    def knows(self, run: str) -> bool:
        """Whether budget was ever set aside for ``run``."""
        return self._runs.known(run)

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
        return self._runs.settle_open()

    def note(self, body: dict[str, Any]) -> None:
        """Write something down in the chain; it spends nothing and can never be taken back."""
        with self._chain.writing():
            self._chain.append("note", body)

    def seal(self, reservation: int, body: dict[str, Any]) -> None:
        """Write down, in the chain, what the files of a run amount to; see ``tacit verify``."""
        with self._chain.writing():
            self._chain.append("seal", body, reservation=reservation)

    @property
    def identity(self) -> str:
        """Hash of the first entry, by which a file that was moved or copied is known again."""
        return self._chain.hash_of(1)

    def holds(self, head: str) -> bool:
        """Whether ``head`` is the hash of one of the entries."""
        return self._chain.holds(head)

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


def refuse_other_ledger(
    brought: Ledger | str | os.PathLike[str] | None,
    charged: Ledger | str | os.PathLike[str] | None,
) -> None:
    """Refuse an estimator that brings a ledger where another one, or none, is charged instead."""
    if brought is not None and _file(brought) != _file(charged):
        raise InvalidInput(
            f"ledger={charged!r}: the estimator brings {brought!r}, which would not be charged for "
            "its fits; give that one here, or an estimator without"
        )


def _file(ledger: Ledger | str | os.PathLike[str] | None) -> object:
    """Return what one and the same ledger has in common, however it is given."""
    if isinstance(ledger, Ledger):
        return ledger if ledger.path == ":memory:" else os.path.abspath(ledger.path)
    return None if ledger is None else os.path.abspath(ledger)
