"""What a column of cells is: numbers, yes and no, or text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._types import Array
from tacit.cli.table.read import Table, is_missing, text
from tacit.errors import InvalidInput

__all__ = ["labels", "numbers", "text", "whole_numbers"]

_TRUTH = {"true": 1.0, "false": 0.0}
TOO_LARGE = 1e50  # squares and their sums stay finite below it


def _number(cell: Any) -> float | None:
    """Return the cell as a number, NaN if it is missing, None if it is something else."""
    if isinstance(cell, bool | int | float):
        return float(cell)
    if is_missing(cell):
        return float("nan")
    if isinstance(cell, str):
        known = _TRUTH.get(cell.strip().lower())
        if known is not None:
            return known
        if "_" in cell:  # Python would read 1_000 as a number
            return None
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    # "nan" in a file is a word like NA: what it means, the user says.
    return None if isinstance(cell, str) and np.isnan(value) else value


def _all_numbers(cells: list[Any]) -> Array | None:
    """Return plain numbers at once, None where a cell needs a closer look."""
    try:
        values = np.array(cells, dtype=np.float64)
        words = [cell for cell in cells if isinstance(cell, str)]
    except (TypeError, ValueError, OverflowError):
        return None
    # Python would read 1_000 and the words nan and infinity as numbers.
    plain = values.ndim == 1 and "_" not in "".join(words)
    return values if plain and (not words or bool(np.isfinite(values).all())) else None


def numbers(cells: list[Any]) -> tuple[Array, list[int]]:
    """Return the cells as floats (NaN where missing), and the rows that are not numbers."""
    at_once = _all_numbers(cells)
    if at_once is not None:
        return at_once, []
    values = [_number(cell) for cell in cells]
    strange = [row for row, value in enumerate(values) if value is None]
    if strange:
        values = [np.nan if value is None else value for value in values]
    return np.array(values, dtype=np.float64), strange


def check_sizes(table: Table, name: str, values: Array) -> None:
    """Refuse infinite and absurdly large numbers, with their place."""
    bad = np.flatnonzero(np.isinf(values) | (np.abs(values) > TOO_LARGE))
    if bad.size:
        row = int(bad[0])
        raise InvalidInput(
            f"{table.source}, {table.where(row)}: {name!r} is {values[row]:g}, too large to "
            "compute with; correct it or rescale the column"
        )


def whole_numbers(cells: list[str]) -> bool:
    """Whether all texts are whole numbers in their plain form (no 007, no 1e3)."""
    return all(cell.lstrip("-").isdecimal() and str(int(cell)) == cell for cell in cells)


def labels(table: Table, name: str) -> list[str]:
    """Return the task labels of all rows as text; a missing one is an error."""
    cells = table.column(name, "--task")
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the task {name!r} is missing; give every "
                "row its task, or remove the row"
            )
    return [text(cell) for cell in cells]
