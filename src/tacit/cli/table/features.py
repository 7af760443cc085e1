"""From a table to features: numbers as they are, text one-hot, missing values filled at home.

What is decided here at fit time is kept beside the model and repeated at predict time.

Guarantee: categories that nobody declared would be a release of their own, so text needs given or
declared ones. A missing value is filled from the task's own rows only (``task-mean``) or by a
public constant; with the task as unit that is free, like all that a task does with its own rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import Array, IntArray
from tacit.cli.table.columns import check_sizes, numbers, text
from tacit.cli.table.read import Table, is_missing
from tacit.errors import InvalidInput

__all__ = [
    "Feature",
    "Intake",
    "choose_features",
    "given_categories",
    "parse_missing",
    "task_means",
]

MISSING = ("task-mean", "error", "drop")


@dataclass(frozen=True)
class Feature:
    """One column of the file: a number, or one indicator for each of its public categories.

    A number with a public ``range`` (low, high) is brought to −1 … 1: noise is the same in every
    direction of a model, so features should be of one size.
    """

    column: str
    categories: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features it becomes."""
        if self.categories is None:
            return (self.column,)
        return tuple(f"{self.column}={category}" for category in self.categories)

    def ranged(self, column: Array) -> Array:
        """Return a number's column brought to −1 … 1, if its range is public."""
        if self.range is None:
            return column
        low, high = self.range
        return (2 * column - low - high) / (high - low)

    def values(self, table: Table) -> Array:
        """Return (n_rows, n_names) numbers, NaN where the cell is missing."""
        cells = table.column(self.column, "--features")
        if self.categories is None:
            column, strange = numbers(cells)
            if strange:
                row = strange[0]
                raise InvalidInput(
                    f"{table.source}, {table.where(row)}: {self.column!r} is {cells[row]!r}, not a "
                    "number; correct the cell or leave it empty"
                )
            check_sizes(table, self.column, column)
            return self.ranged(column)[:, None]
        position = {category: index for index, category in enumerate(self.categories)}
        out = np.zeros((len(cells), len(self.categories)))
        for row, cell in enumerate(cells):
            if is_missing(cell):
                out[row] = np.nan
                continue
            index = position.get(text(cell))
            if index is None:
                raise InvalidInput(
                    f"{table.source}, {table.where(row)}: {self.column!r} is {text(cell)!r}, not "
                    f"one of its categories {', '.join(self.categories)}; correct the cell, or "
                    "fit with that category listed in --categories"
                )
            out[row, index] = 1.0
        return out


def refuse_text(table: Table, features: Sequence[Feature]) -> None:
    """Raise for a column that is mostly text and has no public categories."""
    for feature in features:
        cells = table.columns[feature.column]
        strange = [] if feature.categories is not None else numbers(cells)[1]
        if 2 * len(strange) >= len(cells):
            name = feature.column
            raise InvalidInput(
                f"{table.source}: the column {name!r} holds text ({cells[strange[0]]!r}). List its "
                f"publicly known categories with --categories {name}=a,b,c, declare those in the "
                f"file public with --public-categories {name}, or leave the column out with "
                "--features"
            )


@dataclass(frozen=True)
class Intake:
    """How a file becomes features; the same at fit and at predict time."""

    task: str
    target: str
    features: tuple[Feature, ...]
    missing: str | float = "task-mean"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of all features, indicators included."""
        return tuple(name for feature in self.features for name in feature.names)

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
        }

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Intake:
        """Rebuild it from `to_json`."""
        features = tuple(
            Feature(f["column"], _tuple(f["categories"]), _tuple(f["range"]))
            for f in body["features"]
        )
        return cls(body["task"], body["target"], features, body["missing"])


def _tuple(values: Any) -> Any:
    return None if values is None else tuple(values)


def parse_missing(given: str) -> str | float:
    """Return the rule for missing values: a word of `MISSING`, or a public constant."""
    if given in MISSING:
        return given
    try:
        value = float(given)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise InvalidInput(
            f"--missing {given!r}: must be {', '.join(MISSING)} or a number to put in their place"
        )
    return value


def given_categories(given: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Parse ``column=a,b,c`` entries."""
    found: dict[str, tuple[str, ...]] = {}
    for entry in given:
        column, equals, listed = entry.partition("=")
        values = tuple(part.strip() for part in listed.split(",") if part.strip())
        if not equals or not column.strip() or len(values) < 2:
            raise InvalidInput(
                f"--categories {entry!r}: write it as column=a,b,c with at least two categories"
            )
        if len(set(values)) < len(values):
            raise InvalidInput(f"--categories {entry!r}: a category is listed twice; remove one")
        found[column.strip()] = values
    return found


def given_ranges(given: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Parse ``column=low:high`` entries."""
    found: dict[str, tuple[float, float]] = {}
    for entry in given:
        column, _, limits = entry.rpartition("=")
        try:
            low, high = (float(part) for part in limits.split(":"))
        except ValueError:
            low = high = 0.0
        if not column.strip() or not low < high or not np.isfinite(high - low):
            raise InvalidInput(
                f"--range {entry!r}: write it as column=low:high, two numbers, the lower one first"
            )
        found[column.strip()] = (low, high)
    return found


def choose_features(
    table: Table,
    *,
    task: str,
    target: str,
    chosen: Sequence[str],
    categories: dict[str, tuple[str, ...]],
    public: Sequence[str],
    ranges: Mapping[str, tuple[float, float]],
) -> tuple[Feature, ...]:
    """Return the features: the chosen columns, or all that are neither task nor target."""
    if task == target:
        raise InvalidInput(f"--task and --target are both {task!r}; name two different columns")
    names = list(chosen) or [name for name in table.columns if name not in (task, target)]
    if len(set(names)) < len(names):
        raise InvalidInput("--features: a column is listed twice; remove one")
    for name in names:
        table.column(name, "--features")
        if name in (task, target):
            role = "--task" if name == task else "--target"
            raise InvalidInput(f"--features {name!r}: is the {role} column; leave it out")
    if not names:
        raise InvalidInput(f"{table.source}: has no columns besides task and target; add features")
    public_facts: dict[str, Any] = {
        "--categories": categories,
        "--public-categories": public,
        "--range": ranges,
    }
    for option, columns in public_facts.items():
        for name in columns:
            if name not in names:
                raise InvalidInput(f"{option} {name!r}: is not a feature; check the column's name")
    found = dict(categories)
    for name in public:
        if name in categories:
            raise InvalidInput(
                f"{name!r}: its categories are given by --categories already; leave out "
                "--public-categories for it"
            )
        cells = table.columns[name]
        found[name] = tuple(sorted({text(cell) for cell in cells if not is_missing(cell)}))
    for name in ranges:
        if name in found:
            raise InvalidInput(f"--range {name!r}: has categories; give one of the two")
    return tuple(Feature(name, found.get(name), ranges.get(name)) for name in names)


def refuse_empty_columns(table: Table, features: Sequence[Feature]) -> None:
    """Raise if a column has no value in any row."""
    for feature in features:
        if all(is_missing(cell) for cell in table.columns[feature.column]):
            raise InvalidInput(
                f"{table.source}: the column {feature.column!r} is empty in every row; leave it "
                "out with --features"
            )


def task_means(X: Array, codes: IntArray, n_tasks: int) -> Array:
    """Return (n_tasks, d) means of the values that are there, each task's from its own rows.

    A task without any value of a feature gets 0 there: the feature is constant for it, and its
    own intercept takes the constant up.
    """
    there = ~np.isnan(X)
    sums = np.zeros((n_tasks, X.shape[1]))
    counts = np.zeros((n_tasks, X.shape[1]))
    np.add.at(sums, codes, np.where(there, X, 0.0))
    np.add.at(counts, codes, there)
    return sums / np.maximum(counts, 1.0)
