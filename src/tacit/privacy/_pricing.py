"""What a run asks of a ledger, and what it takes from every line that it counts on."""

from __future__ import annotations

from dataclasses import dataclass

from tacit.errors import InvalidInput
from tacit.privacy._book import UNNAMED, Book, neighbour_steps
from tacit.privacy._budget import Budget, Lines
from tacit.privacy.accounting.filters import Spend
from tacit.privacy.accounting.leaves import Leaves
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["Part", "Request", "check_data", "cost_for_rows", "priced"]


@dataclass(frozen=True)
class Request:
    """A run as it asks for budget; ``rows`` is its row noise, if it has some.

    ``run`` is the identity that it chose itself, None to be given one.
    """

    parts: Leaves
    rows: Leaves | None
    unit: Unit
    adjacency: Adjacency
    data: str
    delta: float | None
    rows_delta: float | None
    run: str | None = None


@dataclass(frozen=True)
class Part:
    """What a request takes from the lines of one unit; ``rows`` is what a task's run costs rows."""

    unit: Unit
    adjacency: Adjacency
    parts: Leaves
    steps: int
    spend: Spend
    rows: Spend | None = None


def check_data(data: str | None) -> str:
    """Return the name of a data set; None is the data of all runs that name none."""
    if data is None:
        return UNNAMED
    if not isinstance(data, str) or not data.strip():
        raise InvalidInput(
            f"data={data!r}: must be None, or the name of data that share no row with data of "
            "another name"
        )
    return data


def priced(asked: Request, book: Book, budget: Budget, rule: str, path: str) -> list[Part]:
    """Return what the run takes for its own unit, and for rows if it has noise for them.

    Guarantee: raises `BudgetExceeded` unless it fits on every line that it counts on.
    """
    names = book.touched(asked.data)
    own: Lines = {(name, asked.unit): book.spends(name, asked.unit) for name in names}
    spend, counted, steps = _price(asked, asked.unit, book, budget, rule, own, path)
    budget.check(rule, own, spend, path)
    part = Part(asked.unit, counted, asked.parts, steps, spend)
    if asked.unit is Unit.ROW:
        return [part]
    noised = asked.rows is not None
    held = [name for name in names if noised or book.limits(name, Unit.ROW)]
    lines: Lines = {(name, Unit.ROW): book.spends(name, Unit.ROW) for name in held}
    if asked.rows is None:
        rows = cost_for_rows(budget, spend, asked.parts, counted, rule)
        budget.check(rule, lines, rows, path)
        return [Part(asked.unit, counted, asked.parts, steps, spend, rows)]
    rows, counted, steps = _price(asked, Unit.ROW, book, budget, rule, lines, path)
    budget.check(rule, lines, rows, path)
    return [part, Part(Unit.ROW, counted, asked.rows, steps, rows)]


def _price(
    asked: Request,
    unit: Unit,
    book: Book,
    budget: Budget,
    rule: str,
    lines: Lines,
    path: str,
) -> tuple[Spend, Adjacency, int]:
    """Return what the run takes from ``lines``, their adjacency, and the steps to it."""
    counted = book.adjacency.get(unit, asked.adjacency)
    steps = neighbour_steps(counted, asked.adjacency, unit, path)
    parts, share = asked.parts, asked.delta
    if unit is not asked.unit:
        parts, share = asked.rows or (), asked.rows_delta
    return budget.price(rule, parts, lines, share, asked.adjacency, steps), counted, steps


def cost_for_rows(
    budget: Budget, spend: Spend, parts: Leaves, counted: Adjacency, rule: str
) -> Spend:
    """Return what a run costs one row, that costs a task ``spend`` under ``counted``.

    A task replaced by itself with one row changed, added or removed is one step of replace-one,
    and two of the others.
    """
    steps = 1 if counted is Adjacency.REPLACE_ONE else 2
    return budget.converted(spend, parts, steps, rule)
