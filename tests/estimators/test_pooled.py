"""All rows as one: the same model for everybody."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge

import tacit

from .rows import rows_of


def test_a_given_strength_is_ridge_regression_of_all_rows():
    X, y, task = rows_of()
    model = tacit.PooledRegressor(alpha=3.0).fit(X, y, tasks=task)
    whole = Ridge(alpha=3.0).fit(X, y)
    assert model.coef_.shape == (30, 5)
    for coef, intercept in zip(model.coef_, model.intercept_, strict=True):
        np.testing.assert_allclose(coef, whole.coef_, rtol=1e-8)
        assert intercept == pytest.approx(whole.intercept_)


def test_it_protects_nobody_and_says_so():
    X, y, task = rows_of(classes=3)
    model = tacit.PooledClassifier().fit(X, y, tasks=task)
    assert model.privacy_.epsilon == float("inf")
    assert not model.privacy_.holds
    assert (model.coef_ == model.coef_[0]).all()
    assert model.score(X, y, tasks=task) > 0.5


def test_a_stranger_gets_the_pooled_model():
    X, y, task = rows_of()
    model = tacit.PooledRegressor(unknown_task="shared").fit(X, y, tasks=task)
    known = model.predict(X[:4], tasks=task[:4])
    assert np.allclose(model.predict(X[:4], tasks=["new"] * 4), known)
