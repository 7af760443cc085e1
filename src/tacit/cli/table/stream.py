"""A parquet file that is learned from without being read into memory.

The file is looked through once, a piece at a time: whether its cells are numbers, all there and of
a size to compute with, and what the target is. What then needs a closer look at single cells (text,
gaps, tasks whose rows do not stand together) is read into memory instead, and the user is told why.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.cli.table.columns import TOO_LARGE, numbers, text, whole_numbers
from tacit.cli.table.features import Intake
from tacit.cli.table.prepare import check_tasks
from tacit.cli.table.read import Table, is_missing
from tacit.cli.table.target import MOST_CLASSES, declared_labels, kind_of, labels_of
from tacit.errors import InvalidInput
from tacit.tasks import ParquetTasks, TaskSet

__all__ = ["NeedsMemory", "Streamed", "columns_of", "streamed"]

_MOST_LABELS = 10_000  # different values of a target whose classes are declared


class NeedsMemory(Exception):
    """Why a file is read into memory after all."""


@dataclass(frozen=True, eq=False)
class Streamed:
    """Tasks ready to be learned from a batch at a time; beside `tacit.cli.table.prepare.Prepared`.

    Tasks are in the file's order.
    """

    rows: FileRows
    kind: str
    intake: Intake
    labels: tuple[Any, ...]
    declared: tuple[Any, ...] | None = None
    n_filled: int = 0

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The tasks."""
        return self.rows.names

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks."""
        return self.rows.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.rows.n_features

    @property
    def n_outputs(self) -> int:
        """Models of one task: one for each class if there are more than two."""
        return len(self.declared or self.labels) if self.kind == "multiclass" else 1

    @property
    def fill(self) -> Array:
        """What a gap at predict time is filled with, by task: nothing of any task's rows."""
        constant = np.nan if isinstance(self.intake.missing, str) else self.intake.missing
        return np.broadcast_to(float(constant), (self.rows.n_tasks, self.n_features))

    def fit(self, estimator: Any) -> Any:
        """Return the estimator, fitted."""
        return estimator._fit_file(self.rows, None)


class FileRows(ParquetTasks):
    """Tasks of a file whose features are brought to their public ranges, as double precision."""

    def __init__(self, path: Path, intake: Intake) -> None:
        columns = [feature.column for feature in intake.features]
        super().__init__(
            path, tasks=intake.task, target=intake.target, features=columns, encode=np.asarray
        )
        self.relabel: Callable[[AnyArray], AnyArray] = np.asarray
        self._features = intake.features

    def encoded(self, encode: Callable[[AnyArray], Array]) -> FileRows:
        """Return the same tasks, their relabelled target read by ``encode``."""
        relabel = self.relabel
        return super().encoded(lambda values: encode(relabel(values)))

    def targets(self) -> Iterator[AnyArray]:
        """Yield the target's labels, some rows at a time."""
        return map(self.relabel, super().targets())

    def batches(self, max_rows: int) -> Iterator[TaskSet]:
        """Yield consecutive tasks in sets of at most ``max_rows`` rows."""
        for part in super().batches(max_rows):
            X = part.X.astype(np.float64, copy=False)
            for position, feature in enumerate(self._features):
                X[:, position] = feature.ranged(X[:, position])
            yield part.replace(X=X)


def columns_of(path: Path) -> Table:
    """Return the file's columns without any cell."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise NeedsMemory("pyarrow, which reads a file in pieces, is not installed") from None
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        raise NeedsMemory("its columns cannot be told beforehand") from None
    if len(set(schema.names)) < len(schema.names):
        raise NeedsMemory("a column occurs twice")
    return Table(str(path), {name: [] for name in schema.names}, 0)


def streamed(
    path: Path,
    intake: Intake,
    *,
    kind: str,
    classes: tuple[Any, ...] | None,
    minimum_tasks: int,
) -> Streamed:
    """Open a file for learning in batches, or raise `NeedsMemory` with the reason."""
    if any(feature.categories is not None for feature in intake.features):
        raise NeedsMemory("text columns are turned into indicators")
    if intake.marks or any(feature.dates is not None for feature in intake.features):
        raise NeedsMemory("--dates and words for --missing are read cell by cell")
    if any(feature.range is not None and feature.outside == "error" for feature in intake.features):
        raise NeedsMemory("--outside error names the row")
    try:
        rows = FileRows(path, intake)
    except InvalidInput as refusal:
        raise NeedsMemory(str(refusal).partition(";")[0]) from None
    texts = [text(name) for name in rows.names]
    if len(set(texts)) < len(texts) or any(is_missing(name) for name in rows.names):
        raise NeedsMemory("task labels need cleaning")
    check_tasks(str(path), intake.task, texts, rows.n_rows, minimum_tasks)
    rows.names = tuple(map(int, texts)) if whole_numbers(texts) else tuple(texts)
    counts = _looked_through(rows, keep=_MOST_LABELS if classes is not None else MOST_CLASSES)
    found, labels = _target(str(path), intake.target, counts, rows.n_rows, kind, classes)
    if found != "regression":
        rows.relabel = _relabelled(tuple(counts or ()), labels)
    return Streamed(rows, found, intake, tuple(np.unique(labels).tolist()), classes)


def _looked_through(rows: FileRows, keep: int) -> dict[Any, int] | None:
    """Return the rows of each value of the target; None for more than ``keep`` numbers."""
    counts: dict[Any, int] | None = {}
    inner = rows._rows
    for piece in inner.pieces(inner.columns, size=1 << 16):
        for name, column in zip(inner.columns, piece.columns, strict=True):
            if column.null_count:
                raise NeedsMemory(f"{name!r} has missing values")
            if name != inner.target:
                _check_numbers(name, column)
        counts = _counted(piece.column(len(inner.features)), counts, keep)
    return counts


def _check_numbers(name: str, column: Any) -> None:
    values = column.to_numpy(zero_copy_only=False)
    if values.dtype == object:
        raise NeedsMemory(f"{name!r} holds {column.type}")
    if values.dtype.kind == "f" and not (np.abs(values) <= TOO_LARGE).all():  # False for NaN
        raise NeedsMemory(f"{name!r} has missing or very large values")
    if values.dtype.kind in "iu" and np.abs(values.astype(np.float64)).max(initial=0) >= 2**53:
        raise NeedsMemory(f"{name!r} has whole numbers that a float cannot hold")


def _counted(column: Any, counts: dict[Any, int] | None, keep: int) -> dict[Any, int] | None:
    """Add a piece of the target to the rows of each value."""
    import pyarrow as pa

    words = not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type))
    words &= not pa.types.is_boolean(column.type)
    if not words:
        _check_numbers("the target", column)
    if counts is None:
        return None
    for entry in column.value_counts().to_pylist():
        counts[entry["values"]] = counts.get(entry["values"], 0) + entry["counts"]
    if len(counts) <= keep:
        return counts
    if words:
        raise NeedsMemory("the target has many different words")
    return None


def _target(
    source: str,
    name: str,
    counts: dict[Any, int] | None,
    n_rows: int,
    asked: str,
    classes: Sequence[Any] | None,
) -> tuple[str, AnyArray]:
    """Return the kind of the target and the label of every different value."""
    if counts is None:
        if asked in ("binary", "multiclass") or classes is not None:
            raise NeedsMemory("the target has many different values")
        return "regression", np.empty(0)
    cells = list(counts)
    if any(is_missing(cell) for cell in cells):
        raise NeedsMemory("the target has missing values")
    if classes is not None:
        strange = sum(counts[cell] for cell in cells if text(cell) not in map(text, classes))
        labels = declared_labels(cells, classes, n_strange=strange, n_rows=n_rows)
        return "binary" if len(classes) == 2 else "multiclass", labels
    values, words = numbers(cells)
    spelled = any(isinstance(cell, str) for cell in cells)
    if spelled and (asked == "regression" or len(words) < len(cells)):
        raise NeedsMemory("the target's numbers are written as text")
    found = kind_of(cells, values, words) if asked == "auto" else asked
    if found == "regression":
        return found, np.empty(0)
    return found, labels_of(source, name, cells, found, asked)


def _relabelled(cells: tuple[Any, ...], labels: AnyArray) -> Callable[[AnyArray], AnyArray]:
    position = {cell: code for code, cell in enumerate(cells)}

    def relabel(values: AnyArray) -> AnyArray:
        distinct, inverse = np.unique(values, return_inverse=True)
        return np.asarray(labels[[position[cell] for cell in distinct.tolist()]])[inverse]

    return relabel
