"""Tasks in parquet files: read whole, in batches of tasks, or sorted by task outside memory."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

from tacit import _check
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import DataNotFound, InvalidInput
from tacit.tasks import _intake, _splits
from tacit.tasks._labels import group_labels
from tacit.tasks._taskset import TaskSet

__all__ = ["ParquetRows", "ParquetTasks", "coded", "read_whole"]

Encode = Callable[[AnyArray], Array]

# Rows decoded at a time: the columns of a piece stay in cache while they are woven into rows.
PIECE = 8192
_BUFFER = 1 << 20


class ParquetTasks:
    """Tasks of a parquet file (or a folder of files), handed out a batch of tasks at a time.

    The rows of a task must stand together; in which order tasks come does not matter. Files that
    are not so are refused with the remedy, `sort_parquet`. Opening reads the task column only,
    and keeps the m labels and m + 1 offsets in memory; rows are streamed when asked for, so that
    memory holds one batch whatever the size of the file and of its row groups.

    Parameters
    ----------
    path : path
        A parquet file, or a folder whose ``*.parquet`` files are read in order of name.
    tasks : str
        Column of task labels.
    target : str, optional
        Column to learn.
    features : sequence of str, optional
        Columns to learn from; by default all others.
    encode : callable, optional
        Turns values of the target, as they stand in the file, into numbers; without it they must
        be numbers.

    Attributes
    ----------
    names : tuple
        Task labels in the file's order.
    offsets : (m + 1,) int64 array
        Rows of task i are rows ``offsets[i]:offsets[i + 1]`` of the file.
    feature_names : tuple of str
        Names of the features.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        tasks: str,
        target: str | None = None,
        features: Sequence[str] | None = None,
        encode: Encode | None = None,
    ) -> None:
        self._rows = ParquetRows(path, tasks, target, features, encode=encode)
        self.feature_names = tuple(self._rows.features)
        self.names, self.offsets = _index(self._rows)
        self._first_row = 0

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks."""
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.feature_names)

    @property
    def counts(self) -> IntArray:
        """Rows of each task (m,)."""
        return np.diff(self.offsets)

    def encoded(self, encode: Encode) -> Self:
        """Return the same tasks, their target read by ``encode``."""
        other = copy.copy(self)
        other._rows = copy.copy(self._rows)
        other._rows.encode, other._rows.target_dtype = encode, np.float64
        return other

    def part(self, first: int, last: int) -> Self:
        """Return tasks ``first`` to ``last`` (without it), which read their own rows only."""
        other = copy.copy(self)
        other.names = self.names[first:last]
        other._first_row = self._first_row + int(self.offsets[first])
        other.offsets = self.offsets[first : last + 1] - self.offsets[first]
        return other

    def targets(self) -> Iterator[AnyArray]:
        """Yield the target's values as they stand in the file, some rows at a time."""
        for piece in self._rows.pieces([str(self._rows.target)], size=8 * PIECE):
            yield raw_values(piece.column(0))

    def batches(self, max_rows: int) -> Iterator[TaskSet]:
        """Yield consecutive tasks in sets of at most ``max_rows`` rows, in the file's order.

        A task is never cut in two: one that is larger comes alone. ``order`` of a set counts
        the rows of the file.
        """
        max_rows = _check.positive_integer("max_rows", max_rows, remedy="use 1_000_000, say")
        reader = _Reader(self._rows, self._first_row)
        for first, last in _splits.runs_of_tasks(self.offsets, max_rows):
            start, stop = int(self.offsets[first]), int(self.offsets[last])
            X, y = reader.take(stop - start)
            offsets = self.offsets[first : last + 1] - start
            names = self.names[first:last]
            codes = np.repeat(np.arange(last - first), np.diff(offsets))
            begin = self._first_row + start
            _intake.check_finite(X, y, codes, names, self.feature_names, first_row=begin)
            order = np.arange(begin, begin + stop - start, dtype=np.int64)
            yield TaskSet(X, y, offsets, names, order, self.feature_names)


def read_whole(
    path: str | Path, *, tasks: str, target: str | None, features: Sequence[str] | None
) -> tuple[Array, Array | None, AnyArray, tuple[str, ...]]:
    """Read all rows: features, targets, labels and feature names, in the file's order."""
    rows = ParquetRows(path, tasks, target, features)
    X, y = _Reader(rows).take(rows.n_rows)
    labels = np.empty(rows.n_rows, dtype=object)
    start = 0
    for codes, values in rows.labels():
        labels[start : start + len(codes)] = _objects(values)[codes]
        start += len(codes)
    return X, y, labels, tuple(rows.features)


class ParquetRows:
    """The columns of one or several parquet files that a task set is made of."""

    def __init__(
        self,
        path: str | Path,
        tasks: str,
        target: str | None,
        features: Sequence[str] | None,
        *,
        all_columns: bool = False,
        encode: Encode | None = None,
    ) -> None:
        self._paths = [file.absolute() for file in _files(Path(path))]
        self._files, self._seen = _opened(self._paths), _stamps(self._paths)
        self.schema = self._files[0].schema_arrow
        if any(not file.schema_arrow.equals(self.schema) for file in self._files[1:]):
            raise InvalidInput(f"{path}: the files do not have the same columns")
        self.tasks, self.target = tasks, target
        self.features = _feature_columns(self.schema, tasks, target, features)
        self.n_rows = sum(file.metadata.num_rows for file in self._files)
        if not self.n_rows:
            raise InvalidInput(f"{path}: has no rows")
        if not self.features and not all_columns:
            raise InvalidInput("features: no columns left; name at least one")
        self.dtype = _float_type(self.schema, self.features, "features")
        self.encode = encode
        numbers = [target] if target is not None and encode is None else []
        self.target_dtype = _float_type(self.schema, numbers, "target") if numbers else np.float64

    @property
    def columns(self) -> list[str]:
        """Features and, behind them, the target."""
        return [*self.features, *([] if self.target is None else [self.target])]

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_files"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Open the files again, in another process."""
        vars(self).update(state)
        if _stamps(self._paths) != self._seen:
            raise InvalidInput(
                f"{self._paths[0]}: was changed while it was read; leave the file alone until the "
                "fit is over, and fit again"
            )
        self._files = _opened(self._paths)

    def pieces(self, columns: Sequence[str], size: int = PIECE, skip: int = 0) -> Iterator[Any]:
        """Record batches of ``columns``, without the first ``skip`` rows and their row groups."""
        for file in self._files:
            counts = [file.metadata.row_group(g).num_rows for g in range(file.num_row_groups)]
            before = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
            first = int(np.searchsorted(before, skip, side="right")) - 1
            skip -= int(before[first])  # of the groups that are left
            groups = list(range(first, len(counts)))
            if not groups:
                continue
            for piece in file.iter_batches(size, row_groups=groups, columns=list(columns)):
                if skip >= piece.num_rows:
                    skip -= piece.num_rows
                    continue
                yield piece.slice(skip)
                skip = 0

    def labels(self) -> Iterator[tuple[IntArray, list[Hashable]]]:
        """Task labels, piece by piece, as codes into a list of distinct values."""
        row = 0
        for piece in self.pieces([self.tasks], size=8 * PIECE):
            column = piece.column(0)
            if column.null_count:
                missing = row + int(np.flatnonzero(column.is_null().to_numpy(False))[0])
                raise InvalidInput(
                    f"tasks: missing label in row {missing}; "
                    "drop those rows or give them a label of their own"
                )
            yield coded(column)
            row += len(column)


class _Reader:
    """Reads features and targets in order, any number of rows at a time."""

    def __init__(self, rows: ParquetRows, first_row: int = 0) -> None:
        self._rows = rows
        self._pieces = rows.pieces(rows.columns, skip=first_row)
        self._piece: Any = None
        self._used = 0

    def take(self, n_rows: int) -> tuple[Array, Array | None]:
        """Return the next ``n_rows`` rows as (X, y)."""
        X = np.empty((n_rows, len(self._rows.features)), dtype=self._rows.dtype)
        y = None if self._rows.target is None else np.empty(n_rows, dtype=self._rows.target_dtype)
        done = 0
        while done < n_rows:
            if self._piece is None or self._used == self._piece.num_rows:
                self._piece, self._used = next(self._pieces), 0
            count = min(n_rows - done, self._piece.num_rows - self._used)
            part = self._piece.slice(self._used, count)
            for position in range(X.shape[1]):
                X[done : done + count, position] = _floats(part.column(position))
            if y is not None:
                y[done : done + count] = self._target(part.column(X.shape[1]))
            done += count
            self._used += count
        return X, y

    def _target(self, column: Any) -> AnyArray:
        encode = self._rows.encode
        return _floats(column) if encode is None else encode(raw_values(column))


def _opened(paths: Sequence[Path]) -> list[Any]:
    try:
        import pyarrow.parquet as pq
    except ImportError as error:
        raise InvalidInput(
            "parquet needs pyarrow; install it with: pip install 'tacit[parquet]'"
        ) from error
    # Pages are streamed through a small buffer per column: a memory map would count the whole
    # file, and reading ahead a whole row group, towards the peak of memory.
    return [pq.ParquetFile(path, buffer_size=_BUFFER, pre_buffer=False) for path in paths]


def _stamps(paths: Sequence[Path]) -> list[tuple[int, int]]:
    """Return size and time of last change of every file."""
    return [(path.stat().st_size, path.stat().st_mtime_ns) for path in paths]


def _files(path: Path) -> list[Path]:
    files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    if not files or not files[0].is_file():
        raise DataNotFound(f"{path}: no parquet file here; check the path")
    return files


def _feature_columns(
    schema: Any, tasks: str, target: str | None, features: Sequence[str] | None
) -> list[str]:
    from tacit.tasks._frames import feature_columns

    repeated = {name for name in schema.names if schema.names.count(name) > 1}
    if repeated:
        raise InvalidInput(f"columns {sorted(repeated)} occur more than once; rename them")
    chosen = feature_columns(schema.names, tasks, target, features)
    named = {"tasks": [tasks], "target": [] if target is None else [target], "features": chosen}
    for role, columns in named.items():
        for column in columns:
            if column not in schema.names:
                raise InvalidInput(
                    f"{role}={column!r}: no such column; the file has {schema.names}"
                )
    return chosen


def _float_type(schema: Any, columns: Sequence[str], role: str) -> Any:
    """float32 if all columns are, else float64; text columns are named and refused."""
    import pyarrow.types as kinds

    types = {column: schema.field(column).type for column in columns}
    numeric = (kinds.is_floating, kinds.is_integer, kinds.is_boolean, kinds.is_decimal)
    text = [column for column in columns if not any(check(types[column]) for check in numeric)]
    if text:
        listed = ", ".join(f"{column!r} ({types[column]})" for column in text)
        raise InvalidInput(
            f"{role}: not numeric: {listed}; encode these columns or leave them out "
            "(features=[...])"
        )
    single = all(kinds.is_float32(types[column]) for column in columns)
    return np.float32 if single else np.float64


def _floats(column: Any) -> AnyArray:
    """An Arrow column as floats, missing values as NaN."""
    import pyarrow as pa

    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    return values


def raw_values(column: Any) -> AnyArray:
    """An Arrow column as it is: numbers as numbers, text as text, missing text as None."""
    values: AnyArray = column.to_numpy(zero_copy_only=False)
    return values


def coded(column: Any) -> tuple[IntArray, list[Hashable]]:
    """An Arrow column as codes into a list of its distinct values."""
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()


def _objects(values: Sequence[Hashable]) -> AnyArray:
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


def _index(rows: ParquetRows) -> tuple[tuple[Hashable, ...], IntArray]:
    """Labels and offsets of the tasks, in the file's order; an error if a task comes twice."""
    names: list[Hashable] = []
    starts: list[AnyArray] = []
    row = 0
    for codes, values in rows.labels():
        first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
        labels = [values[code] for code in codes[first].tolist()]
        if names and labels[0] == names[-1]:
            first, labels = first[1:], labels[1:]
        names.extend(labels)
        starts.append(first + row)
        row += len(codes)
    group_labels(names)
    if len(set(names)) != len(names):
        again = Counter(names).most_common(1)[0][0]
        raise InvalidInput(
            f"tasks: rows of task {again!r} do not stand together; sort the file first with "
            f"tacit.tasks.sort_parquet(source, destination, tasks={rows.tasks!r})"
        )
    return tuple(names), np.concatenate([*starts, [rows.n_rows]]).astype(np.int64)
