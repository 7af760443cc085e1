"""The target column: which kind of learning it asks for, and its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.cli._columns import check_sizes, numbers, text, whole_numbers
from tacit.cli._output import current
from tacit.cli._read import Table, is_missing
from tacit.errors import InvalidInput

__all__ = ["KINDS", "read_target"]

KINDS = ("auto", "regression", "binary", "multiclass")
_MOST_CLASSES = 100
_FEW = 10


def _kind(cells: list[Any], values: AnyArray, strange: list[int]) -> str:
    """Text, or two different values, is a class; any other number is a quantity.

    A few words among numbers are mistakes in the numbers, not classes.
    """
    distinct = {text(cell) for cell in cells}
    if 2 * len(strange) >= len(cells):
        return "binary" if len(distinct) == 2 else "multiclass"
    if len(distinct) == 2:
        return "binary"
    if len(distinct) <= _FEW and bool(np.all(values == np.round(values))):
        current().note(
            f"the target has {len(distinct)} whole values and is learned as a number; say --kind "
            "multiclass if they are classes"
        )
    return "regression"


def read_target(table: Table, name: str, asked: str) -> tuple[AnyArray, str]:
    """Return the target values and the kind: regression, binary or multiclass.

    The kind and the classes count as public, as the statement says.
    """
    if asked not in KINDS:
        raise InvalidInput(f"--kind {asked!r}: must be one of {', '.join(KINDS)}")
    cells = table.column(name, "--target")
    for row, cell in enumerate(cells):
        if is_missing(cell):
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the target {name!r} is missing; fill it in, "
                "or leave such rows out with --missing drop"
            )
    values, strange = numbers(cells)
    kind = _kind(cells, values, strange) if asked == "auto" else asked
    if kind == "regression":
        if strange:
            row = strange[0]
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: the target {name!r} is {cells[row]!r}, not a "
                "number; correct it, or say --kind multiclass for classes"
            )
        check_sizes(table, name, values)
        return values, kind
    return _classes(table, name, cells, kind, asked), kind


def _classes(table: Table, name: str, cells: list[Any], kind: str, asked: str) -> AnyArray:
    labels = [text(cell) for cell in cells]
    distinct = sorted(set(labels))
    if len(distinct) == 1:
        raise InvalidInput(
            f"{table.source}: the target {name!r} is {distinct[0]!r} in every row; there is "
            "nothing to learn"
        )
    if kind == "binary" and len(distinct) != 2:
        raise InvalidInput(
            f"--kind binary: the target {name!r} has {len(distinct)} different values; say --kind "
            "multiclass or --kind regression"
        )
    if len(distinct) > _MOST_CLASSES:
        wrong = f" such as {distinct[0]!r}" if asked == "auto" else ""
        raise InvalidInput(
            f"{table.source}: the target {name!r} has {len(distinct)} different values{wrong}, too "
            f"many for classes (at most {_MOST_CLASSES}); correct cells that are no numbers, or "
            "choose another --target"
        )
    return np.array([int(part) for part in labels] if whole_numbers(distinct) else labels)
