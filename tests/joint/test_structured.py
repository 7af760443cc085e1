"""Non-private structured learning on the papers' own patterns."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tacit
from tacit.datasets import make_group_sparse, make_low_rank
from tacit.joint.structured import (
    choose_strength,
    largest_strength,
    prepare,
    solve_structured,
)
from tacit.joint.task_relationship import RelationshipPenalty
from tacit.losses import SquaredLoss
from tacit.privacy.accounting import group_privacy
from tacit.privacy.accounting.group import row_budget_for_task

OPEN = float("inf")
PATTERNS = {
    "low-rank": (make_low_rank, "LowRankRegressor"),
    "group-sparse": (make_group_sparse, "GroupSparseRegressor"),
}


def _nmse(model, data):
    model.fit(data.train.X, data.train.y, tasks=data.train.task_of_row)
    predicted = model.predict(data.test.X, tasks=data.test.task_of_row)
    return float(np.mean((predicted - data.test.y) ** 2) / np.var(data.test.y))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_automatic_strength_is_near_the_best_and_four_times_better_than_alone(pattern):
    make, name = PATTERNS[pattern]
    data = make(random_state=0)
    chosen = _nmse(getattr(tacit, name)(OPEN), data)
    assert chosen <= _nmse(tacit.SingleTaskRegressor(), data) / 4
    ready = prepare(data.train, SquaredLoss(), fit_intercept=True)
    top = largest_strength(ready, pattern)
    sweep = [
        _nmse(getattr(tacit, name)(OPEN, alpha=float(top * share)), data)
        for share in np.logspace(-1, -2.2, 4)
    ]
    assert chosen <= 1.1 * min(sweep)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_largest_strength_makes_all_models_zero_and_a_smaller_one_does_not(pattern):
    data = PATTERNS[pattern][0](n_tasks=20, random_state=1)
    ready = prepare(data.train, SquaredLoss(), fit_intercept=True)
    top = largest_strength(ready, pattern)
    assert np.abs(solve_structured(ready, pattern, 1.001 * top)).max() == 0
    assert np.abs(solve_structured(ready, pattern, 0.9 * top)).max() > 0


def test_a_strength_is_chosen_even_when_no_task_can_be_split():
    rows = tacit.TaskSet.from_arrays(np.eye(3), np.arange(3.0), np.arange(3))
    assert choose_strength(rows, SquaredLoss(), "low-rank", fit_intercept=True) > 0


def test_decomposed_models_beat_the_plain_ones_when_tasks_have_outlying_entries():
    data = make_low_rank(n_tasks=60, n_rows=20, group_size=60, similarity=0.999, random_state=2)
    rng = np.random.default_rng(0)
    W = data.W.copy()
    W[np.arange(60), rng.integers(0, 30, 60)] += 60.0

    def with_targets(tasks):
        signal = np.einsum("nd,nd->n", tasks.X, W[tasks.task_of_row])
        return tasks.replace(y=signal + 0.5 * rng.normal(size=tasks.n_rows))

    shifted = type(data)(with_targets(data.train), with_targets(data.test), W)
    plain = _nmse(tacit.LowRankRegressor(OPEN), shifted)
    assert _nmse(tacit.LowRankSparseRegressor(OPEN), shifted) < 0.8 * plain


def test_relationships_find_the_groups_of_tasks():
    data = make_low_rank(n_tasks=40, group_size=20, random_state=3)
    model = tacit.TaskRelationshipRegressor(OPEN)
    assert _nmse(model, data) < 0.5 * _nmse(tacit.SingleTaskRegressor(), data)
    covariance = model.task_embedding_ @ model.task_embedding_.T
    scale = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(scale, scale)
    same = (np.arange(40)[:, None] // 20) == (np.arange(40) // 20)
    assert correlation[same].mean() > 0.6
    assert abs(correlation[~same].mean()) < 0.5


def test_relationship_penalty_is_the_quadratic_at_the_best_covariance():
    rng = np.random.default_rng(4)
    W = rng.normal(size=(9, 3))
    penalty = RelationshipPenalty(0.7)
    left, singular, _ = np.linalg.svd(W, full_matrices=False)
    best = (left * singular / singular.sum()) @ left.T
    value = 0.7 / 18 * np.trace(W.T @ np.linalg.pinv(best) @ W)
    assert penalty.value(W) == pytest.approx(value)
    for _ in range(20):
        root = rng.normal(size=(9, 9))
        other = root @ root.T / np.trace(root @ root.T)
        assert 0.7 / 18 * np.trace(W.T @ np.linalg.solve(other, W)) >= value


@pytest.mark.parametrize("shape", [(9, 3), (3, 9)])
def test_relationship_prox_is_where_the_objective_is_least(shape):
    rng = np.random.default_rng(5)
    V = rng.normal(size=shape)
    penalty = RelationshipPenalty(2.0)
    best = penalty.prox(V, 0.6)

    def objective(W):
        return 0.5 * np.sum((W - V) ** 2) + 0.6 * penalty.value(W)

    for _ in range(50):
        assert objective(best) <= objective(best + 0.01 * rng.normal(size=shape)) + 1e-12


def test_averaged_is_the_mean_of_the_single_task_models():
    data = make_low_rank(n_tasks=10, random_state=5)
    alone = tacit.SingleTaskRegressor()
    _nmse(alone, data)
    shared = tacit.AveragedRegressor(OPEN)
    _nmse(shared, data)
    np.testing.assert_allclose(shared.coef_, np.tile(alone.coef_.mean(axis=0), (10, 1)))
    unknown = tacit.AveragedRegressor(OPEN, unknown_task="shared")
    _nmse(unknown, data)
    assert np.isfinite(unknown.predict(data.test.X[:2], tasks=["new", "newer"])).all()


def test_private_average_approaches_the_exact_one_as_tasks_grow():
    rng = np.random.default_rng(6)
    labels = np.repeat(np.arange(2000), 8)
    X = rng.normal(size=(16000, 3))
    y = X @ np.array([1.0, -2.0, 0.5]) + 1.0 + 0.1 * rng.normal(size=16000)
    exact = tacit.AveragedRegressor(OPEN).fit(X, y, tasks=labels)
    private = tacit.AveragedRegressor(1.0, clip=4.0, random_state=0).fit(X, y, tasks=labels)
    np.testing.assert_allclose(private.shared_coef_, exact.shared_coef_, atol=0.1)
    directions = tacit.AveragedRegressor(1.0, random_state=0).fit(X, y, tasks=labels)
    assert directions.score(X, y, tasks=labels) > 0.98


@pytest.mark.parametrize(("epsilon", "delta", "rows"), [(1.0, 1e-5, 30), (0.1, 0.0, 7)])
def test_row_budget_for_a_task_is_within_the_task_budget(epsilon, delta, rows):
    budget = row_budget_for_task(epsilon, delta, rows)
    group_epsilon, group_delta = group_privacy(*budget, rows)
    assert group_epsilon <= epsilon
    assert group_delta <= delta
    assert budget[0] == pytest.approx(epsilon / rows)
    assert budget[1] >= delta / (rows * math.exp(epsilon)) * (1 - 1e-9)
