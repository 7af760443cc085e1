"""Steps before learning that cost no privacy, as scikit-learn transformers.

What ``tacit fit`` does with a file, for those who bring arrays: numbers are brought to one size by
publicly known ranges, and missing values are filled with the task's own mean. For public constants
and public categories scikit-learn has what is needed: ``SimpleImputer(strategy="constant")`` and
``OneHotEncoder(categories=[…])``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from tacit import _check
from tacit._types import Array, IntArray
from tacit.errors import InvalidInput, UnknownTask
from tacit.tasks._labels import group_labels, match_labels

__all__ = ["OUTSIDE", "PublicRangeScaler", "TaskMeanImputer", "scaled", "task_means"]

OUTSIDE = ("keep", "clip", "error")

_REMEDY = "give two numbers, the lower one first"


def scaled(values: Array, low: Any, high: Any, outside: str = "keep") -> Array:
    """Return ``values`` with low … high brought to −1 … 1; ``"clip"`` cuts off what is outside."""
    out = (2 * values - low - high) / (high - low)
    return np.clip(out, -1.0, 1.0) if outside == "clip" else out


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


class PublicRangeScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Bring columns with publicly known ranges to −1 … 1.

    Noise is the same in every direction of a model, so features should be of one size; a range
    that everybody knows (ages, percentages, a sensor's limits) says nothing about the rows.

    Guarantee: nothing is learned from X but its number of columns and their names, and each value
    is transformed by itself: free for tasks and for rows.

    Parameters
    ----------
    ranges : mapping of columns to (low, high), or sequence of (low, high) or None
        By name of a frame's column, by position, or one entry for each column; columns without a
        range stay as they are.
    outside : {"keep", "clip", "error"}, default "keep"
        Values beyond their range: kept (beyond ±1), cut off, or refused.
    """

    def __init__(self, ranges: Any, *, outside: str = "keep") -> None:
        self.ranges = ranges
        self.outside = outside

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Match the ranges with the columns; the values are not looked at."""
        _check.one_of("outside", self.outside, OUTSIDE)
        validate_data(self, X, ensure_all_finite="allow-nan")
        low, high = np.full(self.n_features_in_, -1.0), np.ones(self.n_features_in_)
        for column, limits in self._by_position():
            low[column], high[column] = _limits(column, limits)
        self.low_, self.high_ = low, high
        return self

    def _by_position(self) -> list[tuple[int, Any]]:
        n = self.n_features_in_
        if isinstance(self.ranges, Mapping):
            names = list(getattr(self, "feature_names_in_", ()))
            found = []
            for name, limits in self.ranges.items():
                if isinstance(name, str) and name in names:
                    found.append((names.index(name), limits))
                elif isinstance(name, int | np.integer) and 0 <= name < n:
                    found.append((int(name), limits))
                else:
                    raise InvalidInput(f"ranges: {name!r} is no column of X; check its name")
            return found
        if not isinstance(self.ranges, Sequence | np.ndarray) or len(self.ranges) != n:
            raise InvalidInput(
                f"ranges: must be a mapping of columns to (low, high), or one entry for each of "
                f"the {n} columns (None: as it is)"
            )
        return [(c, limits) for c, limits in enumerate(self.ranges) if limits is not None]

    def transform(self, X: Any) -> Array:
        """Return X with every range brought to −1 … 1; NaN stays NaN."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, ensure_all_finite="allow-nan", dtype="numeric")
        out = scaled(X, self.low_, self.high_)
        given = [column for column, _ in self._by_position()]
        beyond = np.abs(out[:, given]) > 1.0
        if self.outside == "error" and beyond.any():
            row, place = np.argwhere(beyond)[0].tolist()
            column = given[place]
            raise InvalidInput(
                f"X: row {row}, column {column} is {X[row, column]:g}, beyond its range "
                f"{self.low_[column]:g} … {self.high_[column]:g} ({int(beyond.sum())} values are); "
                "correct them, widen the range, or say outside='clip'"
            )
        if self.outside == "clip":
            out[:, given] = np.clip(out[:, given], -1.0, 1.0)
        return out

    def __sklearn_tags__(self) -> Any:
        """Let missing values pass."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _limits(column: Any, limits: Any) -> tuple[float, float]:
    try:
        low, high = (float(part) for part in limits)
    except (TypeError, ValueError):
        raise InvalidInput(f"ranges: {limits!r} of column {column!r}; {_REMEDY}") from None
    if not low < high or not np.isfinite(high - low):
        raise InvalidInput(f"ranges: {limits!r} of column {column!r}; {_REMEDY}")
    return low, high


class TaskMeanImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Fill missing values with the mean of the task's own rows.

    Guarantee: row i of ``means_`` is computed from task i's rows alone, so with the task as unit it
    is free, like all that a task does with its own rows, and it is the task's own to keep. Where
    single rows are protected it is **not** free: a row moves the mean, and with it other rows. A
    task without any value of a column has 0 there.

    ``fit`` and ``transform`` take ``tasks``, the label of every row, and ask for them wherever
    scikit-learn routes metadata, such as in a pipeline. Without ``tasks`` all rows are one task's.
    """

    __metadata_request__fit: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__transform: ClassVar[dict[str, bool]] = {"tasks": True}

    def fit(self, X: Any, y: Any = None, *, tasks: Any = None) -> Self:  # noqa: ARG002
        """Take each task's means."""
        X = validate_data(self, X, ensure_all_finite="allow-nan", dtype=np.float64)
        codes, self.task_names_ = group_labels(_labels(tasks, len(X)))
        _same_length(X, codes)
        self.means_ = task_means(X, codes, len(self.task_names_))
        return self

    def fit_transform(self, X: Any, y: Any = None, *, tasks: Any = None) -> Array:
        """Take each task's means and fill its gaps with them."""
        return self.fit(X, y, tasks=tasks).transform(X, tasks=tasks)

    def transform(self, X: Any, *, tasks: Any = None) -> Array:
        """Return X with each gap filled from its own task."""
        check_is_fitted(self)
        X = validate_data(
            self, X, reset=False, ensure_all_finite="allow-nan", dtype=np.float64, copy=True
        )
        gaps = np.isnan(X)
        if not gaps.any():
            return X
        labels = _labels(tasks, len(X))
        codes = match_labels(labels, self.task_names_)
        _same_length(X, codes)
        strange = np.flatnonzero((codes < 0) & gaps.any(axis=1))
        if strange.size:
            name = list(labels)[int(strange[0])]
            raise UnknownTask(
                f"tasks: {name!r} was not there at fit time and has missing values; fill them in"
            )
        X[gaps] = self.means_[codes][gaps]
        return X

    def __sklearn_tags__(self) -> Any:
        """Let missing values in."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _labels(tasks: Any, n_rows: int) -> Any:
    return [0] * n_rows if tasks is None else tasks


def _same_length(X: Array, codes: IntArray) -> None:
    if len(codes) != len(X):
        raise InvalidInput(f"tasks: {len(codes)} labels for {len(X)} rows; give one for each row")
