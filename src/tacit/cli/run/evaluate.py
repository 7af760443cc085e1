"""Hold-out evaluation within tasks, against learning alone and pooling.

The scores are computed from private rows: they stay with whoever runs the command, and a party's
files hold its own scores only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.cli.run.methods import estimator_class
from tacit.cli.table.prepare import Prepared
from tacit.tasks import TaskSet

__all__ = ["Evaluation", "evaluate", "hold_out"]

_SPLIT_SEED = 0  # which rows are held out is no secret and should repeat


@dataclass(frozen=True)
class Evaluation:
    """Errors on held-out rows: of all rows together, and task by task."""

    measure: str
    overall: dict[str, float]
    by_task: tuple[dict[str, Any], ...]
    rows: Prepared
    baselines: dict[str, Any] = field(default_factory=dict)


def hold_out(prepared: Prepared, test_size: float) -> tuple[Prepared, Prepared]:
    """Split the rows of every task into (train, test); of tasks of one row each, all to train on.

    Guarantee: a party's split follows from its own name and its own rows (see `TaskSet.split`).
    """
    labels = [str(name) for name in prepared.tasks]
    rows = TaskSet.from_arrays(np.zeros((len(labels), 1)), tasks=labels)
    test = rows.held_out(test_size, random_state=_SPLIT_SEED)
    return prepared.rows(np.sort(rows.order[~test])), prepared.rows(np.sort(rows.order[test]))


def evaluate(model: Any, method: str, train: Prepared, test: Prepared) -> Evaluation:
    """Compare the model with learning alone and with pooling, on the same held-out rows."""
    baselines = {
        name: estimator_class(name, train.kind)().fit(train.X, train.y, tasks=train.tasks)
        for name in ("single-task", "pooled")
        if name != method
    }
    models = {method: model, **baselines}
    losses = {name: _losses(fitted, test) for name, fitted in models.items()}
    regression = test.kind == "regression"
    scale = float(np.var(test.y)) if regression else 1.0
    by_task = []
    for code, name in enumerate(test.names):
        own = test.codes == code
        if own.any():
            errors = {column: float(loss[own].mean()) for column, loss in losses.items()}
            by_task.append({"task": name, "n_test": int(own.sum()), **errors})
    overall = {name: float(loss.mean()) / (scale or 1.0) for name, loss in losses.items()}
    measure = "mean squared error / variance" if regression else "error rate"
    return Evaluation(measure, overall, tuple(by_task), test, baselines)


def _losses(model: Any, test: Prepared) -> AnyArray:
    predicted = model.predict(test.X, tasks=test.tasks)
    if test.kind == "regression":
        return (predicted - test.y) ** 2
    return (predicted != test.y).astype(float)
