"""Task labels of any hashable kind, turned into integer codes without losing their names."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from tacit._types import AnyArray, IntArray
from tacit.errors import InvalidInput

__all__ = ["group_labels", "match_labels"]

_MISSING_REMEDY = "drop those rows or give them a label of their own"


def group_labels(labels: Any) -> tuple[IntArray, tuple[Hashable, ...]]:
    """Group rows by label.

    Labels that compare equal (``1``, ``1.0`` and ``True``) are one task, as in a ``dict``.
    ``None`` in a list or an object array is a name like any other; NaN, NaT and the missing
    values of a series are errors, because they stand for a label nobody knows.

    Parameters
    ----------
    labels : array-like of hashables
        One label per row: an array, a list or a pandas, polars or Arrow series.

    Returns
    -------
    codes : (N,) int64 array
        Index into ``names`` of every row.
    names : tuple
        The distinct labels: sorted if they can be sorted, else in order of first appearance.
    """
    values = _as_values(labels)
    if isinstance(values, np.ndarray):
        return _group_array(values)
    return _group_hashables(values)


def match_labels(labels: Any, names: Sequence[Hashable]) -> IntArray:
    """Return the index in ``names`` of every label, −1 where it is not among them."""
    codes, distinct = group_labels(labels)
    index = {name: position for position, name in enumerate(names)}
    positions = np.array([index.get(label, -1) for label in distinct], dtype=np.int64)
    return positions[codes]


def _as_values(labels: Any) -> AnyArray | list[Any]:
    """Numeric labels as an array (grouped by sorting), all others as a list (by hashing)."""
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise InvalidInput(
            f"tasks={labels!r}: must hold one label per row; "
            "to name a column, pass a frame that has it"
        )
    if isinstance(labels, list | tuple | range):
        return list(labels)
    if not isinstance(labels, np.ndarray):
        return _from_series(labels)
    if labels.ndim != 1:
        raise InvalidInput(
            f"tasks: must be one-dimensional, got shape {labels.shape}; "
            "join several columns into tuples, one tuple per row"
        )
    return labels if labels.dtype.kind in "iubfmM" else labels.tolist()


def _from_series(labels: Iterable[Any]) -> AnyArray | list[Any]:
    import narwhals.stable.v1 as nw

    series = nw.from_native(labels, series_only=True, pass_through=True)
    if not isinstance(series, nw.Series):
        return list(labels)
    if series.null_count():
        row = int(np.flatnonzero(series.is_null().to_numpy())[0])
        raise InvalidInput(f"tasks: missing label in row {row}; {_MISSING_REMEDY}")
    if series.dtype.is_integer() or series.dtype.is_float():
        return series.to_numpy()
    return series.to_list()


def _group_array(values: AnyArray) -> tuple[IntArray, tuple[Hashable, ...]]:
    missing = {"f": np.isnan, "m": np.isnat, "M": np.isnat}.get(values.dtype.kind)
    if missing is not None:
        rows = np.flatnonzero(missing(values))
        if rows.size:
            raise InvalidInput(
                f"tasks: {values[rows[0]]} label in row {rows[0]}; {_MISSING_REMEDY}"
            )
    if values.size and np.all(values[1:] >= values[:-1]):
        starts = np.concatenate([[True], values[1:] != values[:-1]])
        codes, distinct = np.cumsum(starts) - 1, values[starts]
    else:
        distinct, codes = np.unique(values, return_inverse=True)
    # tolist() would turn nanosecond time stamps into bare integers.
    names = list(distinct) if values.dtype.kind in "mM" else distinct.tolist()
    return codes.astype(np.int64, copy=False), tuple(names)


def _group_hashables(values: list[Any]) -> tuple[IntArray, tuple[Hashable, ...]]:
    try:
        names: list[Any] = list(dict.fromkeys(values))
    except TypeError:
        row = next(row for row, value in enumerate(values) if not _hashable(value))
        raise InvalidInput(
            f"tasks: label {values[row]!r} in row {row} cannot be hashed; "
            "use strings, numbers or tuples"
        ) from None
    for name in names:
        if _is_missing(name):
            row = next(row for row, value in enumerate(values) if _is_missing(value))
            raise InvalidInput(f"tasks: {name} label in row {row}; {_MISSING_REMEDY}")
    try:
        names.sort()
    except TypeError:
        # sort() may leave a half-sorted list behind when it meets two kinds.
        names = list(dict.fromkeys(values))
    code_of = {name: code for code, name in enumerate(names)}
    codes = np.fromiter(map(code_of.__getitem__, values), dtype=np.int64, count=len(values))
    return codes, tuple(_plain(name) for name in names)


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_missing(label: Any) -> bool:
    """NaN, NaT and their like: not equal to themselves, or (pandas' NA) unable to say."""
    if isinstance(label, tuple):
        return any(_is_missing(part) for part in label)
    try:
        return bool(label != label)
    except (TypeError, ValueError):
        return True


def _plain(label: Any) -> Hashable:
    """A NumPy scalar as the Python value it equals, so that names print and store alike."""
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":
        return label.item()
    return label
