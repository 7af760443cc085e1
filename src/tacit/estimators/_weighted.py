"""Estimators that take weights of rows."""

from __future__ import annotations

from typing import Any, Self

from tacit.estimators._base import MultiTaskEstimator

__all__ = ["WeightedRows"]


class WeightedRows(MultiTaskEstimator):
    """An estimator whose tasks compute all they say and learn from weighted rows.

    Guarantee: weights act at home, before a message is bounded, and a bound holds whatever a task
    computed: every sensitivity is what it was, with the task as unit. They are private like rows.
    """

    def fit(
        self, X: Any, y: Any = None, *, tasks: Any = None, sample_weight: Any = None, **refused: Any
    ) -> Self:
        """Learn one model per task.

        Parameters
        ----------
        X, y, tasks : as for every estimator
        sample_weight : array-like of shape (n_rows,), or None
            How much rows count, relative to the heaviest of their task, which counts for one row
            (in pooled learning: of all tasks). Not negative; some row of every task must count.
        """
        if refused or sample_weight is None:
            return super().fit(X, y, tasks=tasks, **refused)
        self._refuse_weights()
        with self._unchanged_if_refused():
            self._fit(X, y, tasks, sample_weight)
        return self

    def _refuse_weights(self) -> None:
        """Refuse, by name, settings under which weights would not count."""
