"""What stands out in a file: columns that cannot be learned from, and those that look odd.

Refusals come before anything is spent. Warnings go to whoever runs the command, who has the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.cli._output import current
from tacit.cli.table.columns import numbers
from tacit.cli.table.features import Feature, Intake, days
from tacit.cli.table.read import Table, is_missing, text
from tacit.errors import InvalidInput

__all__ = ["refuse_empty_columns", "refuse_text", "warn_of_columns"]

_LIKE_MISSING = frozenset({"na", "n/a", "nan", "null", "none", "?", "-", "missing", "unknown", "."})
_MANY_CATEGORIES = 50
_MOST_CATEGORIES = 200
_FEWEST_IDS = 20


def refuse_empty_columns(table: Table, features: Sequence[Feature]) -> None:
    """Raise if a column has no value in any row."""
    for feature in features:
        if all(is_missing(cell) for cell in table.columns[feature.column]):
            raise InvalidInput(
                f"{table.source}: the column {feature.column!r} is empty in every row; leave it "
                f"out with --drop {_quoted(feature.column)}"
            )


def refuse_text(table: Table, features: Sequence[Feature]) -> None:
    """Raise for a column that is mostly text and has no public categories."""
    for feature in features:
        if feature.categories is not None or feature.dates is not None:
            continue
        cells = table.columns[feature.column]
        strange = numbers(cells)[1]
        if not strange or 2 * len(strange) < sum(not is_missing(cell) for cell in cells):
            continue
        name, first = _quoted(feature.column), text(cells[strange[0]])
        words = [text(cells[row]) for row in strange]
        if sum(days(cells[row]) is not None for row in strange) * 2 > len(strange):
            remedy = f"Make numbers of them with --dates {name}, or leave it out with --drop {name}"
            raise InvalidInput(
                f"{table.source}: the column {feature.column!r} holds dates ({first!r}). {remedy}"
            )
        if len(words) >= _FEWEST_IDS and len(set(words)) > len(words) / 2:
            raise InvalidInput(
                f"{table.source}: the column {feature.column!r} holds text ({first!r}) with "
                f"{len(set(words))} different values in {len(words)} rows, like a name or number "
                f"of each row; leave it out with --drop {name} (dates: --dates "
                f"{name}=%d/%m/%Y with their format)"
            )
        raise InvalidInput(
            f"{table.source}: the column {feature.column!r} holds text ({first!r}). List its "
            f"publicly known categories with --categories {name}=a,b,c, declare those in the "
            f"file public with --public-categories {name}, or leave the column out with "
            f"--drop {name}"
        )


def warn_of_columns(raw: Table, intake: Intake, classes: tuple[Any, ...] | None) -> None:
    """Tell of columns that look like identifiers, never vary, miss their range or mean missing."""
    table = intake.cleared(raw, classes)
    if intake.marks and table.columns == raw.columns:
        current().warn(f"--missing {','.join(intake.marks)}: no cell of the file is that")
    for feature in intake.features:
        if feature.categories is not None:
            _look_at_categories(table, feature, feature.categories)
        else:
            _look_at_numbers(table, feature, feature.plain(table))


def _look_at_categories(table: Table, feature: Feature, categories: tuple[str, ...]) -> None:
    cells = table.columns[feature.column]
    counts = Counter(text(cell) for cell in cells if not is_missing(cell))
    name, n_rows = _quoted(feature.column), table.n_rows
    if len(categories) > min(_MOST_CATEGORIES, max(_MANY_CATEGORIES, n_rows // 5)):
        current().warn(
            f"the column {feature.column!r} has {len(categories)} categories in {n_rows} rows and "
            "becomes as many features; if it names the rows, leave it out with --drop "
            f"{name}"
        )
    elif sum(counts[category] > 0 for category in categories) == 1:
        current().warn(_constant(feature.column))
    for category in categories:
        if category.lower() in _LIKE_MISSING and counts[category]:
            current().note(
                f"{feature.column!r}: {category!r} ({counts[category]} rows) is a category like "
                f"any other; if it means missing, say --missing {_quoted(category)}"
                + ("" if len(categories) > 2 else " and give the column other --categories")
            )


def _look_at_numbers(table: Table, feature: Feature, column: Array) -> None:
    name, there = _quoted(feature.column), column[~np.isnan(column)]
    if there.size > 1 and np.all(there == there[0]):
        current().warn(_constant(feature.column))
    elif feature.range is None and _like_an_identifier(feature.column, there):
        current().warn(
            f"the column {feature.column!r} is a different whole number in every row, like an "
            f"identifier; leave it out with --drop {name}, or give its --range"
        )
    elif feature.dates is not None and feature.range is None:
        current().warn(
            f"the dates in {feature.column!r} become days since 1970, large numbers; give their "
            f"range, such as --range {name}=2020-01-01:2026-12-31"
        )
    beyond = int(feature.beyond(column).sum())
    if beyond and feature.range is not None:
        low, high = map(feature.shown, feature.range)
        what = f"{beyond} of {table.n_rows} rows have {feature.column!r} beyond its --range"
        if feature.outside == "clip":
            current().note(f"{what} {low}:{high} and are cut off there")
        else:
            current().warn(
                f"{what} {low}:{high}; widen it, or say --outside clip (cut them off) or "
                "--outside error (refuse them)"
            )


def _like_an_identifier(name: str, values: Array) -> bool:
    if values.size < _FEWEST_IDS or np.any(values != np.round(values)):
        return False
    ordered = np.unique(values)
    in_a_row = ordered[-1] - ordered[0] == values.size - 1
    called = name.lower().replace("-", "_").split("_")[-1] in ("id", "no", "nr", "number", "key")
    return bool(ordered.size == values.size and (in_a_row or called or ordered[0] >= 1e5))


def _constant(name: str) -> str:
    return (
        f"the column {name!r} is the same in every row and teaches nothing; leave it out with "
        f"--drop {_quoted(name)}"
    )


def _quoted(name: str) -> str:
    """Return a name as a shell takes it."""
    return f'"{name}"' if any(letter in name for letter in " ;&|()$'*?<>") else name
