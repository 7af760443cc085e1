"""Every task on its own: scikit-learn's models, one a task."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import tacit
from tacit.errors import InvalidInput, UnknownTask

from .rows import rows_of


def test_a_given_strength_is_ridge_regression_of_every_task():
    X, y, task = rows_of()
    model = tacit.SingleTaskRegressor(alpha=2.0).fit(X, y, tasks=task)
    for number, name in enumerate(model.task_names_):
        own = Ridge(alpha=2.0).fit(X[task == name], y[task == name])
        np.testing.assert_allclose(model.coef_[number], own.coef_, rtol=1e-8, atol=1e-10)
        assert model.intercept_[number] == pytest.approx(own.intercept_)


def test_a_given_strength_is_logistic_regression_of_every_task():
    X, y, task = rows_of(classes=2)
    model = tacit.SingleTaskClassifier(alpha=1.0).fit(X, y, tasks=task)
    own = LogisticRegression(C=1.0, tol=1e-10, max_iter=5000).fit(X[task == 0], y[task == 0])
    np.testing.assert_allclose(model.coef_[0], own.coef_[0], rtol=0.02, atol=0.02)


def test_nothing_leaves_a_task():
    X, y, task = rows_of()
    model = tacit.SingleTaskRegressor().fit(X, y, tasks=task)
    changed = np.where(task == 3, 1e3 * y, y)
    other = tacit.SingleTaskRegressor().fit(X, changed, tasks=task)
    assert np.array_equal(np.delete(model.coef_, 3, 0), np.delete(other.coef_, 3, 0))
    assert model.privacy_.epsilon == 0
    assert model.billboard_ is None
    with pytest.raises(UnknownTask, match="no shared model"):
        model.predict(X[:1], tasks=["stranger"])


def test_a_negative_strength_is_refused():
    X, y, task = rows_of()
    with pytest.raises(InvalidInput, match="alpha=-1"):
        tacit.SingleTaskRegressor(alpha=-1).fit(X, y, tasks=task)
