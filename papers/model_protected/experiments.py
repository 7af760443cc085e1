"""Data, methods and scores of the model-protected paper's experiments, by name."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import tacit
from tacit.datasets import (
    load_landmine,
    load_school,
    load_stackex_cs,
    load_yeast,
    make_group_sparse,
    make_low_rank,
)
from tacit.errors import PrivacyWarning
from tacit.tasks import TaskSet

from .baselines import BASELINES

__all__ = ["TUNED", "choices", "load", "paper_delta", "score", "train", "tuned"]

TUNED = Path(__file__).parent / "tuned.json"


def paper_delta(n_tasks: int) -> float:
    """Return the paper's δ = 1/(m log m), weak but needed for comparison."""
    return 1 / (n_tasks * math.log(n_tasks))


@functools.lru_cache(maxsize=8)
def load(
    name: str, run: int, n_tasks: int | None = None, share: float = 0.3
) -> tuple[TaskSet, TaskSet]:
    """Return training and test rows of a run; real sets keep ``share`` of a task for training."""
    if name in ("low-rank", "group-sparse"):
        make = make_low_rank if name == "low-rank" else make_group_sparse
        data = make(random_state=run)
        if n_tasks is None:
            return data.train, data.test
        # Tasks come in groups; in random order every number of tasks has all the groups in it.
        kept = np.random.default_rng(0).permutation(data.train.n_tasks)[:n_tasks]
        return data.train.take_tasks(kept), data.test.take_tasks(kept)
    return _unit_rows(_real(name)).split(1 - share, random_state=run)


@functools.lru_cache(maxsize=4)
def _real(name: str) -> TaskSet:
    if name == "school":
        return load_school().taskset()
    if name == "landmine":
        return load_landmine().taskset()
    if name.startswith("stackex"):
        return _tags(every=1, width=100) if name == "stackex-all" else _tags(every=14, width=20)
    return load_yeast().taskset()


def _tags(*, every: int, width: int) -> TaskSet:
    """Return tags of the same questions as tasks, words projected at random.

    Which tags, and the projection, are chosen without a look at the rows.
    """
    data = load_stackex_cs()
    mixed = np.random.default_rng(0).standard_normal((data.X.shape[1], width)) / math.sqrt(width)
    rows = dataclasses.replace(data, X=data.X.astype(np.float64) @ mixed)
    return rows.taskset(outcomes=range(0, data.y.shape[1], every))


def _unit_rows(tasks: TaskSet) -> TaskSet:
    """Scale every row to norm 1, as the paper does for real data."""
    return tasks.replace(X=np.asarray(tasks.X, dtype=np.float64)).normalised_rows(1.0)


@functools.cache
def choices(method: str) -> dict[str, Any]:
    """Return what `tune.py` chose for a printed method, by data set and level."""
    known = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
    return dict(known.get(method, {}))


def tuned(method: str, data: str, epsilon: float) -> dict[str, Any]:
    """Return the choice at the nearest of the tuned levels."""
    levels = choices(method)[data]
    nearest = min(levels, key=lambda level: abs(math.log(float(level) / epsilon)))
    return dict(levels[nearest]["best"])


def train(
    method: dict[str, Any], rows: TaskSet, epsilon: float, *, data: str, kind: str, seed: int
) -> Any:
    """Fit one method of a configuration: an estimator of tacit, or a printed opponent."""
    parameters = dict(method.get("parameters", {}))
    if "tuned" in method:
        parameters = tuned(method["tuned"], data, epsilon) | parameters
    delta = paper_delta(rows.n_tasks)
    synthetic = data in ("low-rank", "group-sparse")  # generated without an intercept
    if "baseline" in method:
        fit = BASELINES[method["baseline"]]
        settings = {"epsilon": epsilon, "delta": delta, "seed": seed, **parameters}
        return fit(rows, kind=kind, intercept=not synthetic, **settings)
    parameters.setdefault("fit_intercept", not synthetic)
    if method["estimator"] not in ("SingleTask", "Pooled"):
        parameters["epsilon"] = math.inf if method.get("open") else epsilon
        if not method.get("open"):
            parameters = {"delta": delta, "random_state": seed} | parameters
    model = getattr(tacit, method["estimator"] + kind)(**parameters)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        labels = np.asarray(rows.names)[rows.task_of_row]
        return model.fit(rows.X, rows.y, tasks=labels)


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
