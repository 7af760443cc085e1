"""From what users pass (arrays, pandas or polars frames, a column name) to clean arrays."""

from __future__ import annotations

from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import column_or_1d, validate_data

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput

__all__ = [
    "features",
    "labels_of_rows",
    "row_weights",
    "take_rows",
    "target",
    "without_task_column",
]


_MOST_DENSE = 1 << 31  # numbers: 16 GB of doubles


def without_task_column(X: Any, tasks: Any) -> tuple[Any, Any]:
    """Split ``X`` into features and task labels when ``tasks`` names a column of a frame."""
    if not isinstance(tasks, str):
        return X, tasks
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise InvalidInput(
            f"tasks={tasks!r}: a column name needs X to be a pandas or polars frame, not "
            f"{type(X).__name__}; pass an array with one task label per row instead"
        )
    if tasks not in frame.columns:
        raise InvalidInput(
            f"tasks={tasks!r}: X has no such column; its columns are {', '.join(frame.columns)}"
        )
    return frame.drop(tasks).to_native(), frame.get_column(tasks)


def _refuse_non_numeric_columns(X: Any) -> None:
    frame = nw.from_native(X, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return
    bad = [
        name
        for name, dtype in frame.schema.items()
        if not (dtype.is_numeric() or dtype == nw.Boolean or dtype == nw.Object)
    ]
    if bad:
        raise InvalidInput(
            f"X: columns {', '.join(map(repr, bad))} are not numeric; encode them as numbers "
            "(one-hot, with publicly known categories) or drop them"
        )


def features(estimator: Any, X: Any, *, reset: bool) -> Array:
    """Return X as a finite-or-not float array; names and widths are checked by scikit-learn.

    NaN and inf pass here on purpose: :class:`tacit.tasks.TaskSet` refuses them with the task and
    the column named.
    """
    _refuse_non_numeric_columns(X)
    rows = validate_data(
        estimator,
        X,
        reset=reset,
        dtype=(np.float64, np.float32),
        ensure_all_finite=False,
        accept_sparse="csr",
    )
    return _dense(rows) if issparse(rows) else rows


def _dense(rows: Any) -> Array:
    n_rows, d = rows.shape
    if n_rows * d > _MOST_DENSE:
        raise InvalidInput(
            f"X: sparse with {n_rows} × {d} entries, which would take "
            f"{n_rows * d * rows.dtype.itemsize / 2**30:.0f} GB dense; choose or hash features"
        )
    dense: Array = rows.toarray()
    return dense


def row_weights(weights: Any, n_rows: int) -> Array:
    """Return one weight a row."""
    column = nw.from_native(weights, series_only=True, pass_through=True)
    values = np.asarray(column.to_numpy() if isinstance(column, nw.Series) else weights)
    if values.ndim != 1 or len(values) != n_rows or values.dtype.kind not in "iufb":
        raise InvalidInput(
            f"sample_weight: shape {values.shape} for {n_rows} rows of X; pass one number per row"
        )
    return values.astype(np.float64)


def target(y: Any, n_rows: int, *, as_given: bool = False) -> AnyArray:
    """Return y as one value a row.

    ``as_given`` keeps every value of a list what it is: as an array of one type, one word among
    numbers would make all of them words.
    """
    if y is None:
        raise InvalidInput("y=None: fit requires y to be passed, but the target y is None")
    column = nw.from_native(y, series_only=True, pass_through=True)
    if isinstance(column, nw.Series):
        y = column.to_list() if as_given else column.to_numpy()
    if as_given and isinstance(y, list | tuple):
        values = np.fromiter(y, dtype=object, count=len(y))
    else:
        values = column_or_1d(y, warn=True)
    if len(values) != n_rows:
        raise InvalidInput(
            f"y: has {len(values)} values for {n_rows} rows of X; pass one value per row"
        )
    return np.asarray(values)


def take_rows(X: Any, rows: AnyArray) -> Any:
    """Return some rows of an array or frame, in its own kind."""
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return frame[rows].to_native()
    sparse: Any = X  # whose kinds have no common type that can be indexed
    return sparse.tocsr()[rows] if issparse(X) else np.asarray(X)[rows]


def labels_of_rows(tasks: Any, n_rows: int) -> Any:
    """Return one task label a row (a single task named 0 if ``tasks`` is None)."""
    if tasks is None:
        return np.zeros(n_rows, dtype=np.int64)
    column = nw.from_native(tasks, series_only=True, pass_through=True)
    labels = column.to_list() if isinstance(column, nw.Series) else tasks
    labels = labels if isinstance(labels, np.ndarray) else list(labels)
    if len(labels) != n_rows:
        raise InvalidInput(
            f"tasks: has {len(labels)} labels for {n_rows} rows of X; pass one label per row"
        )
    return labels
