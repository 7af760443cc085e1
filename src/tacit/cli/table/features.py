"""From a table to features: numbers and dates as numbers, text one-hot, missing filled at home.

What is decided here at fit time is kept beside the model and repeated at predict time.

Guarantee: categories that nobody declared would be a release of their own, so text needs given or
declared ones. A missing value is filled from the task's own rows only (``task-mean``) or by a
public constant; with the task as unit that is free, like all that a task does with its own rows.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.cli.table.columns import check_sizes, numbers
from tacit.cli.table.read import Table, is_missing, text, without_marks
from tacit.errors import InvalidInput
from tacit.preprocessing import OUTSIDE, scaled

__all__ = ["ISO", "MISSING", "Feature", "Intake", "days"]

ISO = "iso"
MISSING = ("task-mean", "error", "drop")
_SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True)
class Feature:
    """One column of the file: a number, a date, or one indicator for each public category.

    A number with a public ``range`` (low, high) is brought to −1 … 1: noise is the same in every
    direction of a model, so features should be of one size. ``dates`` is the format of a column of
    dates, which become days since 1970; ``outside`` says what happens to values beyond the range.
    """

    column: str
    categories: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None
    dates: str | None = None
    outside: str = "keep"

    def __post_init__(self) -> None:
        if self.outside not in OUTSIDE:
            raise InvalidInput(f"outside={self.outside!r}: must be one of {', '.join(OUTSIDE)}")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features it becomes."""
        if self.categories is None:
            return (self.column,)
        return tuple(f"{self.column}={category}" for category in self.categories)

    def ranged(self, column: Array) -> Array:
        """Return a number's column brought to −1 … 1, if its range is public."""
        return column if self.range is None else scaled(column, *self.range, self.outside)

    def values(self, table: Table) -> Array:
        """Return (n_rows, n_names) numbers, NaN where the cell is missing."""
        if self.categories is not None:
            return self._indicators(table, self.categories)
        column = self.plain(table)
        if self.outside == "error":
            self._refuse_outside(table, column)
        return self.ranged(column)[:, None]

    def plain(self, table: Table) -> Array:
        """Return the column's numbers as they stand in the file, dates as days since 1970."""
        cells = table.column(self.column, "--features")
        if self.dates is not None:
            column, strange = _all_days(cells, self.dates)
        else:
            column, strange = numbers(cells)
        if strange:
            row, wanted = strange[0], "number" if self.dates is None else f"{self.dates} date"
            cell = text(cells[row])
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: {self.column!r} is {cell!r}, not a {wanted} "
                f"({_rows(len(strange))}); correct the cell, leave it empty, or say --missing "
                f"{cell!r} if that means missing"
            )
        check_sizes(table, self.column, column)
        return column

    def shown(self, value: float) -> str:
        """Return a value of the column as it stands in the file."""
        if self.dates is None:
            return f"{value:g}"
        return str(datetime.fromtimestamp(value * _SECONDS_PER_DAY, UTC).date())

    def beyond(self, column: Array) -> AnyArray:
        """Return which of the column's numbers are outside the range."""
        low, high = self.range or (-np.inf, np.inf)
        return (column < low) | (column > high)

    def _refuse_outside(self, table: Table, column: Array) -> None:
        rows = np.flatnonzero(self.beyond(column))
        if rows.size:
            low, high = map(self.shown, self.range or ())
            row = int(rows[0])
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: {self.column!r} is "
                f"{self.shown(column[row])}, beyond its --range {low}:{high} "
                f"({_rows(rows.size)}); correct it, widen the range, or say --outside clip"
            )

    def _indicators(self, table: Table, categories: tuple[str, ...]) -> Array:
        cells = table.column(self.column, "--features")
        position = {category: index for index, category in enumerate(categories)}
        out = np.zeros((len(cells), len(categories)))
        for row, cell in enumerate(cells):
            if is_missing(cell):
                out[row] = np.nan
                continue
            index = position.get(text(cell))
            if index is None:
                raise InvalidInput(
                    f"{table.source}, {table.where(row)}: {self.column!r} is {text(cell)!r}, not "
                    f"one of its categories {', '.join(categories)}; correct the cell, fit with "
                    "that category listed in --categories, or say --missing with it if it means "
                    "missing"
                )
            out[row, index] = 1.0
        return out


def _rows(count: int) -> str:
    return f"{count} rows are" if count > 1 else "1 row is"


def days(cell: Any, layout: str = ISO) -> float | None:
    """Return a date or time as days since 1970, None if it is none."""
    try:
        if isinstance(cell, str):
            word = cell.strip()
            cell = datetime.fromisoformat(word) if layout == ISO else _parsed(word, layout)
        if isinstance(cell, datetime):
            aware = cell if cell.tzinfo else cell.replace(tzinfo=UTC)
            return aware.timestamp() / _SECONDS_PER_DAY
        return float(cell.toordinal() - date(1970, 1, 1).toordinal())
    except (ValueError, AttributeError, OverflowError):
        return None


def _parsed(word: str, layout: str) -> datetime:
    return datetime.strptime(word, layout).replace(tzinfo=UTC)


def _all_days(cells: list[Any], layout: str) -> tuple[Array, list[int]]:
    found = [float("nan") if is_missing(cell) else days(cell, layout) for cell in cells]
    strange = [row for row, value in enumerate(found) if value is None]
    return np.array([np.nan if value is None else value for value in found]), strange


@dataclass(frozen=True)
class Intake:
    """How a file becomes features; the same at fit and at predict time.

    ``marks`` are the words that mean missing; ``missing`` is the rule for what is missing, one of
    `MISSING` or a public number. Whoever reads it from another party's file relies on that there is
    no other rule: one that is not known is refused, never taken for a mean of rows.
    """

    task: str
    target: str
    features: tuple[Feature, ...]
    missing: str | float = "task-mean"
    marks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        number = isinstance(self.missing, int | float) and not isinstance(self.missing, bool)
        if not (self.missing in MISSING or (number and np.isfinite(self.missing))):
            raise InvalidInput(
                f"missing={self.missing!r}: must be {', '.join(MISSING)} or a finite number"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all features, indicators included."""
        return tuple(name for feature in self.features for name in feature.names)

    def cleared(self, table: Table, classes: tuple[Any, ...] | None = None) -> Table:
        """Return the table with every mark missing, but for a listed category, class or task."""
        kept = {f.column: f.categories for f in self.features if f.categories is not None}
        everything = {self.task: self.marks, self.target: tuple(map(str, classes or ()))}
        return without_marks(table, self.marks, kept | everything)

    def matrix(self, table: Table) -> Array:
        """Return (n_rows, n_features) numbers with NaN where a value is missing."""
        return np.hstack([feature.values(table) for feature in self.features])

    def refuse_missing(self, table: Table, X: Array) -> None:
        """Raise for the first missing value, with its place and the remedies."""
        bad = np.argwhere(np.isnan(X))
        if bad.size:
            row, column = bad[0].tolist()
            raise InvalidInput(
                f"{table.source}, {table.where(row)}: {self.feature_names[column]!r} is missing; "
                "fill it in, or choose --missing task-mean, drop or a number"
            )

    def to_json(self) -> dict[str, Any]:
        """Return plain values from which `from_json` rebuilds it."""
        return {
            "task": self.task,
            "target": self.target,
            "features": [dataclasses.asdict(feature) for feature in self.features],
            "missing": self.missing,
            "marks": list(self.marks),
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Intake:
        """Rebuild it from `to_json`, of this version or of one that had no dates and marks."""
        features = tuple(
            Feature(**f | {name: f[name] and tuple(f[name]) for name in ("categories", "range")})
            for f in body["features"]
        )
        marks = tuple(body.get("marks", ()))
        return cls(body["task"], body["target"], features, body["missing"], marks)
