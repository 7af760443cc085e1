"""One model for all tasks from all rows: the other extreme, without privacy."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.estimators._base import Learned, outputs
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._weighted import WeightedRows
from tacit.numerics.local_fit import local_fits
from tacit.privacy.plan import Plan
from tacit.privacy.statement import Statement
from tacit.tasks import TaskSet

__all__ = ["PooledClassifier", "PooledRegressor"]


class _Pooled(WeightedRows):
    _weights_within = "all"
    _parameter_constraints: ClassVar[Constraints] = {
        "alpha": ["auto", rule(_check.non_negative, remedy='use "auto" or a ridge strength')],
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        fit_intercept: bool = True,
        unknown_task: str = "error",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.unknown_task = unknown_task

    def plan(
        self, n_tasks: int, n_features: int, *, n_outputs: int = 1, n_rows: int | None = None
    ) -> Plan:
        """Return what a fit would cost; ``n_rows``, the rows of all tasks, are what is sent."""
        self._check_parameters()
        return Plan.without_releases(
            type(self).__name__,
            n_tasks,
            n_features,
            n_outputs=n_outputs,
            n_rows=_check.positive_integer(
                "n_rows", n_rows, remedy="pooling sends every row: give the number of all of them"
            ),
            pooled=True,
        )

    def _later(self, tasks: TaskSet, targets: Array) -> Array:  # noqa: ARG002
        shared = [np.asarray(self.shared_coef_), np.asarray(self.shared_intercept_)]
        return np.column_stack(shared)[None]

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        together = TaskSet.from_arrays(tasks.X, targets[:, 0])
        if tasks.weights is not None:
            together = together.weighted(tasks.weights)
        fits = local_fits(
            tuple(outputs(together, targets)),
            self._loss,
            alpha=self.alpha,
            intercept=self.fit_intercept,
            many=False,
        )
        coef = np.stack([fit.coef[0] for fit in fits])
        intercept = np.stack([fit.intercept[0] for fit in fits])
        return Learned(
            coef=np.repeat(coef[None], tasks.n_tasks, axis=0),
            intercept=np.repeat(intercept[None], tasks.n_tasks, axis=0),
            statement=self._statement(),
            shared_coef=coef,
            shared_intercept=intercept,
        )

    @staticmethod
    def _statement() -> Statement:
        return Statement.non_private(
            not_protected=("every row of every task: all rows were pooled in one place",)
        )

    def _rehearse(self, sizes: Any) -> Statement:  # noqa: ARG002
        return self._stated(self._statement())


class PooledRegressor(MultiTaskRegressor, _Pooled):
    """One ridge regression on the rows of all tasks together, without privacy.

    Parameters
    ----------
    alpha : "auto" or float, default "auto"
        Strength on the scale of scikit-learn's ``Ridge``; "auto" takes the one with the smallest
        leave-one-out error.
    fit_intercept : bool, default True
    unknown_task : "error" or "shared"
        What to do at predict time with a task that was not there at fit time.

    Guarantee: none. Everybody's rows are pooled and the model is everybody's.
    """


class PooledClassifier(MultiTaskClassifier, _Pooled):
    """One logistic regression on the rows of all tasks together, without privacy.

    Parameters are those of :class:`PooledRegressor`.

    Guarantee: none. Everybody's rows are pooled and the model is everybody's.
    """
