"""Checks on data as it comes in: shapes, kinds and finite values, named by task and column."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput

__all__ = ["check_feature_names", "check_finite", "feature_matrix", "is_frame", "target_vector"]

_ROWS_PER_SCAN = 16_384


def is_frame(value: Any) -> bool:
    """Whether ``value`` is a two-dimensional table (pandas, polars, Arrow), not an array."""
    return hasattr(value, "columns") and not isinstance(value, np.ndarray)


def floating(values: AnyArray) -> Array:
    """Keep float32 as float32; every other numeric kind becomes float64."""
    kept = values.dtype == np.float32
    return np.ascontiguousarray(values, dtype=np.float32 if kept else np.float64)


def feature_matrix(X: Any) -> Array:
    """Return ``X`` as a C-contiguous (N, d) float array; not copied where it already is one."""
    if hasattr(X, "toarray"):
        raise InvalidInput("X: sparse matrices are not supported; pass X.toarray()")
    values = np.asarray(X)
    if values.ndim != 2:
        raise InvalidInput(
            f"X: must have two dimensions (rows, features), got shape {values.shape}; "
            "a single feature is X.reshape(-1, 1)"
        )
    if 0 in values.shape:
        raise InvalidInput(f"X: needs at least one row and one feature, got shape {values.shape}")
    if values.dtype.kind not in "iubf":
        values = _numbers(values)
    return floating(values)


def target_vector(y: Any, n_rows: int) -> Array:
    """Return ``y`` as an (N,) float array."""
    values = np.asarray(y)
    if values.ndim != 1:
        raise InvalidInput(
            f"y: must have one dimension, got shape {values.shape}; pass one target per row"
        )
    if len(values) != n_rows:
        raise InvalidInput(f"y: has {len(values)} rows but X has {n_rows}; pass one target per row")
    if values.dtype.kind not in "iubf":
        values = _numbers(values[:, None], what="y")[:, 0]
    return floating(values)


def _numbers(values: AnyArray, what: str = "X") -> AnyArray:
    """Python numbers held as objects become floats; text and the like are named and refused."""
    if values.dtype.kind == "O":
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError):
            pass
    for column in range(values.shape[1]):
        for value in values[:, column].tolist():
            if isinstance(value, str | bytes | complex) or not _is_number(value):
                where = "y" if what == "y" else f"X, column {column}"
                raise InvalidInput(
                    f"{where}: {value!r} is not a number; encode it or leave the column out"
                )
    return values.astype(np.float64)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def check_feature_names(
    feature_names: Sequence[str] | None, n_features: int
) -> tuple[str, ...] | None:
    """Return the names as a tuple if there is one distinct string per feature."""
    if feature_names is None:
        return None
    if isinstance(feature_names, str):
        raise InvalidInput(f"feature_names={feature_names!r}: must be a list of names")
    names = tuple(feature_names)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong:
        raise InvalidInput(f"feature_names: {wrong[0]!r} is not a string; name columns by strings")
    if len(names) != n_features:
        raise InvalidInput(
            f"feature_names: has {len(names)} names but X has {n_features} features; "
            "pass one name per column"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidInput(f"feature_names: {repeated} occur more than once; rename them")
    return tuple(str(name) for name in names)


def check_finite(
    X: Array,
    y: Array | None,
    codes: IntArray,
    names: Sequence[Hashable],
    feature_names: tuple[str, ...] | None,
    *,
    first_row: int = 0,
) -> None:
    """Raise for the first NaN or infinity, with its task, column and row.

    A sum is finite only if every term is, and costs one pass without a temporary; only when it
    is not (a bad value, or an overflow of good ones) are the values looked at one by one.
    """
    with np.errstate(all="ignore"):
        suspicious = not np.isfinite(X.sum())
    if suspicious:
        for start in range(0, len(X), _ROWS_PER_SCAN):
            bad = np.argwhere(~np.isfinite(X[start : start + _ROWS_PER_SCAN]))
            if bad.size:
                row, column = int(bad[0, 0]) + start, int(bad[0, 1])
                name = column if feature_names is None else feature_names[column]
                _refuse(f"X, column {name!r}", X[row, column], names[codes[row]], row + first_row)
    if y is not None:
        bad_rows = np.flatnonzero(~np.isfinite(y))
        if bad_rows.size:
            row = int(bad_rows[0])
            _refuse("y", y[row], names[codes[row]], row + first_row)


def _refuse(where: str, value: Any, task: Hashable, row: int) -> None:
    kind = "NaN" if np.isnan(value) else "infinity"
    raise InvalidInput(
        f"{where}: {kind} in task {task!r} (row {row}); impute or drop missing values first"
    )
