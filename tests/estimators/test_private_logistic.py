"""PrivateLogisticRegression as a scikit-learn citizen and as a private one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tacit
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy import Ledger

INF = float("inf")


def _two_classes(n_rows=1500, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    y = (X @ np.linspace(1, 0.2, n_features) + 0.3 * rng.standard_normal(n_rows) > 0).astype(int)
    return X, y


def test_a_seed_makes_it_deterministic():
    X, y = _two_classes(100)
    first, second = (tacit.PrivateLogisticRegression(random_state=3).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(first.coef_, second.coef_)


def test_without_privacy_it_is_ridge_logistic_regression():
    X, y = _two_classes()
    X /= 2 * np.abs(X).max() * np.sqrt(X.shape[1])
    ours = tacit.PrivateLogisticRegression(INF, alpha=0.5, rows="clip", fit_intercept=False)
    theirs = LogisticRegression(C=2.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(X, y)
    np.testing.assert_allclose(ours.fit(X, y).coef_, theirs.coef_, rtol=1e-4)
    assert ours.privacy_.definition == "none"
    assert ours.n_clipped_rows_ == 0


def test_the_intercept_is_a_regularised_column():
    X, y = _two_classes()
    y = (X[:, 0] > 1.0).astype(int)
    column = np.hstack([X / np.linalg.norm(X, axis=1, keepdims=True), np.full((len(X), 1), 0.3)])
    theirs = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(column, y)
    ours = tacit.PrivateLogisticRegression(INF, alpha=1.0).fit(X, y)
    np.testing.assert_allclose(ours.coef_[0], theirs.coef_[0, :-1], rtol=1e-4, atol=1e-5)
    assert ours.intercept_[0] == pytest.approx(0.3 * theirs.coef_[0, -1], rel=1e-4)
    np.testing.assert_allclose(
        ours.predict_proba(X)[:, 1], theirs.predict_proba(column)[:, 1], rtol=1e-4
    )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_it_learns_under_privacy_and_states_it(delta):
    X, y = _two_classes()
    model = tacit.PrivateLogisticRegression(2.0, delta, random_state=1).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.9
    statement = model.privacy_
    assert (statement.unit, statement.adjacency) == ("row", "replace-one")
    assert statement.epsilon == pytest.approx(2.0)
    assert statement.delta == delta
    assert statement.mechanisms == ("objective-perturbation",)
    assert statement.seeded
    assert not any("exact" in text for text in statement.assumptions)
    assert len(model.billboard_) == 1


def test_noise_from_the_system_differs_between_fits_and_is_not_seeded():
    X, y = _two_classes(200)
    model = tacit.PrivateLogisticRegression(1.0)
    first = model.fit(X, y).coef_.copy()
    assert not np.array_equal(first, model.fit(X, y).coef_)
    assert model.privacy_.holds


def test_the_fitted_model_is_what_stands_on_the_billboard():
    X, y = _two_classes(200)
    model = tacit.PrivateLogisticRegression(1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.billboard_.read(0)[0, :-1], model.coef_[0])


def test_more_than_two_classes_divide_the_budget():
    X, _ = _two_classes(3000)
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = tacit.PrivateLogisticRegression(9.0, random_state=0).fit(X, y)
    assert model.coef_.shape == (1, 3, 6)
    assert model.score(X, y) > 0.6
    assert model.privacy_.epsilon == pytest.approx(9.0)
    assert model.history_[0]["scale"] == pytest.approx(2 * np.sqrt(1 + 0.09) / 3.0, rel=0.01)


def test_the_gaussian_form_beats_the_pure_one_in_many_dimensions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1600, 100))
    y = (X[:, :5].sum(axis=1) > 0).astype(int)
    test = rng.standard_normal((1000, 100))
    label = test[:, :5].sum(axis=1) > 0

    def mean_auc(delta):
        models = [
            tacit.PrivateLogisticRegression(0.5, delta, random_state=seed).fit(X, y)
            for seed in range(4)
        ]
        return np.mean([roc_auc_score(label, m.decision_function(test)) for m in models])

    assert mean_auc(1e-5) > mean_auc(0.0) + 0.05


def test_every_task_gets_a_model_of_its_own_and_each_row_pays_once():
    X, y = _two_classes(600)
    tasks = np.repeat(["u", "v"], 300)
    flipped = np.where(tasks == "u", y, 1 - y)
    model = tacit.PrivateLogisticRegression(5.0, random_state=0).fit(X, flipped, tasks=tasks)
    assert model.coef_.shape == (2, 6)
    assert model.score(X, flipped, tasks=tasks) > 0.85
    assert model.privacy_.epsilon == pytest.approx(5.0)


def test_rows_beyond_the_public_norm_are_clipped_and_counted():
    X, y = _two_classes(100)
    X[:7] *= 1000
    X[7:] /= 1000
    model = tacit.PrivateLogisticRegression(1.0, rows="clip", random_state=0).fit(X, y)
    assert model.n_clipped_rows_ == 7


def test_frames_of_pandas_and_polars_give_the_same_model():
    X, y = _two_classes(150, 3)
    model = tacit.PrivateLogisticRegression(1.0, random_state=0)
    plain = model.fit(X, y).coef_.copy()
    names = ["a", "b", "c"]
    for frame in (pd.DataFrame(X, columns=names), pl.DataFrame(X, schema=names)):
        fitted = clone(model).fit(frame, y)
        np.testing.assert_array_equal(fitted.coef_, plain)
        assert list(fitted.feature_names_in_) == names
        assert fitted.predict(frame).shape == (150,)


def test_it_works_in_a_pipeline_and_a_grid_search():
    X, y = _two_classes(200)
    pipeline = make_pipeline(
        FunctionTransformer(lambda rows: rows / 2), tacit.PrivateLogisticRegression(random_state=0)
    )
    search = GridSearchCV(pipeline, {"privatelogisticregression__epsilon": [0.1, 5.0]}, cv=2)
    assert search.fit(X, y).best_score_ > 0.5


def test_a_saved_model_answers_the_same(tmp_path):
    X, y = _two_classes(200)
    model = tacit.PrivateLogisticRegression(1.0, random_state=0).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(
        tacit.load(tmp_path / "model").predict_proba(X), model.predict_proba(X)
    )


def test_a_ledger_refuses_a_second_fit_beyond_its_total():
    X, y = _two_classes(100)
    ledger = Ledger(":memory:", epsilon=1.5, delta=0.0)
    model = tacit.PrivateLogisticRegression(1.0, ledger=ledger).fit(X, y)
    before = model.coef_.copy()
    with pytest.raises(BudgetExceeded):
        model.fit(X, y)
    np.testing.assert_array_equal(model.coef_, before)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": -1.0}, 'epsilon=-1.0: must be positive; use epsilon=float\\("inf"\\)'),
        ({"delta": 1.0}, "delta=1.0: must be below 1"),
        ({"delta": -0.1}, "delta=-0.1: must be at least 0"),
        ({"alpha": 0.0}, "alpha=0.0: must be positive"),
        ({"row_norm": 0}, "row_norm=0: must be positive"),
        ({"rows": "scale"}, "rows='scale': must be one of"),
        ({"intercept_scaling": 0.0}, "fit_intercept=False"),
    ],
)
def test_a_bad_parameter_is_named_with_its_remedy(parameters, message):
    X, y = _two_classes(20)
    with pytest.raises(InvalidInput, match=message):
        tacit.PrivateLogisticRegression(**parameters).fit(X, y)


def test_a_single_class_and_missing_values_are_refused():
    X, y = _two_classes(20)
    with pytest.raises(InvalidInput, match="one class"):
        tacit.PrivateLogisticRegression().fit(X, np.zeros(20))
    X[3, 2] = np.nan
    with pytest.raises(InvalidInput, match="NaN"):
        tacit.PrivateLogisticRegression().fit(X, y)
