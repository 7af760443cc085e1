"""Accuracy of the methods at equal privacy, on the paper's synthetic tasks and on real ones.

``python benchmarks/accuracy.py`` prints one table a data set and writes them to
``benchmarks/results/accuracy.json``; name data sets to run only those, ``--methods`` and
``--epsilons`` to choose columns and rows, ``--draws`` for more or fewer repetitions.

Splits are 30 % for training within every task (chem97: 10 %). Nothing is tuned on test rows, with
one exception that favours the other side: ``published-wishart``, the leaking algorithm printed in
the paper, gets the hyper-parameters that do best on the test rows. Errors are MSE over the variance
of the test targets (nMSE); AUC is averaged over tasks. Features are scaled by public constants.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

import tacit
from tacit import datasets
from tacit.errors import PrivacyWarning
from tacit.tasks import TaskSet

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, math.inf)
OPEN = {"single-task": "SingleTask", "pooled": "Pooled"}
PRIVATE = {
    "shared-prior": "SharedPrior",
    "low-rank": "LowRank",
    "group-sparse": "GroupSparse",
    "mean-regularized": "MeanRegularized",
}
PUBLISHED = "published-wishart"
ONE_RELEASE = "one-release"  # of the models' second moment, with all of the budget
# Largest values of the counts among the features, rounded; the others are 0/1.
DIABETES_SCALES = {
    "age_decade_mid": 100,
    "time_in_hospital": 10,
    "num_lab_procedures": 100,
    "num_procedures": 5,
    "num_medications": 50,
    "number_diagnoses": 10,
}

Split = tuple[TaskSet, TaskSet]


@dataclass(frozen=True)
class Setting:
    """A data set, how it is scored and what its models look like."""

    split: Callable[[int], Split]
    metric: str  # "nMSE", "accuracy" or "AUC"
    fit_intercept: bool = True
    delta: float | str = "auto"

    @property
    def kind(self) -> str:
        """Name of the estimators' family."""
        return "Regressor" if self.metric == "nMSE" else "Classifier"

    def score(self, model: Any, test: TaskSet) -> float:
        """Return the setting's metric on the test rows."""
        of = {"tasks": test.task_of_row}
        y = np.asarray(test.y)
        if self.metric == "nMSE":
            return float(np.mean((y - model.predict(test.X, **of)) ** 2) / np.var(y))
        scores = model.decision_function(test.X, **of)
        if scores.ndim > 1:  # several classes
            return float(np.mean(model.classes_[scores.argmax(axis=1)] == y))
        if self.metric == "accuracy":
            return float(np.mean((scores > 0) == (y > 0.5)))
        parts = [slice(*test.offsets[i : i + 2]) for i in range(test.n_tasks)]
        mixed = [p for p in parts if 0 < y[p].sum() < len(y[p])]
        return float(np.mean([roc_auc_score(y[p], scores[p]) for p in mixed]))


def _synthetic(make: Callable[..., datasets.Synthetic]) -> Setting:
    def split(draw: int) -> Split:
        made = make(random_state=draw)
        return made.train, made.test

    return Setting(split, "nMSE", fit_intercept=False, delta=1 / (320 * math.log(320)))


def _within_tasks(X: Any, y: Any, labels: Any, test_size: float = 0.7) -> Callable[[int], Split]:
    tasks = TaskSet.from_arrays(np.asarray(X, float), np.asarray(y, float), labels)
    return lambda draw: tasks.split(test_size=test_size, random_state=draw)


def school() -> Setting:
    """Exam scores of 139 schools; the two percentages become fractions."""
    data = datasets.load_school()
    scale = np.array([0.01 if name.startswith("pct_") else 1.0 for name in data.feature_names])
    return Setting(_within_tasks(data.X * scale, data.y, data.tasks), "nMSE")


def chem97() -> Setting:
    """Chemistry grades in 131 local authorities, 10 % for training; ranges are taken for public."""
    data = datasets.load_chem97()
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    X = (data.X - low) / np.where(high > low, high - low, 1.0)
    return Setting(_within_tasks(X, data.y, data.tasks, 0.9), "nMSE")


def mnist(*, digits: bool = False) -> Setting:
    """836 writers, digit below five or not or which, pixels by a public random projection to 30."""
    data = datasets.load_mnist()
    projection = np.random.default_rng(0).normal(size=(784, 30)) / 28.0
    X = (data.X.astype(np.float32) / 255.0) @ projection.astype(np.float32)
    answers = data.y if digits else data.y < 5
    return Setting(_within_tasks(X, answers, data.tasks), "accuracy")


def landmine() -> Setting:
    """29 mine fields."""
    data = datasets.load_landmine()
    return Setting(_within_tasks(data.X, data.y, data.tasks), "AUC")


def diabetes130() -> Setting:
    """30 medical specialties; first encounters of patients who lived."""
    data = datasets.load_diabetes130()
    kept = data.extras["first_encounter"] & ~data.extras["expired_or_hospice"]
    scale = np.array([1.0 / DIABETES_SCALES.get(name, 1) for name in data.feature_names])
    assert data.tasks is not None
    return Setting(_within_tasks(data.X[kept] * scale, data.y[kept], data.tasks[kept]), "AUC")


SETTINGS: dict[str, Callable[[], Setting]] = {
    "low-rank": lambda: _synthetic(datasets.make_low_rank),
    "group-sparse": lambda: _synthetic(datasets.make_group_sparse),
    "school": school,
    "chem97": chem97,
    "mnist": mnist,
    "mnist-digits": lambda: mnist(digits=True),
    "landmine": landmine,
    "diabetes130": diabetes130,
}


def published(setting: Setting, epsilon: float, draw: int) -> Iterator[Any]:
    """Yield the paper's Algorithm 2 with its Wishart noise over a grid of hyper-parameters."""
    for alpha in (0.001, 0.01, 0.1, 1.0, 10.0):
        for clip in (10.0, 40.0):
            yield tacit.LowRankRegressor(
                epsilon,
                delta=setting.delta,
                alpha=alpha,
                clip=clip,
                mechanism="wishart-published",
                update="proximal",
                shrinkage="soft-threshold",
                fit_intercept=setting.fit_intercept,
                random_state=draw,
            )


def models(method: str, setting: Setting, epsilon: float, draw: int) -> Iterator[Any]:
    """Yield the models to try; the best on the test rows counts where there are several."""
    if method == PUBLISHED:
        yield from published(setting, epsilon, draw)
    elif method == ONE_RELEASE:
        yield getattr(tacit, "LowRank" + setting.kind)(
            epsilon,
            delta=setting.delta,
            n_rounds=1,
            fit_intercept=setting.fit_intercept,
            random_state=draw,
        )
    elif method in OPEN:
        yield getattr(tacit, OPEN[method] + setting.kind)(fit_intercept=setting.fit_intercept)
    else:
        yield getattr(tacit, PRIVATE[method] + setting.kind)(
            epsilon,
            delta=setting.delta,
            fit_intercept=setting.fit_intercept,
            random_state=draw,
        )


def measured(setting: Setting, method: str, epsilon: float, draws: range) -> list[float]:
    """Return the score of every draw."""
    best = min if setting.metric == "nMSE" else max
    found = []
    for draw in draws:
        train, test = setting.split(draw)
        scores = []
        for model in models(method, setting, epsilon, draw):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", PrivacyWarning)
                model.fit(train.X, train.y, tasks=train.task_of_row)
            scores.append(setting.score(model, test))
        found.append(best(scores))
    return found


def table(name: str, methods: list[str], epsilons: list[float], draws: range) -> dict[str, Any]:
    """Print and return one data set's table."""
    setting, n_draws = SETTINGS[name](), len(draws)
    print(f"\n{name}: {setting.metric}, mean of {n_draws} draws ± standard error", flush=True)
    rows: dict[str, Any] = {"metric": setting.metric, "n_draws": n_draws}
    for method in methods:
        if method == PUBLISHED and setting.kind == "Classifier":
            continue
        budgets = [math.inf] if method in OPEN else epsilons
        if method == PUBLISHED:
            budgets = [epsilon for epsilon in epsilons if math.isfinite(epsilon)]
        for epsilon in budgets:
            begin = time.perf_counter()
            scores = measured(setting, method, epsilon, draws)
            error = np.std(scores, ddof=1) / math.sqrt(n_draws) if n_draws > 1 else math.nan
            label = method if method in OPEN else f"{method}, ε = {epsilon:g}"
            seconds = (time.perf_counter() - begin) / n_draws
            print(
                f"  {label:32s} {np.mean(scores):.4f} ± {error:.4f}   {seconds:6.1f} s", flush=True
            )
            rows[label] = scores
    return rows


def main() -> None:
    """Run the chosen tables."""
    methods = [*OPEN, *PRIVATE, PUBLISHED]
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="data set", help=", ".join(SETTINGS))
    parser.add_argument("--methods", nargs="+", default=methods, choices=[*methods, ONE_RELEASE])
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results/accuracy.json")
    chosen = parser.parse_args()
    unknown = sorted(set(chosen.names) - set(SETTINGS))
    if unknown:
        parser.error(f"data set {unknown[0]!r}: must be one of {', '.join(SETTINGS)}")
    tables = json.loads(chosen.out.read_text()) if chosen.out.exists() else {}
    for name in chosen.names or SETTINGS:
        draws = range(chosen.first, chosen.first + chosen.draws)
        rows = table(name, chosen.methods, chosen.epsilons, draws)
        tables[name] = tables.get(name, {}) | rows
        chosen.out.parent.mkdir(parents=True, exist_ok=True)
        chosen.out.write_text(json.dumps(tables, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
