"""Tables of pandas, polars and Arrow, read through one code path (narwhals)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput

__all__ = ["Table", "feature_columns", "take_frame_apart"]


class Table:
    """A frame of any supported library, asked for columns by name."""

    def __init__(self, frame: Any) -> None:
        import narwhals.stable.v1 as nw
        from narwhals.exceptions import DuplicateError

        try:
            self._frame = nw.from_native(frame, eager_only=True)
            self.columns: tuple[Any, ...] = tuple(self._frame.columns)
        except DuplicateError:
            raise InvalidInput("frame: some columns occur more than once; rename them") from None
        except TypeError:
            raise InvalidInput(
                f"frame: {type(frame).__name__} is not a table held in memory; "
                "pass a pandas, polars or Arrow frame (call .collect() on a lazy one)"
            ) from None
        if len(set(self.columns)) < len(self.columns):
            raise InvalidInput("frame: some columns occur more than once; rename them")

    def series(self, column: Any, role: str) -> Any:
        """One column as the library's own series."""
        self.require([column], role)
        return self._frame[column].to_native()

    def require(self, columns: Sequence[Any], role: str) -> None:
        """Raise if any of ``columns`` is not there."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise InvalidInput(
                f"{role}={missing[0]!r}: no such column; the frame has {list(self.columns)}"
            )

    def target(self, column: Any) -> AnyArray:
        """The target column as numbers, missing values as NaN."""
        return self.matrix([column], "target")[:, 0]

    def matrix(self, columns: Sequence[Any], role: str = "features") -> Array:
        """Return columns as an (N, d) array: float32 if all of them are, else float64."""
        import narwhals.stable.v1 as nw

        self.require(columns, role)
        if not columns:
            raise InvalidInput(f"{role}: no columns left; name at least one")
        schema = self._frame.schema
        text = [c for c in columns if not (schema[c].is_numeric() or schema[c] == nw.Boolean)]
        if text:
            kinds = ", ".join(f"{column!r} ({schema[column]})" for column in text)
            raise InvalidInput(
                f"{role}: not numeric: {kinds}; encode these columns or leave them out "
                "(features=[...])"
            )
        single = all(schema[column] == nw.Float32 for column in columns)
        out = np.empty((len(self._frame), len(columns)), np.float32 if single else np.float64)
        for position, column in enumerate(columns):
            series = self._frame[column]
            if not schema[column].is_float():
                series = series.cast(nw.Float64)
            out[:, position] = series.to_numpy()
        return out


def feature_columns(
    columns: Sequence[Any], tasks: Any, target: Any, features: Sequence[Any] | None
) -> list[Any]:
    """Return the chosen columns, or all that are neither task nor target."""
    if features is None:
        return [column for column in columns if column != tasks and column != target]
    if isinstance(features, str):
        raise InvalidInput(f"features={features!r}: must be a list of column names")
    chosen = list(features)
    for role, column in (("tasks", tasks), ("target", target)):
        if column is not None and column in chosen:
            raise InvalidInput(f"features: {column!r} is the {role} column; leave it out")
    return chosen


def take_frame_apart(
    frame: Any, tasks: Any, feature_names: Sequence[str] | None
) -> tuple[Array, Any, Sequence[str] | None]:
    """A frame used as X: its numbers, the labels (a column of it, if named) and column names."""
    table = Table(frame)
    columns = list(table.columns)
    if isinstance(tasks, str):
        labels = table.series(tasks, "tasks")
        columns.remove(tasks)
    else:
        labels = tasks
    if feature_names is None and all(isinstance(column, str) for column in columns):
        feature_names = columns
    return table.matrix(columns, "X"), labels, feature_names
