"""The paper's settings on data one can obtain: draws, public projections and the methods."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import tacit
from tacit._types import AnyArray, Array
from tacit.datasets import load_mnist

__all__ = ["Projected", "Transfer", "auc", "digits", "draw", "fit", "projected"]


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


@functools.cache
def _mnist() -> Projected:
    mnist = load_mnist()
    return projected(mnist.X, mnist.y, public=range(1, 8))


@functools.lru_cache(maxsize=4)
def digits(seed: int) -> Transfer:
    """Return a draw of the paper's MNIST setting: 0 against 8 → 0 against 9."""
    return draw(_mnist(), (0, 8), (0, 9), seed)


def fit(
    method: str, data: Transfer, epsilon: float, seed: int, *, delta: float = 0.0, n_groups: int = 5
) -> Any:
    """Return one of the paper's five methods, with defaults, or the line without privacy."""
    if method == "no privacy":
        X = data.target[0]
        unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
        return LogisticRegression(C=10.0, max_iter=500).fit(unit, data.target[1])
    options: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "random_state": seed}
    if method == "Direct":
        return tacit.PrivateLogisticRegression(**options).fit(*data.target)
    if method in ("FS(W)", "FS(R)"):
        split = {"split": "importance", "importance": data.importance}
        if method == "FS(R)":
            split = {"split": "random", "split_seed": seed}
        model: Any = tacit.FeatureSplitTransferClassifier(n_groups=n_groups, **split, **options)
    else:
        model = tacit.TransferClassifier(**options)
    package = model.fit_source(*data.source)
    return package if method == "SourceD" else model.fit(*data.target, source=package)


def auc(model: Any, test: tuple[Array, AnyArray]) -> float:
    """Return the area under the ROC curve on the test rows."""
    X = test[0]
    if isinstance(model, LogisticRegression):
        X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return float(roc_auc_score(test[1], model.decision_function(X)))
