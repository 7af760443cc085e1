"""Rows that count for less than others; sparse rows; single precision."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge

import tacit
from tacit.datasets import make_low_rank
from tacit.errors import InvalidInput

WEIGHTED = (
    "SingleTaskRegressor",
    "SingleTaskClassifier",
    "PooledRegressor",
    "PooledClassifier",
    "AveragedRegressor",
    "AveragedClassifier",
    "SharedPriorRegressor",
    "SharedPriorClassifier",
    "MeanRegularizedRegressor",
    "MeanRegularizedClassifier",
)


@pytest.fixture(scope="module")
def rows():
    made = make_low_rank(60, 12, 4, n_test_rows=3, similarity=0.9, random_state=0).train
    weights = np.random.default_rng(0).uniform(0.05, 1.0, size=made.n_rows)
    return made.X, made.y, made.task_of_row, weights


def _target(name, y):
    return y if name.endswith("Regressor") else np.where(y > 0, "yes", "no")


def _model(name, **settings):
    if not name.startswith(("SingleTask", "Pooled")):
        settings = {"epsilon": 8.0, "random_state": 0, **settings}
    return getattr(tacit, name)(**settings)


def _relative(weights, tasks):
    return weights / pd.Series(weights).groupby(tasks).transform("max").to_numpy()


@pytest.mark.parametrize("intercept", [True, False])
def test_weighted_ridge_is_that_of_scikit_learn(rows, intercept):
    X, y, tasks, weights = rows
    model = tacit.SingleTaskRegressor(alpha=0.7, fit_intercept=intercept)
    model.fit(X, y, tasks=tasks, sample_weight=weights)
    relative = _relative(weights, tasks)
    for task in range(5):
        own = tasks == task
        theirs = Ridge(alpha=0.7, fit_intercept=intercept)
        theirs.fit(X[own], y[own], sample_weight=relative[own])
        np.testing.assert_allclose(model.coef_[task], theirs.coef_, rtol=1e-9)
        np.testing.assert_allclose(model.intercept_[task], theirs.intercept_, atol=1e-9)


def test_weighted_logistic_regression_is_that_of_scikit_learn(rows):
    X, y, tasks, weights = rows
    model = tacit.SingleTaskClassifier(alpha=0.7).fit(
        X, _target("c", y), tasks=tasks, sample_weight=weights
    )
    relative, compared = _relative(weights, tasks), 0
    for task in range(20):
        own = tasks == task
        if len(np.unique(y[own] > 0)) < 2:
            continue
        theirs = LogisticRegression(C=1 / 0.7, tol=1e-10, max_iter=10_000)
        theirs.fit(X[own], _target("c", y[own]), sample_weight=relative[own])
        np.testing.assert_allclose(model.coef_[task], theirs.coef_[0], atol=1e-4)
        compared += 1
    assert compared > 5


def test_leave_one_out_of_weighted_rows_is_what_leaving_them_out_gives(rows):
    X, y, tasks, weights = rows
    own = tacit.TaskSet.from_arrays(X[tasks == 0], y[tasks == 0]).weighted(weights[tasks == 0])
    from tacit.numerics.ridge import ridge_paths

    path = ridge_paths(own, np.array([0.5]), intercept=True)
    errors = []
    for row in range(own.n_rows):
        kept = np.arange(own.n_rows) != row
        fit = Ridge(alpha=0.5).fit(own.X[kept], own.y[kept], sample_weight=own.weights[kept])
        errors.append(own.y[row] - fit.predict(own.X[row : row + 1])[0])
    np.testing.assert_allclose(path.loo_residuals[0], np.sqrt(own.weights) * errors, rtol=1e-8)
    expected = np.sum(own.weights * np.square(errors)) / own.weights.sum()
    assert path.loo_errors[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("name", WEIGHTED)
def test_equal_weights_change_nothing_and_unequal_ones_do(rows, name):
    X, y, tasks, weights = rows
    y = _target(name, y)
    plain = _model(name).fit(X, y, tasks=tasks)
    equal = _model(name).fit(X, y, tasks=tasks, sample_weight=np.full(len(X), 3.0))
    np.testing.assert_array_equal(plain.coef_, equal.coef_)
    heavy = _model(name).fit(X, y, tasks=tasks, sample_weight=weights)
    assert not np.allclose(plain.coef_, heavy.coef_)
    assert heavy.privacy_.epsilon == plain.privacy_.epsilon


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_row_of_weight_zero_counts_for_nothing(rows, name):
    X, y, tasks, weights = rows
    y = _target(name, y)
    gone = np.zeros(len(X), dtype=bool)
    gone[[0, 13, 14]] = True
    settings = {"alpha": 1.0} if name.startswith(("SingleTask", "Pooled")) else {}
    wild, other = X.copy(), y.copy()
    wild[gone], other[gone] = 7.0, y[::-1][gone]
    weights = np.where(gone, 0.0, weights)
    one = _model(name, **settings).fit(X, y, tasks=tasks, sample_weight=weights)
    two = _model(name, **settings).fit(wild, other, tasks=tasks, sample_weight=weights)
    np.testing.assert_allclose(one.coef_, two.coef_, atol=1e-7)


def test_weights_help_where_they_say_which_rows_are_good():
    made = make_low_rank(80, 20, 4, n_test_rows=20, similarity=0.9, signal=4.0, random_state=1)
    train, test, random = made.train, made.test, np.random.default_rng(0)
    bad = random.uniform(size=train.n_rows) < 0.4
    y = train.y + np.where(bad, 10.0, 0.0) * random.normal(size=train.n_rows)
    errors = []
    for weights in (None, np.where(bad, 0.01, 1.0)):
        model = tacit.SharedPriorRegressor(epsilon=8.0, random_state=0)
        model.fit(train.X, y, tasks=train.task_of_row, sample_weight=weights)
        errors.append(np.mean((model.predict(test.X, tasks=test.task_of_row) - test.y) ** 2))
    assert errors[1] < 0.6 * errors[0]


def test_one_tasks_weights_change_no_other_tasks_own_model(rows):
    X, y, tasks, weights = rows
    other = np.where(tasks == 3, weights[::-1], weights)
    one, two = (
        tacit.SingleTaskRegressor().fit(X, y, tasks=tasks, sample_weight=w)
        for w in (weights, other)
    )
    others = np.arange(60) != 3
    np.testing.assert_array_equal(one.coef_[others], two.coef_[others])


def test_bad_weights_and_estimators_that_take_none_are_refused_by_name(rows):
    X, y, tasks, weights = rows
    model = tacit.SharedPriorRegressor()
    for wrong, said in (
        (-weights, "not negative"),
        (np.where(tasks == 7, 0.0, weights), "task 7 has weight zero"),
        (weights[1:], "one number per row"),
        (np.full(len(X), np.nan), "finite"),
    ):
        with pytest.raises(InvalidInput, match=said):
            model.fit(X, y, tasks=tasks, sample_weight=wrong)
        assert not hasattr(model, "coef_")
    for name in set(tacit.ESTIMATORS) - set(WEIGHTED):
        with pytest.raises(InvalidInput, match=f"sample_weight: {name}"):
            getattr(tacit, name)().fit(X, y > 0, tasks=tasks, sample_weight=weights)
    with pytest.raises(InvalidInput, match="sample_weight: MeanRegularizedRegressor"):
        tacit.MeanRegularizedRegressor(clip=2.0).fit(X, y, tasks=tasks, sample_weight=weights)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_sparse_rows_give_the_model_of_dense_ones(rows, form):
    X, y, tasks, _ = rows
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    for name in ("SharedPriorRegressor", "LowRankRegressor", "SingleTaskClassifier"):
        target = _target(name, y)
        dense = _model(name).fit(X, target, tasks=tasks)
        sparse = _model(name).fit(form(X), target, tasks=tasks)
        np.testing.assert_array_equal(dense.coef_, sparse.coef_)
        np.testing.assert_array_equal(
            dense.predict(X, tasks=tasks), sparse.predict(form(X), tasks=tasks)
        )


def test_sparse_rows_that_would_fill_the_memory_are_refused():
    huge = sp.csr_matrix((100_000, 100_000))
    with pytest.raises(InvalidInput, match="75 GB dense"):
        tacit.SingleTaskRegressor().fit(huge, np.zeros(100_000))


@pytest.mark.parametrize(
    "name", ["SharedPriorRegressor", "LowRankRegressor", "SingleTaskRegressor"]
)
def test_single_precision_stays_single(rows, name, tmp_path):
    X, y, tasks, _ = rows
    model = _model(name).fit(X.astype(np.float32), y, tasks=tasks)
    assert model.coef_.dtype == model.intercept_.dtype == np.float32
    answers = model.predict(X.astype(np.float32), tasks=tasks)
    assert answers.dtype == np.float32
    model.save(tmp_path / "m")
    again = tacit.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict(X.astype(np.float32), tasks=tasks), answers)
    double = _model(name).fit(X, y, tasks=tasks)
    assert double.coef_.dtype == np.float64
