"""A file made ready for learning: features, target, tasks, and how to do the same again."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.cli._output import current
from tacit.cli.table.columns import labels, whole_numbers
from tacit.cli.table.features import Intake
from tacit.cli.table.read import Table, is_missing
from tacit.cli.table.stands_out import refuse_empty_columns, refuse_text
from tacit.cli.table.target import read_target
from tacit.errors import InvalidInput
from tacit.preprocessing import task_means

__all__ = ["Prepared", "check_tasks", "drop_missing", "matching_task", "prepare"]


@dataclass(frozen=True, eq=False)
class Prepared:
    """Rows ready to be learned from, in the file's order."""

    X: Array
    y: AnyArray
    names: tuple[Hashable, ...]
    codes: IntArray
    kind: str
    intake: Intake
    fill: Array
    n_filled: int
    declared: tuple[Any, ...] | None = None  # classes, in the order declared

    @property
    def tasks(self) -> list[Hashable]:
        """The task of every row."""
        return [self.names[code] for code in self.codes.tolist()]

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks."""
        return len(self.codes)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def fit(self, estimator: Any) -> Any:
        """Return the estimator, fitted."""
        return estimator.fit(self.X, self.y, tasks=self.tasks)

    @property
    def classes(self) -> list[str]:
        """The classes, if the target has any."""
        if self.kind == "regression":
            return []
        found = np.unique(self.y) if self.declared is None else np.sort(self.declared)
        return [str(part) for part in found]

    @property
    def n_outputs(self) -> int:
        """Models of one task: one for each class if there are more than two."""
        return len(self.classes) if self.kind == "multiclass" else 1

    def rows(self, chosen: AnyArray) -> Prepared:
        """Keep some rows; tasks and fillings stay those of all rows."""
        return dataclasses.replace(
            self, X=self.X[chosen], y=self.y[chosen], codes=self.codes[chosen]
        )


def drop_missing(table: Table, columns: list[str]) -> Table:
    """Leave out rows in which one of ``columns`` is missing."""
    cells = [table.columns[name] for name in columns]
    kept = [row for row in range(table.n_rows) if not any(is_missing(c[row]) for c in cells)]
    if not kept:
        raise InvalidInput(
            f"{table.source}: every row has a missing value, nothing is left with --missing drop; "
            "use --missing task-mean or fewer --features"
        )
    if len(kept) < table.n_rows:
        current().note(f"{table.n_rows - len(kept)} of {table.n_rows} rows had missing values")
    picked = {name: [values[row] for row in kept] for name, values in table.columns.items()}
    return Table(table.source, picked, len(kept), table.first_row)


def prepare(
    table: Table,
    intake: Intake,
    *,
    kind: str,
    classes: tuple[Any, ...] | None = None,
    minimum_tasks: int = 1,
) -> Prepared:
    """Read features, target and tasks of a table, and fill what is missing."""
    table.column(intake.target, "--target")
    table.column(intake.task, "--task")
    table = intake.cleared(table, classes)
    refuse_empty_columns(table, intake.features)
    refuse_text(table, intake.features)
    if intake.missing == "drop":
        used = [intake.target, *(feature.column for feature in intake.features)]
        table = drop_missing(table, used)
    texts = labels(table, intake.task)
    y, found = read_target(table, intake.target, kind, classes)
    X = intake.matrix(table)
    distinct = sorted(set(texts))
    check_tasks(table.source, intake.task, distinct, len(texts), minimum_tasks)
    names: tuple[Hashable, ...] = tuple(distinct)
    if whole_numbers(distinct):
        names = tuple(sorted(int(part) for part in distinct))
    position = {str(name): code for code, name in enumerate(names)}
    codes = np.array([position[part] for part in texts], dtype=np.int64)
    fill, n_filled = _filled(table, intake, X, codes, len(names))
    return Prepared(X, y, names, codes, found, intake, fill, n_filled, classes)


def check_tasks(source: str, column: str, distinct: list[str], n_rows: int, least: int) -> None:
    """Refuse a single task where several are needed; warn of tasks of one row each."""
    if len(distinct) < least:
        raise InvalidInput(
            f"{source}: has the one task {distinct[0]!r}, and learning together needs at least "
            "two; check --task, or use --method single-task"
        )
    if len(distinct) > 1 and len(distinct) == n_rows:
        current().warn(
            f"every row is a task of its own ({n_rows} different values of {column!r}); "
            "check --task"
        )


def _filled(
    table: Table, intake: Intake, X: Array, codes: IntArray, n_tasks: int
) -> tuple[Array, int]:
    """Fill the missing values of X in place; return what each task fills with, and how many.

    Guarantee: a mean is returned, and kept beside the model, only where a task needed it; all
    others are NaN.
    """
    if intake.missing == "error":
        intake.refuse_missing(table, X)
    gaps = np.isnan(X)
    if intake.missing == "task-mean":
        fill = task_means(X, codes, n_tasks)
    else:
        constant = np.nan if isinstance(intake.missing, str) else intake.missing
        fill = np.full((n_tasks, X.shape[1]), constant)
    X[gaps] = fill[codes][gaps]
    if intake.missing == "task-mean":
        filled = np.zeros(fill.shape, dtype=bool)
        np.logical_or.at(filled, codes, gaps)
        fill = np.where(filled, fill, np.nan)
    return fill, int(gaps.sum())


def matching_task(name: str, names: tuple[Hashable, ...]) -> Hashable:
    """Return the task whose label, as text, is ``name``."""
    for known in names:
        if str(known) == name:
            return known
    some = ", ".join(str(known) for known in names[:5])
    raise InvalidInput(
        f"--party {name!r}: no such task in the model; it has {len(names)} tasks, such as {some}"
    )
