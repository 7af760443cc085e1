"""What every loader returns: arrays, names and what is known about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

__all__ = ["Dataset"]

_LARGEST_STACK = 2 * 2**30


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set with tasks, as arrays.

    Attributes
    ----------
    name : str
        Name of the set.
    X : (N, d) array
        Features in the source's own units and type; NaN where a value is missing.
    y : (N,) array, or (N, m) for several outcomes of the same rows
        Target: numbers, or class indices from 0.
    tasks : (N,) array of task names, or None
        Task of each row; None where every outcome (column of ``y``) is a task.
    feature_names, task_names, class_names : tuple of str
        Empty where the source names none; ``task_names`` is never empty.
    kind : {"regression", "binary", "multiclass"}
        What ``y`` is.
    description : str
        Where the data comes from, its terms and its traps.
    missing : str
        How missing values are marked, empty if there are none.
    extras : mapping of str to array
        Further arrays by row, such as ``split_train`` or second targets.
    """

    name: str
    X: AnyArray
    y: AnyArray
    tasks: AnyArray | None
    feature_names: tuple[str, ...]
    task_names: tuple[str, ...]
    kind: str
    description: str
    missing: str = ""
    class_names: tuple[str, ...] = ()
    extras: Mapping[str, AnyArray] = field(default_factory=dict)

    def __repr__(self) -> str:
        return (
            f"Dataset({self.name!r}, {self.kind}, n_tasks={len(self.task_names)}, "
            f"n_rows={self.X.shape[0]}, n_features={self.X.shape[1]})"
        )

    def taskset(
        self,
        *,
        y: AnyArray | None = None,
        fill: float | None = None,
        outcomes: Sequence[int] | None = None,
        dtype: Any = None,
    ) -> TaskSet:
        """Build the `TaskSet` of these rows.

        Parameters
        ----------
        y : (N,) array, optional
            Another target, for example one of ``extras``.
        fill : float, optional
            Public constant put in place of missing values, which are an error otherwise. A mean
            or median of the rows would depend on the data: with one row as the protected unit
            that is a release.
        outcomes : sequence of int, optional
            For several outcomes: which columns of ``y`` become tasks (all by default). Rows are
            repeated for each of them.
        dtype : float32 or float64, optional
            Precision; by default that of ``X`` if it is a float, else float64.
        """
        X = self.X if dtype is None else self.X.astype(dtype)
        if fill is not None:
            X = np.where(np.isnan(X), np.asarray(fill, dtype=X.dtype), X)
        names = self.feature_names or None
        if self.tasks is not None:
            target = self.y if y is None else y
            return TaskSet.from_arrays(X, target, self.tasks, feature_names=names)
        return self._stacked(X, range(len(self.task_names)) if outcomes is None else outcomes)

    def _stacked(self, X: AnyArray, outcomes: Sequence[int]) -> TaskSet:
        n_rows, n_features = X.shape
        item = 4 if X.dtype == np.float32 else 8
        if len(outcomes) * n_rows * n_features * item > _LARGEST_STACK:
            raise InvalidInput(
                f"outcomes: {len(outcomes)} copies of {n_rows} rows are more than 2 GiB; "
                "choose fewer outcomes"
            )
        index = np.asarray(outcomes, dtype=np.int64)
        labels = np.repeat(np.asarray(self.task_names)[index], n_rows)
        target = self.y[:, index].T.reshape(-1)
        stacked = np.tile(X, (len(index), 1))
        names = self.feature_names or None
        return TaskSet.from_arrays(stacked, target, labels, feature_names=names)
