"""The papers' synthetic tasks, where the right models are known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

__all__ = ["Synthetic", "make_group_sparse", "make_low_rank", "make_shared_private"]

_COUNT = "use the paper's setting, or a larger number"


@dataclass(frozen=True, eq=False)
class Synthetic:
    """Generated tasks with their true models.

    Attributes
    ----------
    train, test : TaskSet
        Rows to learn from and to test on; the same tasks in the same order, named 0 … m − 1.
    W : (m, d) array
        True model of each task.
    """

    train: TaskSet
    test: TaskSet
    W: Array


def make_low_rank(
    n_tasks: int = 320,
    n_rows: int = 30,
    n_features: int = 30,
    *,
    n_test_rows: int | None = None,
    group_size: int = 75,
    similarity: float = 0.995,
    signal: float = 8.0,
    noise: float = 1.0,
    random_state: Any = None,
) -> Synthetic:
    """Low-rank regression tasks of the model-protected MTL paper (section 5.4).

    Rows are standard normal, scaled to norm 1; y = x·w + N(0, noise²). The models are
    W ~ MVN(0, I, Σ) with a task covariance of which the paper shows only a picture in which
    every 75 tasks are alike. Here Σ = signal² (similarity · B + (1 − similarity) · I), B being
    1 for two tasks of the same group of ``group_size`` and 0 otherwise: with the defaults five
    groups (75, 75, 75, 75, 20), hence numerically rank 5. The average model then leaves
    1 − Σ (group share)² = 0.78 of the variance, the figure the paper gives for DP-AGGR. ``signal``
    is not printed either; 8 gives the paper's level of error (nMSE of single-task ridge about
    0.14, of trace-norm MTL about 0.03).

    Parameters
    ----------
    n_tasks, n_rows, n_features : int
        Tasks, training rows per task, features.
    n_test_rows : int, optional
        Test rows per task; 9 times the training rows by default.
    group_size : int
        Tasks per group.
    similarity : float
        Correlation of two tasks of a group, between 0 and 1.
    signal, noise : float
        Standard deviations of a model's entries and of the noise in y.
    random_state : int or numpy Generator, optional
        Seed.
    """
    similarity = _check.fraction("similarity", similarity, remedy="use 0.995")
    signal = _check.positive("signal", signal, remedy="use 8.0")
    group_size = _check.positive_integer("group_size", group_size, remedy="use 75")
    n_tasks = _check.positive_integer("n_tasks", n_tasks, remedy=_COUNT)
    n_features = _check.positive_integer("n_features", n_features, remedy=_COUNT)
    generator = np.random.default_rng(random_state)
    group = np.arange(n_tasks) // group_size
    centres = generator.standard_normal((int(group[-1]) + 1, n_features))
    own = generator.standard_normal((n_tasks, n_features))
    W = signal * (np.sqrt(similarity) * centres[group] + np.sqrt(1 - similarity) * own)
    return _regression(W, n_rows, n_test_rows, noise, generator)


def make_group_sparse(
    n_tasks: int = 320,
    n_rows: int = 30,
    n_features: int = 30,
    *,
    n_test_rows: int | None = None,
    n_relevant: int = 4,
    noise: float = 1.0,
    random_state: Any = None,
) -> Synthetic:
    """Group-sparse regression tasks of the model-protected MTL paper (section 5.4).

    As `make_low_rank`, but only the first ``n_relevant`` features matter to any task, with
    coefficients uniform on [−50, −1] ∪ [1, 50].
    """
    n_tasks = _check.positive_integer("n_tasks", n_tasks, remedy=_COUNT)
    n_features = _check.positive_integer("n_features", n_features, remedy=_COUNT)
    n_relevant = _check.positive_integer("n_relevant", n_relevant, remedy="use 4")
    if n_relevant > n_features:
        raise InvalidInput(f"n_relevant={n_relevant}: must be at most n_features={n_features}")
    generator = np.random.default_rng(random_state)
    W = np.zeros((n_tasks, n_features))
    relevant = W[:, :n_relevant]
    size = generator.uniform(1.0, 50.0, size=relevant.shape)
    relevant[:] = size * generator.choice([-1.0, 1.0], size=relevant.shape)
    return _regression(W, n_rows, n_test_rows, noise, generator)


def make_shared_private(
    n_tasks: int = 20,
    n_rows: int = 200,
    n_features: int = 28,
    *,
    kind: str = "regression",
    rank: int = 3,
    private: float = 0.3,
    signal: float = 8.0,
    noise: float = 1.0,
    test_size: float = 0.7,
    random_state: Any = None,
) -> Synthetic:
    """Twenty tasks in the shape of the asynchronous MTL paper's synthetic set (Table 1).

    The paper gives only sizes (20 tasks, 200 rows, 28 features, 30 % for training) and that the
    shared part had rank 3. Here w_t = p_t + q_t as in its model: P of rank ``rank``, entries of
    standard deviation ``signal``, and a private q_t of ``private`` times that size. Rows have
    norm 1.

    Parameters
    ----------
    kind : {"regression", "classification"}
        y = x·w + N(0, noise²), or y ∈ {0, 1} with P(y = 1) = 1 / (1 + exp(−x·w / noise)).
    test_size : float
        Share of each task's rows kept for testing.
    """
    _check.one_of("kind", kind, ("classification", "regression"))
    n_tasks = _check.positive_integer("n_tasks", n_tasks, remedy=_COUNT)
    n_features = _check.positive_integer("n_features", n_features, remedy=_COUNT)
    rank = _check.positive_integer("rank", rank, remedy="use 3")
    private = _check.non_negative("private", private, remedy="use 0.3")
    signal = _check.positive("signal", signal, remedy="use 8.0")
    noise = _check.positive("noise", noise, remedy="use 1.0")
    generator = np.random.default_rng(random_state)
    basis = generator.standard_normal((rank, n_features))
    shared = generator.standard_normal((n_tasks, rank)) @ basis / np.sqrt(rank)
    W = signal * (shared + private * generator.standard_normal((n_tasks, n_features)))
    X, margin = _unit_rows(W, n_rows, generator)
    if kind == "regression":
        y = margin + noise * generator.standard_normal(len(X))
    else:
        y = (generator.random(len(X)) < expit(margin / noise)).astype(np.float64)
    tasks = TaskSet.from_arrays(X, y, np.repeat(np.arange(n_tasks), n_rows))
    train, test = tasks.split(test_size, random_state=generator)
    return Synthetic(train, test, W)


def _regression(
    W: Array, n_rows: int, n_test_rows: int | None, noise: float, generator: np.random.Generator
) -> Synthetic:
    n_rows = _check.positive_integer("n_rows", n_rows, remedy=_COUNT)
    noise = _check.non_negative("noise", noise, remedy="use 1.0")
    n_test = 9 * n_rows if n_test_rows is None else n_test_rows
    n_test = _check.positive_integer("n_test_rows", n_test, remedy=_COUNT)
    parts = []
    for size in (n_rows, n_test):
        X, signal = _unit_rows(W, size, generator)
        y = signal + noise * generator.standard_normal(len(X))
        parts.append(TaskSet.from_arrays(X, y, np.repeat(np.arange(len(W)), size)))
    return Synthetic(parts[0], parts[1], W)


def _unit_rows(W: Array, n_rows: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Rows of norm 1, ``n_rows`` for each task, and each row's x·w."""
    X = generator.standard_normal((len(W) * n_rows, W.shape[1]))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.einsum("ij,ij->i", X, np.repeat(W, n_rows, axis=0))
