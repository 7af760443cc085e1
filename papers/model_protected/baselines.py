"""The paper's opponents, as it built them: reproductions, not methods to use.

Single-task learning with one strength for all tasks by 5-fold cross-validation; DP-AGGR (Pathak et
al. 2010) and DP-MTRL (Gupta et al. 2016), which protect single rows, *lifted to whole tasks by
Proposition 3*: with n the largest task, (ε/n, δ/(n e^ε)) for rows is (ε, δ) for tasks. Lipschitz
constants are the largest residuals on the data, as the paper takes them: less noise than a proof
would need (it says so), hence generous, and a leak of its own.
"""

from __future__ import annotations

import functools
import itertools
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, lasso_path

from tacit._types import Array
from tacit.numerics.logistic import logistic_paths
from tacit.numerics.ridge import ridge_paths
from tacit.privacy.accounting.pure import composition_bound
from tacit.tasks import TaskSet

__all__ = ["BASELINES", "LinearModel", "mtrl_rounds"]

STRENGTHS = np.logspace(-5, 1, 13)  # of a penalty on the mean loss
SPARSE_STRENGTHS = np.logspace(-4, 0, 9)
FOLDS = 5
_ROUNDED = 1e-3  # share of the identity that keeps Ω invertible


@dataclass(frozen=True)
class LinearModel:
    """A linear model of every task, with the two answers that scores ask for."""

    coef: Array
    intercept: Array
    names: tuple[Any, ...]

    def decision_function(self, X: Array, *, tasks: Any) -> Array:
        """Return x·w + b with the model of each row's task."""
        places = {name: place for place, name in enumerate(self.names)}
        index = np.array([places[name] for name in np.asarray(tasks).tolist()])
        return np.einsum("nd,nd->n", X, self.coef[index]) + self.intercept[index]

    predict = decision_function


def _lasso_task(X: Array, y: Array, kind: str, intercept: bool) -> tuple[Array, Array]:
    """Return ℓ1 fits of one task along `SPARSE_STRENGTHS`: (a, d) and (a,)."""
    if kind == "Regressor":
        x_mean, y_mean = (X.mean(axis=0), y.mean()) if intercept else (0.0 * X[0], 0.0)
        # The path wants falling strengths, and halves the squared loss.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # at the smallest strengths
            _, path, _ = lasso_path(X - x_mean, y - y_mean, alphas=SPARSE_STRENGTHS[::-1])
        coef = path.T[::-1]
        return coef, y_mean - coef @ x_mean
    if len(set(y.tolist())) < 2:
        level = math.log((y.sum() + 0.5) / (len(y) - y.sum() + 0.5))
        return np.zeros((len(SPARSE_STRENGTHS), X.shape[1])), np.full(len(SPARSE_STRENGTHS), level)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # separable rows, the same
        fits = [
            LogisticRegression(
                C=1 / (len(y) * strength), l1_ratio=1.0, solver="liblinear", intercept_scaling=10.0
            ).fit(X, y)
            for strength in SPARSE_STRENGTHS
        ]
    return np.stack([f.coef_[0] for f in fits]), np.array([f.intercept_[0] for f in fits])


def _paths(rows: TaskSet, kind: str, penalty: str, intercept: bool) -> tuple[Array, Array]:
    """Return single-task models at every strength: (a, m, d) and (a, m)."""
    if penalty == "l2":
        fit = ridge_paths if kind == "Regressor" else logistic_paths
        path = fit(rows, rows.counts[:, None] * STRENGTHS, intercept=intercept)
        return path.coef, path.intercept
    X, y, ends = rows.X, np.asarray(rows.y), rows.offsets
    parts = [
        _lasso_task(X[low:high], y[low:high], kind, intercept)
        for low, high in itertools.pairwise(ends)
    ]
    return np.stack([p[0] for p in parts], axis=1), np.stack([p[1] for p in parts], axis=1)


def single_task(
    rows: TaskSet, *, kind: str, intercept: bool, penalty: str = "l2", seed: int = 0, **_: Any
) -> LinearModel:
    """Every task on its own, one strength for all by 5-fold cross-validation, as in the paper."""
    losses: Any = 0.0
    for part, held in rows.kfold(FOLDS, random_state=seed):
        coef, level = _paths(part, kind, penalty, intercept)
        place = [part.names.index(name) for name in held.names]
        index = np.asarray(place)[held.task_of_row]
        scores = np.einsum("nd,and->an", held.X, coef[:, index]) + level[:, index]
        y = np.asarray(held.y)
        if kind == "Regressor":
            losses = losses + ((scores - y) ** 2).sum(axis=1)
        else:
            losses = losses + np.logaddexp(0, np.where(y > 0, -scores, scores)).sum(axis=1)
    best = int(np.argmin(losses))
    coef, level = _paths(rows, kind, penalty, intercept)
    return LinearModel(coef[best], level[best], rows.names)


def _lifted(rows: TaskSet, epsilon: float, delta: float) -> tuple[float, float]:
    """Return the rows' budget that is (ε, δ) for whole tasks by Proposition 3."""
    n = int(rows.counts.max())
    return epsilon / n, delta / (n * math.exp(min(epsilon, 600.0)))


def _noise(rng: np.random.Generator, scales: Array, d: int) -> Array:
    """Return vectors of density ∝ exp(−‖b‖/scale), one a scale."""
    directions = rng.standard_normal((len(scales), d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * rng.gamma(d, scales)[:, None]


def _centred(rows: TaskSet, kind: str, intercept: bool) -> tuple[list[Array], list[Array], Array]:
    """Return rows and targets by task, and what was taken from them: (m, d + 1)."""
    y = np.asarray(rows.y, dtype=float)
    target = y if kind == "Regressor" else 2 * y - 1  # least squares on ±1, as the paper does
    Xs, ys, taken = [], [], []
    for low, high in zip(rows.offsets[:-1], rows.offsets[1:], strict=True):
        X, t = rows.X[low:high], target[low:high]
        mean = np.append(X.mean(axis=0), t.mean()) if intercept else np.zeros(X.shape[1] + 1)
        Xs.append(X - mean[:-1])
        ys.append(t - mean[-1])
        taken.append(mean)
    return Xs, ys, np.stack(taken)


def _model(W: Array, taken: Array, rows: TaskSet) -> LinearModel:
    return LinearModel(W, taken[:, -1] - np.einsum("md,md->m", W, taken[:, :-1]), rows.names)


def _slopes(Xs: list[Array], ys: list[Array], W: Array) -> Array:
    """Return the largest slope of the squared loss on each task's rows (the paper's L_i)."""
    return np.array([2 * np.abs(X @ w - y).max() for X, y, w in zip(Xs, ys, W, strict=True)])


def _ridges(Xs: list[Array], ys: list[Array], strengths: Array, centres: Array) -> Array:
    """Return argmin mean squared loss + (strength/2)‖w − centre‖² of every task."""
    found = []
    for X, y, strength, centre in zip(Xs, ys, strengths, centres, strict=True):
        H = 2 * X.T @ X / len(y) + strength * np.eye(X.shape[1])
        found.append(np.linalg.solve(H, 2 * X.T @ y / len(y) + strength * centre))
    return np.stack(found)


def averaged(
    rows: TaskSet,
    *,
    kind: str,
    intercept: bool,
    epsilon: float,
    delta: float,
    seed: int,
    strength: float = 0.1,
) -> LinearModel:
    """DP-AGGR at row level, lifted: the noisy average of the tasks' ridge models."""
    Xs, ys, taken = _centred(rows, kind, intercept)
    m, d = len(Xs), rows.n_features
    W = _ridges(Xs, ys, np.full(m, strength), np.zeros((m, d)))
    budget, _ = _lifted(rows, epsilon, delta)
    reach = 2 * _slopes(Xs, ys, W).max() / (m * int(rows.counts.min()) * strength)
    noise = _noise(np.random.default_rng(seed), np.array([reach / budget]), d)
    return _model(np.repeat((W.mean(axis=0) + noise[0])[None], m, axis=0), taken, rows)


def _per_round(epsilon: float, delta: float, n_rounds: int) -> float:
    """Return the largest equal ε_t whose composition bound stays within the budget."""
    low, high = epsilon / n_rounds, epsilon
    for _ in range(50):
        middle = (low + high) / 2
        fits = composition_bound([middle] * n_rounds, delta) <= epsilon
        low, high = (middle, high) if fits else (low, middle)
    return low


def mtrl_rounds(
    rows: TaskSet,
    *,
    kind: str,
    intercept: bool,
    epsilon: float,
    delta: float,
    seed: int,
    own: float = 0.1,
    related: float = 0.1,
    n_rounds: int = 1,
) -> tuple[list[tuple[Array, Array]], Array]:
    """Return (models, noisy models) of every round of DP-MTRL, and what centring took.

    A round: every task solves its ridge with ``own`` strength and, ``related`` times Ω⁻¹_ii, a pull
    to what the others' noisy models predict for it; adds noise of its sensitivity; Ω ∝ (WᵀW)^½.
    """
    Xs, ys, taken = _centred(rows, kind, intercept)
    m, d = len(Xs), rows.n_features
    rng = np.random.default_rng(seed)
    budget, rest = _lifted(rows, epsilon, delta)
    each = _per_round(budget, rest, n_rounds)
    inverse, noisy, found = np.eye(m), np.zeros((m, d)), []
    for _ in range(n_rounds):
        pull = related * np.diag(inverse)
        off = inverse - np.diag(np.diag(inverse))
        told = -(off @ noisy) / np.diag(inverse)[:, None]
        strengths = own + pull
        clean = _ridges(Xs, ys, strengths, pull[:, None] * told / strengths[:, None])
        scales = 2 * _slopes(Xs, ys, clean) / (rows.counts * strengths * each)
        noisy = clean + _noise(rng, scales, d)
        found.append((clean, noisy))
        left, values, _ = np.linalg.svd(noisy, full_matrices=True)
        roots = np.zeros(m)
        roots[: len(values)] = values
        omega = (left * roots) @ left.T / roots.sum() * m
        inverse = np.linalg.inv(omega + _ROUNDED * np.eye(m))
    return found, taken


def relationships(rows: TaskSet, **settings: Any) -> LinearModel:
    """DP-MTRL at row level, lifted: the noisy models of its last round."""
    found, taken = mtrl_rounds(rows, **settings)
    return _model(found[-1][1], taken, rows)


BASELINES: dict[str, Callable[..., LinearModel]] = {
    "single-task-l2": single_task,
    "single-task-l1": functools.partial(single_task, penalty="l1"),
    "dp-aggr": averaged,
    "dp-mtrl": relationships,
}
