"""Logistic paths of tasks with very many rows, against the stacked solver."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tacit.numerics import logistic_paths
from tacit.numerics.prior import Prior
from tacit.numerics.tall import TALL, _swept
from tacit.tasks import TaskSet

ALPHAS = np.array([1e-3, 1.0, 300.0, 1e5])
WIDTHS = (5, 40)  # below and above where a Hessian is taken by half


def labelled(sizes, d, *, steep=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(sizes), d))
    chance = 1 / (1 + np.exp(-np.clip(steep * (X[:, 0] + X[:, 1] - 1), -700, 700)))
    y = (rng.uniform(size=len(X)) < chance).astype(float)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return TaskSet(X, y, offsets, tuple(range(len(sizes))), np.arange(len(X)))


def by_stacks(monkeypatch, *arguments, **options):
    with monkeypatch.context() as patch:
        patch.setattr("tacit.numerics.logistic.TALL", 10**9)
        return logistic_paths(*arguments, **options)


def assert_alike(path, reference, tolerance):
    for name in ("coef", "intercept", "loo_predictions", "loo_errors"):
        assert_allclose(getattr(path, name), getattr(reference, name), atol=tolerance)
    assert_allclose(path.log_evidence, reference.log_evidence, rtol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("d", WIDTHS)
def test_paths_are_those_of_the_stacked_solver(monkeypatch, d, intercept):
    tasks = labelled([TALL + 952, TALL + 1], d)
    tasks = tasks.weighted(np.random.default_rng(1).uniform(0.5, 2.0, len(tasks.X)))
    prior = Prior(mean=np.full(d, 0.1))
    path = logistic_paths(tasks, ALPHAS, prior=prior, intercept=intercept)
    reference = by_stacks(monkeypatch, tasks, ALPHAS, prior=prior, intercept=intercept)
    assert_alike(path, reference, 1e-8)


@pytest.mark.parametrize("steep", [30.0, 1e6])
def test_steep_labels_and_labels_of_one_class_take_the_careful_way(monkeypatch, steep):
    tasks = labelled([TALL, TALL], 5, steep=steep)
    tasks = tasks.replace(y=np.where(tasks.task_of_row == 1, 1.0, tasks.y))
    path = logistic_paths(tasks, ALPHAS, intercept=True)
    assert_alike(path, by_stacks(monkeypatch, tasks, ALPHAS, intercept=True), 1e-5)


def test_bits_of_a_task_are_its_own_and_bad_rows_reach_nobody_else():
    tasks = labelled([TALL, TALL - 5, TALL, 12], 7)
    alone = [logistic_paths(tasks.take_tasks([i]), ALPHAS, intercept=True) for i in range(4)]
    together = logistic_paths(tasks, ALPHAS, intercept=True)
    X = tasks.X.copy()
    X[3] = 1e160
    X[4] = 1e300
    hostile = logistic_paths(tasks.replace(X=X), ALPHAS, intercept=True)
    for i, path in enumerate(alone):
        assert_array_equal(together.coef[:, i], path.coef[:, 0])
        assert_array_equal(together.loo_errors[:, i], path.loo_errors[:, 0])
        if i:
            assert_array_equal(hostile.coef[:, i], path.coef[:, 0])
    assert np.isfinite(hostile.coef).all()


def test_a_gradient_of_rounding_alone_ends_the_search(monkeypatch):
    half = 1e7 * np.random.default_rng(2).standard_normal((TALL, 4))
    X, y = np.concatenate([half, half]), np.repeat([0.0, 1.0], TALL)
    tasks = TaskSet(X, y, np.array([0, 2 * TALL]), (0,), np.arange(2 * TALL))
    passes = []
    counted = lambda *given: passes.append(1) or _swept(*given)  # noqa: E731
    monkeypatch.setattr("tacit.numerics.tall._swept", counted)
    path = logistic_paths(tasks, ALPHAS, intercept=True)
    assert len(passes) <= 3 * len(ALPHAS)
    assert np.abs(path.coef).max() < 1e-12
