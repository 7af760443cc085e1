"""One model per task from the task's own rows: what everybody can have without anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from tacit import _check
from tacit._types import Array
from tacit.engines.gathering import stacked_in_file
from tacit.estimators._base import Learned, outputs
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._weighted import WeightedRows
from tacit.numerics.logistic_dual import are_many
from tacit.privacy.plan import Plan
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols._home import Outputs, fitted
from tacit.tasks import ParquetTasks, TaskSet, one_vs_rest

__all__ = ["SingleTaskClassifier", "SingleTaskRegressor"]


_ROW_NUMBERS = 1 << 23  # numbers of rows in a batch that is read from a file: 64 MB


def _statement(n_tasks: int) -> Statement:
    return Statement.of_nothing(
        Unit.TASK, "joint differential privacy", Adjacency.REPLACE_ONE, n_units=n_tasks
    )


class _SingleTask(WeightedRows):
    _parameter_constraints: ClassVar[Constraints] = {
        "alpha": ["auto", rule(_check.non_negative, remedy='use "auto" or a ridge strength')],
    }

    def __init__(
        self,
        alpha: float | str = "auto",
        *,
        fit_intercept: bool = True,
        intervals: bool = False,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.intervals = intervals

    def plan(
        self, n_tasks: int, n_features: int, *, n_outputs: int = 1, n_rows: int | None = None
    ) -> Plan:
        """Return what a fit would release and cost: nothing."""
        self._check_parameters()
        return Plan.without_releases(
            type(self).__name__, n_tasks, n_features, n_outputs=n_outputs, n_rows=n_rows
        )

    def _later(self, tasks: TaskSet, targets: Array) -> Array:
        return self._models(tuple(outputs(tasks, targets)), len(self.task_names_))

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        return self._learned(self._models(tuple(outputs(tasks, targets)), tasks.n_tasks))

    @property
    def _reads_batches(self) -> bool:
        return True

    def _learn_file(self, rows: ParquetTasks, n_outputs: int, models: Path | None) -> Learned:
        parts = rows.batches(max(1, _ROW_NUMBERS // (rows.n_features + 1)))
        found = (self._models(one_vs_rest(part, n_outputs), rows.n_tasks) for part in parts)
        return self._learned(stacked_in_file(found, rows.n_tasks, models))

    def _models(self, tasks: Outputs, n_tasks: int) -> Array:
        """Return (m, k, d + 1) models, the intercept last, of so many tasks in all."""
        many = are_many(n_tasks, tasks[0].n_features)
        return fitted(tasks, self._loss, alpha=self.alpha, intercept=self.fit_intercept, many=many)

    @staticmethod
    def _learned(models: Array) -> Learned:
        return Learned(
            coef=models[..., :-1],
            intercept=models[..., -1],
            statement=_statement(len(models)),
        )

    def _rehearse(self, sizes: Any) -> Statement:
        return self._stated(_statement(sizes.n_tasks))


class SingleTaskRegressor(MultiTaskRegressor, _SingleTask):
    """Ridge regression of every task on its own.

    Parameters
    ----------
    alpha : "auto" or float, default "auto"
        Strength on the scale of scikit-learn's ``Ridge``; "auto" takes, for each task, the one
        with the smallest leave-one-out error (closed form).
    fit_intercept : bool, default True
        Fit an unpenalised intercept for each task.
    intervals : bool, default False
        Keep what ``predict(…, return_std=True)`` needs: (d + 1)² numbers a task. Regressors only.

    Guarantee: nothing leaves a task, so others learn nothing about it (ε = 0).
    """


class SingleTaskClassifier(MultiTaskClassifier, _SingleTask):
    """Logistic regression of every task on its own.

    Parameters
    ----------
    alpha : "auto" or float, default "auto"
        Ridge strength (scikit-learn's 1/C); "auto" takes, for each task, the one with the smallest
        approximate leave-one-out loss.
    fit_intercept : bool, default True
        Fit an intercept for each task.

    Guarantee: nothing leaves a task, so others learn nothing about it (ε = 0).
    """
