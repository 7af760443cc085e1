"""The paper's settings on data one can obtain: draws, public projections and the five methods."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

import tacit
from tacit._types import AnyArray, Array

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Transfer:
    """A source's training rows, a target's training rows, and the target's test rows."""

    source: tuple[Array, AnyArray]
    target: tuple[Array, AnyArray]
    test: tuple[Array, AnyArray]
    importance: Array


@dataclass(frozen=True)
class Projected:
    """Images projected on the leading components of *public* images, with their variances."""

    X: Array
    y: AnyArray
    importance: Array


def projected(
    X: AnyArray, y: AnyArray, public: Iterable[int], n_components: int = 100
) -> Projected:
    """Return all images on the principal components of the classes ``public``.

    Mean, components and variances come from classes that are in neither task, taken for public:
    they tell nothing about a row of source or target.
    """
    images = np.asarray(X, dtype=np.float32) / 255
    known = images[np.isin(y, list(public))]
    mean = known.mean(axis=0)
    variance, vectors = np.linalg.eigh(np.cov((known - mean).T))
    leading = np.argsort(variance)[::-1][:n_components]
    kept = variance[leading]
    components = (images - mean) @ vectors[:, leading].astype(np.float32)
    return Projected(np.asarray(components, dtype=np.float64), y, kept / kept.sum())


def draw(
    data: Projected,
    source: tuple[int, int],
    target: tuple[int, int],
    seed: int,
    *,
    n_source: int = 2000,
    n_target: int = 1000,
) -> Transfer:
    """Draw source and target without a common row; 80 % of each is for training."""
    rng = np.random.default_rng(seed)
    free = {c: list(rng.permutation(np.flatnonzero(data.y == c))) for c in {*source, *target}}

    def sample(classes: tuple[int, int], n_rows: int) -> tuple[Array, AnyArray]:
        n_second = int(rng.binomial(n_rows, 0.5))
        rows = [free[classes[0]].pop() for _ in range(n_rows - n_second)]
        rows += [free[classes[1]].pop() for _ in range(n_second)]
        mixed = rng.permutation(rows)
        return data.X[mixed], (data.y[mixed] == classes[1]).astype(int)

    Xs, ys = sample(source, n_source)
    Xt, yt = sample(target, n_target)
    a, b = int(0.8 * n_source), int(0.8 * n_target)
    return Transfer((Xs[:a], ys[:a]), (Xt[:b], yt[:b]), (Xt[b:], yt[b:]), data.importance)


def auc(model: object, test: tuple[Array, AnyArray]) -> float:
    """Return the area under the ROC curve on the test rows."""
    return float(roc_auc_score(test[1], model.decision_function(test[0])))  # type: ignore[attr-defined]


def compare(
    data: Transfer, epsilon: float, seed: int, *, delta: float = 0.0, n_groups: int = 5
) -> dict[str, float]:
    """Return the test AUC of the five methods, all with library defaults."""
    options = {"epsilon": epsilon, "delta": delta, "random_state": seed}
    scores = {}
    splits = {"FS(W)": ("importance", data.importance), "FS(R)": ("random", None)}
    for name, (split, importance) in splits.items():
        model = tacit.FeatureSplitTransferClassifier(
            importance=importance, split=split, n_groups=n_groups, split_seed=seed, **options
        )
        package = model.fit_source(*data.source)
        scores[name] = auc(model.fit(*data.target, source=package), data.test)
    simple = tacit.TransferClassifier(**options)
    package = simple.fit_source(*data.source)
    scores["SimComb"] = auc(simple.fit(*data.target, source=package), data.test)
    scores["SourceD"] = auc(package, data.test)
    direct = tacit.PrivateLogisticRegression(**options)
    scores["Direct"] = auc(direct.fit(*data.target), data.test)
    return scores


def summary(runs: Sequence[dict[str, float]]) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of every method."""
    return {
        name: (float(np.mean([r[name] for r in runs])), float(np.std([r[name] for r in runs])))
        for name in runs[0]
    }


def write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write one CSV file and say so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    print(f"wrote {path}")


def arguments(description: str) -> argparse.Namespace:
    """Return the options every script has: --quick, --repetitions, --first-seed, --out."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="two repetitions")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first repetition")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.quick:
        options.repetitions = 2
    options.seeds = range(options.first_seed, options.first_seed + options.repetitions)
    return options
