"""Each task's own fit, with the strength settled by leave-one-out."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.local_fit import (
    leave_one_out_weights,
    local_fit,
    local_fits,
    relative_strengths,
)
from tacit.numerics.prior import Prior
from tacit.tasks import TaskSet, one_vs_rest


@pytest.fixture
def tasks():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), [8, 12, 20, 6, 30])
    X = rng.normal(size=(76, 4))
    y = X @ [1.0, 0.0, -1.0, 2.0] + 3.0 + rng.normal(size=76)
    return TaskSet.from_arrays(X, y, labels)


def test_a_given_strength_is_scikit_learns(tasks):
    fit = local_fit(tasks, SquaredLoss(), alpha=2.0)
    for i in range(tasks.n_tasks):
        rows = slice(tasks.offsets[i], tasks.offsets[i + 1])
        ridge = Ridge(alpha=2.0).fit(tasks.X[rows], tasks.y[rows])
        np.testing.assert_allclose(fit.coef[i], ridge.coef_, atol=1e-8)
        np.testing.assert_allclose(fit.intercept[i], ridge.intercept_, atol=1e-8)
    labels = tasks.replace(y=(tasks.y > 3).astype(float))
    fit = local_fit(labels, LogisticLoss(), alpha=0.5)
    rows = slice(labels.offsets[4], labels.offsets[5])
    logistic = LogisticRegression(C=2.0, tol=1e-10, max_iter=1000)
    logistic.fit(labels.X[rows], labels.y[rows])
    np.testing.assert_allclose(fit.coef[4], logistic.coef_[0], atol=1e-5)


def test_a_task_does_not_depend_on_the_others(tasks):
    together = local_fit(tasks, SquaredLoss())
    alone = local_fit(tasks.take_tasks([3]), SquaredLoss())
    np.testing.assert_allclose(together.coef[3], alone.coef[0], rtol=1e-10)


def test_a_task_of_tiny_rows_does_not_depend_on_one_of_huge_rows(tasks):
    tiny = tasks.take_tasks([0]).replace(X=1e-9 * tasks.take_tasks([0]).X)
    scale = np.where(tasks.task_of_row == 0, 1e-9, 1e9)[:, None]
    together = local_fit(tasks.replace(X=tasks.X * scale), SquaredLoss())
    alone = local_fit(tiny, SquaredLoss())
    np.testing.assert_allclose(together.coef[0], alone.coef[0], rtol=1e-8)


def test_weights_sum_to_one_and_favour_the_smaller_error():
    errors = np.array([[1.0, 2.0], [2.0, 1.0], [1.5, 1.5]])
    for loss in (SquaredLoss(), LogisticLoss()):
        weights = leave_one_out_weights(errors, np.array([10, 40]), loss)
        np.testing.assert_allclose(weights.sum(axis=0), 1.0)
        assert weights[0, 0] > weights[2, 0] > weights[1, 0]
        # More rows make the choice sharper.
        assert weights[1, 1] > weights[0, 0]


def test_strengths_follow_the_unit_of_the_features(tasks):
    one = relative_strengths(tasks, np.array([1.0]), intercept=True)
    scaled = relative_strengths(
        tasks.replace(X=10 * tasks.X + 5.0), np.array([1.0]), intercept=True
    )
    np.testing.assert_allclose(scaled, 100 * one)


def test_a_good_prior_among_the_candidates_helps_and_a_bad_one_is_ignored():
    rng = np.random.default_rng(2)
    labels = np.repeat(np.arange(200), 10)
    truth = np.array([3.0, -2.0, 1.0, 0.0, 2.0, 1.0, -1.0, 4.0])
    X = rng.normal(size=(2000, 8))
    tasks = TaskSet.from_arrays(X, X @ truth + 3 * rng.normal(size=2000), labels)

    def error(priors):
        fit = local_fit(tasks, SquaredLoss(), intercept=False, priors=priors)
        return np.mean((fit.coef - truth) ** 2)

    alone = error((Prior(),))
    assert error((Prior(), Prior(truth))) < 0.5 * alone
    assert error((Prior(), Prior(-10 * truth))) < 1.2 * alone


@pytest.mark.parametrize("n_features", [5, 20])  # on the features' side, and in compiled lanes
def test_classes_side_by_side_find_the_bits_of_each_alone(n_features: int) -> None:
    rng = np.random.default_rng(0)
    counts = np.array([1, 3, 12, 30, 31, 200])
    X = rng.standard_normal((int(counts.sum()), n_features))
    codes = rng.integers(0, 4, len(X)) * (rng.random(len(X)) < 0.9)
    rows = TaskSet.from_arrays(X, codes.astype(float), np.repeat(np.arange(len(counts)), counts))
    classes = one_vs_rest(rows.weighted(rng.uniform(0.5, 2.0, len(X))), 4)
    for alpha in ("auto", 2.0):
        together = local_fits(classes, LogisticLoss(), alpha=alpha)
        for found, one in zip(together, classes, strict=True):
            alone = local_fit(one, LogisticLoss(), alpha=alpha)
            assert np.array_equal(found.coef, alone.coef)
            assert np.array_equal(found.intercept, alone.intercept)
            assert np.array_equal(found.support, alone.support)
