"""The ragged set of tasks that every protocol and estimator works on."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.tasks import _intake, _splits
from tacit.tasks._frames import Table, feature_columns, take_frame_apart
from tacit.tasks._labels import group_labels
from tacit.tasks._local import Centring, scale_rows

__all__ = ["TaskSet"]


@dataclass(frozen=True, eq=False, repr=False)
class TaskSet:
    """Rows of m tasks in one array, sorted by task.

    Use `from_arrays`, `from_frame` or `from_parquet`; the constructor takes arrays that are sorted
    already. Arrays in the right form are not copied: do not change them in place afterwards.

    Attributes
    ----------
    X : (N, d) float array, C-contiguous
        Features; float32 if they came as float32, else float64. Rows sorted by task, within a
        task in the caller's order.
    y : (N,) float array or None
        Targets, sorted alike.
    offsets : (m + 1,) int64 array
        Rows of task i are ``offsets[i]:offsets[i + 1]``; no task is empty.
    names : tuple of hashables
        Task labels as given: sorted if they can be sorted, else in order of first appearance.
    order : (N,) int64 array
        The caller's index of each stored row.
    feature_names : tuple of str or None
        Column names, where known.
    weights : (N,) float array or None
        How much of a row each stored row counts for, 0 to 1; None is 1 for all.
    """

    X: Array
    y: Array | None
    offsets: IntArray
    names: tuple[Hashable, ...]
    order: IntArray
    feature_names: tuple[str, ...] | None = None
    weights: Array | None = None

    def __post_init__(self) -> None:
        n_rows = len(self.X)
        if self.X.ndim != 2 or len(self.order) != n_rows:
            raise InvalidInput(
                f"X: shape {self.X.shape} does not fit an order of {len(self.order)} rows"
            )
        if self.y is not None and self.y.shape != (n_rows,):
            raise InvalidInput(f"y: has shape {self.y.shape} but X has {n_rows} rows")
        if len(self.offsets) != len(self.names) + 1 or not self.names:
            raise InvalidInput(
                f"offsets: {len(self.offsets)} values for {len(self.names)} tasks; "
                "there must be at least one task and one value more than tasks"
            )
        if self.offsets[0] != 0 or self.offsets[-1] != n_rows:
            raise InvalidInput(f"offsets: must run from 0 to the number of rows, {n_rows}")
        empty = np.flatnonzero(np.diff(self.offsets) <= 0)
        if empty.size:
            raise InvalidInput(f"task {self.names[empty[0]]!r}: has no rows; leave the task out")
        _intake.check_feature_names(self.feature_names, self.X.shape[1])

    def __repr__(self) -> str:
        return (
            f"TaskSet(n_tasks={self.n_tasks}, n_rows={self.n_rows}, "
            f"n_features={self.n_features}, dtype={self.X.dtype})"
        )

    # Ways in

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any = None,
        tasks: Any = None,
        *,
        feature_names: Sequence[str] | None = None,
    ) -> TaskSet:
        """Build from arrays (or frames used as arrays).

        Parameters
        ----------
        X : array-like or frame of shape (N, d)
            Features. A frame lends its column names, if they are strings.
        y : array-like of shape (N,), optional
            Targets.
        tasks : array-like of N hashables or column name, optional
            Task of each row; a name is looked up in the frame ``X`` and is then no feature.
            Without it all rows are one task named ``0``.
        feature_names : sequence of str, optional
            One name per column.
        """
        if _intake.is_frame(X):
            X, tasks, feature_names = take_frame_apart(X, tasks, feature_names)
        matrix = _intake.feature_matrix(X)
        target = None if y is None else _intake.target_vector(y, len(matrix))
        labels = np.zeros(len(matrix), dtype=np.int64) if tasks is None else tasks
        return cls._grouped(matrix, target, labels, feature_names)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        tasks: Any,
        target: Any = None,
        features: Sequence[Any] | None = None,
    ) -> TaskSet:
        """Build from a pandas, polars or Arrow frame.

        Parameters
        ----------
        frame : frame
            One row per example.
        tasks : column name
            Column that holds the task labels; missing labels are an error.
        target : column name, optional
            Numeric column to learn.
        features : sequence of column names, optional
            Numeric or boolean columns to learn from; all others by default.
        """
        table = Table(frame)
        labels = table.series(tasks, "tasks")
        y = None if target is None else table.target(target)
        columns = feature_columns(table.columns, tasks, target, features)
        names = [str(column) for column in columns]
        return cls._grouped(_intake.feature_matrix(table.matrix(columns)), y, labels, names)

    @classmethod
    def from_parquet(
        cls,
        path: str | Path,
        *,
        tasks: str,
        target: str | None = None,
        features: Sequence[str] | None = None,
    ) -> TaskSet:
        """Build from a parquet file (or a folder of them), read in batches into one array.

        The file need not be sorted by task. For more rows than fit in memory, see
        `tacit.tasks.ParquetTasks`.
        """
        from tacit.tasks._parquet import read_whole

        X, y, labels, names = read_whole(path, tasks=tasks, target=target, features=features)
        return cls._grouped(X, y, labels, names)

    @classmethod
    def _grouped(
        cls, X: Array, y: Array | None, labels: Any, feature_names: Sequence[str] | None
    ) -> TaskSet:
        codes, names = group_labels(labels)
        if len(codes) != len(X):
            raise InvalidInput(
                f"tasks: has {len(codes)} labels but X has {len(X)} rows; pass one label per row"
            )
        columns = _intake.check_feature_names(feature_names, X.shape[1])
        _intake.check_finite(X, y, codes, names, columns)
        offsets = np.zeros(len(names) + 1, dtype=np.int64)
        np.cumsum(np.bincount(codes, minlength=len(names)), out=offsets[1:])
        if np.all(codes[1:] >= codes[:-1]):
            order = np.arange(len(X), dtype=np.int64)
        else:
            # Stable: rows of a task stay in the caller's order. A narrow type is sorted by radix.
            order = np.argsort(codes.astype(np.min_scalar_type(len(names))), kind="stable")
            X = X[order]
            y = None if y is None else y[order]
        return cls(X, y, offsets, names, order, columns)

    # Sizes

    @property
    def n_tasks(self) -> int:
        """Number of tasks, m."""
        return len(self.names)

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks, N."""
        return len(self.X)

    @property
    def n_features(self) -> int:
        """Number of features, d."""
        return self.X.shape[1]

    @cached_property
    def counts(self) -> IntArray:
        """Rows of each task (m,)."""
        return np.diff(self.offsets)

    @cached_property
    def amounts(self) -> Array:
        """Rows of each task (m,), each counting for its weight."""
        if self.weights is None:
            return self.counts.astype(np.float64)
        found: Array = self.task_sums(self.weights)
        return found

    @cached_property
    def task_of_row(self) -> IntArray:
        """Index of the task of each stored row (N,)."""
        return np.repeat(np.arange(self.n_tasks, dtype=np.int64), self.counts)

    # Rows and tasks

    def restore(self, values: AnyArray) -> AnyArray:
        """Put values that are in stored order back into the caller's row order.

        On a part of the rows (after a split, say) in increasing order of the caller's row index.
        """
        values = np.asarray(values)
        if len(values) != self.n_rows:
            raise InvalidInput(f"values: has {len(values)} rows but the tasks have {self.n_rows}")
        return values[np.argsort(self.order, kind="stable")]

    def replace(self, *, X: Array | None = None, y: Array | None = None) -> TaskSet:
        """Same rows of the same tasks with other features, targets or both.

        ``feature_names`` are dropped when the number of features changes.
        """
        matrix, target, columns = self.X, self.y, self.feature_names
        if X is not None:
            matrix = _intake.feature_matrix(X)
            columns = columns if matrix.shape[1] == self.n_features else None
        if y is not None:
            target = _intake.target_vector(y, self.n_rows)
        if len(matrix) != self.n_rows:
            raise InvalidInput(f"X: has {len(matrix)} rows but the tasks have {self.n_rows}")
        _intake.check_finite(
            matrix if X is not None else matrix[:0],
            target if y is not None else None,
            self.task_of_row,
            self.names,
            columns,
        )
        return TaskSet(matrix, target, self.offsets, self.names, self.order, columns, self.weights)

    def weighted(self, weights: Any, *, within: str = "task") -> TaskSet:
        """Same rows, each counting for ``weights`` (N,), in stored order, of a row.

        Weights are relative: they are divided by the largest of their task, so that a row counts
        for one row at most; with ``within="all"`` by the largest of all tasks, for whom nothing is
        kept apart.

        Guarantee: within tasks, a task's weights are changed by its own alone.
        """
        _check.one_of("within", within, ("task", "all"))
        values = _intake.target_vector(weights, self.n_rows).astype(np.float64)
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if bad.size:
            raise InvalidInput(
                f"sample_weight: row {int(self.order[bad[0]])} has the weight "
                f"{values[bad[0]]}; weights are finite and not negative"
            )
        most = np.maximum.reduceat(values, self.offsets[:-1])
        empty = np.flatnonzero(most == 0)
        if empty.size:
            raise InvalidInput(
                f"sample_weight: every row of task {self.names[empty[0]]!r} has weight zero; "
                "leave the task out"
            )
        scale = most[self.task_of_row] if within == "task" else most.max()
        return dataclasses.replace(self, weights=values / scale)

    def take_rows(self, rows: Any) -> TaskSet:
        """Keep some stored rows, by mask (N,) or by index; tasks left without rows go.

        Rows stay sorted as they are, whatever the order of the index.
        """
        kept = _splits.positions(rows, self.n_rows, "rows")
        kept.sort()
        counts = np.bincount(self.task_of_row[kept], minlength=self.n_tasks)
        present = np.flatnonzero(counts)
        return self._part(kept, present, counts[present])

    def take_tasks(self, tasks: Any) -> TaskSet:
        """Keep some tasks, by mask (m,), slice or index, in the order given."""
        if isinstance(tasks, slice):
            tasks = np.arange(self.n_tasks)[tasks]
        index = _splits.positions(tasks, self.n_tasks, "tasks")
        counts = self.counts[index]
        if np.all(np.diff(index) == 1):
            rows: Any = slice(int(self.offsets[index[0]]), int(self.offsets[index[-1] + 1]))
        else:
            rows = _splits.rows_of_tasks(self.offsets, index)
        return self._part(rows, index, counts)

    def _part(self, rows: Any, tasks: IntArray, counts: IntArray) -> TaskSet:
        offsets = np.zeros(len(counts) + 1, dtype=np.int64)
        np.cumsum(counts, out=offsets[1:])
        return TaskSet(
            self.X[rows],
            None if self.y is None else self.y[rows],
            offsets,
            tuple(self.names[task] for task in tasks.tolist()),
            self.order[rows],
            self.feature_names,
            None if self.weights is None else self.weights[rows],
        )

    def batches(self, max_rows: int) -> Iterator[TaskSet]:
        """Consecutive tasks in sets of at most ``max_rows`` rows, as views.

        A task is never cut in two: one that is larger comes alone.
        """
        max_rows = _check.positive_integer("max_rows", max_rows, remedy="use 100_000, say")
        for first, last in _splits.runs_of_tasks(self.offsets, max_rows):
            yield self.take_tasks(slice(first, last))

    # Splits

    def _dealer(self, random_state: Any) -> _splits.Dealer:
        return _splits.Dealer(self.names, self.offsets, _splits.seed_of(random_state))

    def random_numbers(self, random_state: Any = None) -> AnyArray:
        """One random 64-bit number for each stored row (N,), to deal rows with.

        Guarantee: a task's numbers follow from the seed, its name and its own number of rows.
        """
        return self._dealer(random_state).of_rows()

    def split(self, test_size: float = 0.3, *, random_state: Any = None) -> tuple[TaskSet, TaskSet]:
        """Split within tasks into (train, test).

        Every task gets ``round(test_size * n_i)`` test rows, but one row at least on either side; a
        task of one row is trained on only.

        Parameters
        ----------
        test_size : float
            Share of each task's rows to test on, between 0 and 1.
        random_state : int or numpy Generator, optional
            Seed of the shuffle; splits carry no privacy and need no secret randomness.

        Guarantee: which rows of a task are held out follows from the seed, its name and their
        number. No other task can change it, or be read from it.
        """
        if self.n_rows == self.n_tasks:
            raise InvalidInput("split: every task has a single row, so nothing is left to test on")
        test = self.held_out(test_size, random_state=random_state)
        return self.take_rows(~test), self.take_rows(test)

    def held_out(self, test_size: float = 0.3, *, random_state: Any = None) -> AnyArray:
        """Return which stored rows (N,) `split` tests on; none, if every task has a single row."""
        test_size = _check.fraction("test_size", test_size, remedy="use 0.3, say")
        dealer = self._dealer(random_state)
        return _splits.test_rows(self.task_of_row, self.offsets, test_size, dealer)

    def kfold(
        self, n_folds: int = 5, *, random_state: Any = None
    ) -> Iterator[tuple[TaskSet, TaskSet]]:
        """Yield (train, test) for each of ``n_folds`` folds within tasks.

        Every task is in every training set. A task with fewer rows than folds is tested in as many
        folds as it has rows, a task of one row in none.

        Guarantee: as for `split`, a task's folds follow from the seed, its name and its own rows.
        """
        n_folds = _check.positive_integer("n_folds", n_folds, remedy="use 5, say")
        largest = int(self.counts.max())
        if not 2 <= n_folds <= largest:
            raise InvalidInput(
                f"n_folds={n_folds}: must lie between 2 and {largest}, the rows of the largest task"
            )
        fold = _splits.fold_of_row(
            self.task_of_row, self.offsets, n_folds, self._dealer(random_state)
        )
        for number in range(n_folds):
            if np.any(fold == number):
                yield self.take_rows(fold != number), self.take_rows(fold == number)

    # Local steps and sums

    def with_intercept(self, value: float = 1.0) -> TaskSet:
        """Append a constant column, named ``intercept``.

        Guarantee: reads no data: free for every unit. The column counts in a row's norm: add it
        before `normalised_rows` or `clipped_rows`.
        """
        value = _check.positive("value", value, remedy="use 1.0")
        column = np.full((self.n_rows, 1), value, dtype=self.X.dtype)
        names = None if self.feature_names is None else (*self.feature_names, "intercept")
        X = np.concatenate([self.X, column], axis=1)
        return TaskSet(X, self.y, self.offsets, self.names, self.order, names, self.weights)

    def centred(self) -> tuple[TaskSet, Centring]:
        """Take every task's own mean out of its features and targets.

        Guarantee: with the task as unit, free: each task uses only its own rows for itself. With
        one row as unit, a message made from centred rows depends on that row through the mean
        as well, which the row's clip does not bound: do not use it there, or pay for it.
        """
        starts = self.offsets[:-1]
        x_mean = np.add.reduceat(self.X, starts, dtype=np.float64) / self.counts[:, None]
        X = self.X - x_mean.astype(self.X.dtype)[self.task_of_row]
        y, y_mean = None, None
        if self.y is not None:
            y_mean = np.add.reduceat(self.y, starts, dtype=np.float64) / self.counts
            y = self.y - y_mean.astype(self.y.dtype)[self.task_of_row]
        centred = dataclasses.replace(self, X=X, y=y)
        return centred, Centring(x_mean, y_mean)

    def normalised_rows(self, norm: float = 1.0) -> TaskSet:
        """Scale every row to Euclidean norm ``norm``; zero rows stay zero.

        Guarantee: each row is changed by itself alone and the norm is a public constant, so the
        step is free for every unit, and no row is longer than ``norm`` even after rounding.
        Never take ``norm`` from the data: the largest norm of private rows is a release.
        """
        norm = _check.positive("norm", norm, remedy="use norm=1.0")
        return self._with_rows(scale_rows(self.X, norm, clip=False))

    def clipped_rows(self, norm: float = 1.0) -> TaskSet:
        """Scale rows longer than ``norm`` down to it; the others stay as they are.

        Guarantee: as for `normalised_rows`.
        """
        norm = _check.positive("norm", norm, remedy="use norm=1.0")
        return self._with_rows(scale_rows(self.X, norm, clip=True))

    def _with_rows(self, X: Array) -> TaskSet:
        return dataclasses.replace(self, X=X)

    def task_sums(self, values: AnyArray) -> AnyArray:
        """Sum values (N,) or (N, k) in stored order within each task: (m,) or (m, k)."""
        values = np.asarray(values)
        if len(values) != self.n_rows:
            raise InvalidInput(f"values: has {len(values)} rows but the tasks have {self.n_rows}")
        if values.dtype == np.bool_:
            values = values.astype(np.int64)
        result: AnyArray = np.add.reduceat(values, self.offsets[:-1], axis=0)
        return result
