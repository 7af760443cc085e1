"""Splitters that cut within tasks, with scikit-learn's splitter API."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.model_selection import BaseCrossValidator

from tacit import _check
from tacit._types import AnyArray
from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

__all__ = ["TaskKFold", "TaskShuffleSplit"]


class _TaskSplitter(BaseCrossValidator):
    # Asked for by default: wherever metadata are routed, labels of tasks arrive here.
    __metadata_request__split: ClassVar[dict[str, bool]] = {"tasks": True}

    n_splits: int

    def split(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        groups: Any = None,
        tasks: Any = None,
    ) -> Iterator[tuple[AnyArray, AnyArray]]:
        """Yield (train, test) positions of rows; every task is in every training set.

        Parameters
        ----------
        X : array or frame with one row an example
        y : ignored
        groups, tasks : array-like of one task label a row, under either name
            ``groups`` is for callers that route nothing.
        """
        labels = groups if tasks is None else tasks
        if labels is None:
            raise InvalidInput(
                f"tasks=None: {type(self).__name__} splits within tasks; pass tasks= (or groups= "
                "where metadata are not routed) with one label per row"
            )
        labels = list(labels)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        if len(labels) != n_rows:
            raise InvalidInput(
                f"tasks: has {len(labels)} labels for {n_rows} rows; pass one label per row"
            )
        rows = TaskSet.from_arrays(np.zeros((len(labels), 1)), tasks=labels)
        for train, test in self._parts(rows):
            yield np.sort(train.order), np.sort(test.order)

    @abstractmethod
    def _parts(self, rows: TaskSet) -> Iterator[tuple[TaskSet, TaskSet]]:
        """Yield the rows to train on and to test on."""

    def get_n_splits(
        self,
        X: Any = None,  # noqa: ARG002
        y: Any = None,  # noqa: ARG002
        groups: Any = None,  # noqa: ARG002
        tasks: Any = None,  # noqa: ARG002
    ) -> int:
        """Return the number of splits, whatever the rows."""
        return self.n_splits


class TaskKFold(_TaskSplitter):
    """Folds within tasks: every task is trained on in every fold.

    Parameters
    ----------
    n_splits : int, default 5
    random_state : int or None
        Seed of the shuffle. Splits carry no privacy; with None every call deals anew.

    A task with fewer rows than folds is tested in as many folds as it has rows, a task of one row
    in none.

    Guarantee: a task's folds follow from the seed, its name and its own number of rows.
    """

    def __init__(self, n_splits: int = 5, *, random_state: Any = None) -> None:
        self.n_splits = _check.positive_integer("n_splits", n_splits, remedy="use 5, say")
        self.random_state = random_state

    def _parts(self, rows: TaskSet) -> Iterator[tuple[TaskSet, TaskSet]]:
        parts = list(rows.kfold(self.n_splits, random_state=self.random_state))
        if len(parts) < self.n_splits:
            raise InvalidInput(
                f"n_splits={self.n_splits}: the tasks have rows for {len(parts)} folds only; use "
                "fewer, or TaskShuffleSplit"
            )
        yield from parts


class TaskShuffleSplit(_TaskSplitter):
    """Repeated splits within tasks, a share of every task's rows to test on.

    Parameters
    ----------
    n_splits : int, default 5
    test_size : float, default 0.3
    random_state : int or None

    Every task has one row at least on either side; a task of one row is trained on only.

    Guarantee: as for `TaskKFold`.
    """

    def __init__(
        self, n_splits: int = 5, *, test_size: float = 0.3, random_state: Any = None
    ) -> None:
        self.n_splits = _check.positive_integer("n_splits", n_splits, remedy="use 5, say")
        self.test_size = _check.fraction("test_size", test_size, remedy="use 0.3, say")
        self.random_state = random_state

    def _parts(self, rows: TaskSet) -> Iterator[tuple[TaskSet, TaskSet]]:
        seeds = np.random.default_rng(self.random_state)
        for _ in range(self.n_splits):
            yield rows.split(self.test_size, random_state=int(seeds.integers(2**62)))
