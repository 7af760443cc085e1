"""Budget set aside for one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tacit.errors import BudgetExceeded, LedgerError
from tacit.privacy.accounting.composition import Cost
from tacit.privacy.accounting.leaves import Event, event_to_json, leaves
from tacit.privacy.unit import Adjacency, Unit

if TYPE_CHECKING:
    from tacit.privacy._runs import Runs

__all__ = ["Reservation"]


@dataclass
class Reservation:
    """Budget set aside for one run; every release is charged to it before it is published.

    Guarantee: the whole reservation counts as spent from the moment it exists until it is closed,
    so a run that dies at any instant is over-counted, never under-counted. `charge` is on disk
    when it returns. One holder at a time can charge: `Ledger.resume` with ``run`` hands the
    reservation to a new process, and the old one can charge no more. Use it as a context manager,
    or call `close`.

    Attributes
    ----------
    run : str
        The run's identity, by which `Ledger.resume` finds it again.
    cost : Cost
        What the run costs alone, under its own unit.
    left : mapping of units to mappings of events (as JSON) to counts
        What was reserved and not charged yet.
    marks : set of str
        What was charged, by the hash of what it was charged for.
    """

    runs: Runs = field(repr=False)
    number: int
    run: str
    data: str
    unit: Unit
    adjacency: Adjacency
    cost: Cost
    left: Mapping[Unit, dict[str, int]]
    holder: str = field(repr=False)
    lines: Mapping[Unit, int] = field(repr=False)
    marks: set[str] = field(default_factory=set, repr=False)
    closed: bool = False

    def charge(self, event: Event, *, mark: str | None = None) -> None:
        """Record, durably, that ``event`` is about to be published.

        ``mark`` is a hash of what is published, kept with the charge, so that a release that was
        charged before a crash can be told from one that was not.

        Raises
        ------
        BudgetExceeded
            If ``event`` was not reserved, or not that often.
        LedgerError
            If this reservation or its ledger was closed, if another process took the run over, or
            if the row noise of the run was reserved and not charged yet.
        """
        if self.unit is Unit.TASK and any(self.left.get(Unit.ROW, {}).values()):
            raise LedgerError(
                f"reservation {self.number}: its row noise is not charged; call charge_rows first"
            )
        self._charge(self.unit, {event_to_json(part): n for part, n in leaves(event)}, mark)

    def charge_rows(self, *, mark: str | None = None) -> None:
        """Record, durably, that messages with the reserved row noise are about to be made."""
        self._charge(Unit.ROW, {text: n for text, n in self.left[Unit.ROW].items() if n}, mark)

    def note(self, *, mark: str) -> None:
        """Record, durably, what is about to be published at no cost beyond what was charged."""
        self._charge(self.unit, {}, mark)

    def _charge(self, unit: Unit, asked: dict[str, int], mark: str | None) -> None:
        left = self.left[unit]
        for text, count in asked.items():
            if count > left.get(text, 0):
                raise BudgetExceeded(
                    f"event {text}: asked {count} time(s), {left.get(text, 0)} left in "
                    f"reservation {self.number}; reserve every release before the run",
                    asked=float(count),
                    left=float(left.get(text, 0)),
                )
        self.runs.charge(self, self.lines[unit], asked, mark)
        if mark is not None:
            self.marks.add(mark)
        for text, count in asked.items():
            left[text] -= count

    def close(self) -> None:
        """End the run and give back what can soundly be given back; closing twice is harmless.

        A holder whose run was taken over settles nothing: the run is not his to end.
        """
        if not self.closed:
            self.runs.close(self)
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
