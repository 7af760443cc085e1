"""Data, methods and scores of the model-protected paper's experiments, by name."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import tacit
from tacit.datasets import (
    load_diabetes130,
    load_landmine,
    load_school,
    make_group_sparse,
    make_low_rank,
)
from tacit.errors import PrivacyWarning
from tacit.tasks import TaskSet

__all__ = ["load", "paper_delta", "score", "train"]


def paper_delta(n_tasks: int) -> float:
    """Return the paper's δ = 1/(m log m), weak but needed for comparison."""
    return 1 / (n_tasks * math.log(n_tasks))


def load(name: str, run: int, n_tasks: int | None = None) -> tuple[TaskSet, TaskSet]:
    """Return training and test rows of a run; real sets keep 30 % of every task for training."""
    if name in ("low-rank", "group-sparse"):
        make = make_low_rank if name == "low-rank" else make_group_sparse
        data = make(random_state=run)
        if n_tasks is None:
            return data.train, data.test
        # Tasks come in groups; in random order every number of tasks has all the groups in it.
        kept = np.random.default_rng(0).permutation(data.train.n_tasks)[:n_tasks]
        return data.train.take_tasks(kept), data.test.take_tasks(kept)
    if name == "school":
        tasks = load_school().taskset()
        return _unit_rows(tasks).split(0.7, random_state=run)
    if name == "landmine":
        data = load_landmine()
        return _unit_rows(data.taskset()).split(0.7, random_state=run)
    data = load_diabetes130()
    kept = data.extras["first_encounter"] & ~data.extras["expired_or_hospice"]
    X = np.asarray(data.X[kept], dtype=np.float64)
    X = X / np.maximum(X.max(axis=0), 1)  # counts: the largest code, as in the code book
    tasks = TaskSet.from_arrays(X, data.y[kept].astype(float), np.asarray(data.tasks)[kept])
    return _unit_rows(tasks).split(0.7, random_state=run)


def _unit_rows(tasks: TaskSet) -> TaskSet:
    """Scale every row to norm 1, as the paper does for real data."""
    return tasks.replace(X=np.asarray(tasks.X, dtype=np.float64)).normalised_rows(1.0)


def train(
    method: dict[str, Any], train_rows: TaskSet, epsilon: float, *, kind: str, seed: int
) -> Any:
    """Fit one method of a configuration."""
    parameters = dict(method.get("parameters", {}))
    for level, tuned in method.get("tuned", {}).items():
        if math.isclose(float(level), epsilon):
            parameters.update(tuned)
    if method["estimator"] not in ("SingleTask", "Pooled"):
        parameters["epsilon"] = math.inf if method.get("open") else epsilon
        if not method.get("open"):
            parameters.setdefault("delta", paper_delta(train_rows.n_tasks))
            parameters["random_state"] = seed
    model = getattr(tacit, method["estimator"] + kind)(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        labels = np.asarray(train_rows.names)[train_rows.task_of_row]
        return model.fit(train_rows.X, train_rows.y, tasks=labels)


def score(model: Any, test_rows: TaskSet, metric: str, n_tasks: int | None = None) -> float:
    """Return the nMSE over all test rows, or the mean AUC over tasks with both classes."""
    rows = test_rows if n_tasks is None else test_rows.take_tasks(np.arange(n_tasks))
    labels = np.asarray(rows.names)[rows.task_of_row]
    y = np.asarray(rows.y)
    if metric == "nmse":
        return float(np.mean((model.predict(rows.X, tasks=labels) - y) ** 2) / np.var(y))
    scores = model.decision_function(rows.X, tasks=labels)
    values = []
    for low, high in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
        if 0 < y[low:high].sum() < high - low:
            values.append(roc_auc_score(y[low:high], scores[low:high]))
    return float(np.mean(values))
