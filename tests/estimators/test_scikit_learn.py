"""Every estimator is a scikit-learn citizen."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import tacit

OPEN = {"SingleTask", "Pooled"}
# A row counts for one row at most, so a weight of 2 is not a row given twice.
BOUNDED = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "weights are relative to the heaviest row of a task",
)


def _cases():
    for name in tacit.ESTIMATORS:
        yield pytest.param(name, {}, id=name)
        if not name.startswith(tuple(OPEN)):
            yield pytest.param(name, {"epsilon": float("inf")}, id=f"{name}-inf")


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    tasks = np.repeat(["north", "south", "west"], [40, 30, 20])
    X = rng.normal(size=(90, 4))
    slope = {"north": 1.0, "south": 1.2, "west": 0.8}
    signal = X @ np.array([1.0, -1.0, 0.5, 0.0]) * np.array([slope[t] for t in tasks])
    return X, signal + 0.1 * rng.normal(size=90), tasks


@pytest.mark.parametrize(("name", "parameters"), list(_cases()))
def test_estimator_passes_every_check_of_scikit_learn(name, parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks themselves warn about skipped checks
        results = check_estimator(
            getattr(tacit, name)(**parameters),
            expected_failed_checks=BOUNDED,
            on_fail=None,
            on_skip=None,
        )
    failed = {r["check_name"]: str(r["exception"]) for r in results if r["status"] == "failed"}
    if name.startswith("MeanRegularized") and parameters:  # weighs rows at a finite ε only
        refusals = {check for check in failed if "sample_weight" in check}
        assert all("sample_weight" in failed.pop(check) for check in refusals)
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 45


def test_pandas_polars_and_arrays_give_the_same_model_and_keep_feature_names(rows):
    X, y, tasks = rows
    columns = list("abcd")
    array = tacit.SingleTaskRegressor().fit(X, y, tasks=tasks)
    for frame, series in ((pd.DataFrame, pd.Series), (pl.DataFrame, pl.Series)):
        named = frame({c: X[:, i] for i, c in enumerate(columns)} | {"site": tasks})
        model = tacit.SingleTaskRegressor().fit(named, series(y), tasks="site")
        assert list(model.feature_names_in_) == columns
        np.testing.assert_array_equal(model.coef_, array.coef_)
        np.testing.assert_allclose(
            model.predict(named, tasks="site"), array.predict(X, tasks=tasks), rtol=1e-12
        )


def test_metadata_routing_sends_tasks_through_a_grid_search(rows):
    X, y, tasks = rows
    folds = KFold(3, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            tacit.SingleTaskRegressor().set_fit_request(tasks=True).set_score_request(tasks=True)
        )
        search = GridSearchCV(model, {"alpha": [0.1, 1000.0]}, cv=folds).fit(X, y, tasks=tasks)
        assert search.best_params_ == {"alpha": 0.1}
        scores = cross_val_score(model, X, y, params={"tasks": tasks}, cv=folds)
    assert scores.min() > 0.9


def test_pipeline_routes_tasks_and_keeps_frames_with_set_output(rows):
    X, y, tasks = rows
    frame = pd.DataFrame(X, columns=list("abcd"))
    with sklearn.config_context(enable_metadata_routing=True):
        model = (
            tacit.MeanRegularizedRegressor(epsilon=float("inf"))
            .set_fit_request(tasks=True)
            .set_predict_request(tasks=True)
            .set_score_request(tasks=True)
        )
        pipeline = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
        pipeline.fit(frame, y, tasks=tasks)
        assert list(pipeline[-1].feature_names_in_) == list("abcd")
        assert pipeline.score(frame, y, tasks=tasks) > 0.95


def test_clone_keeps_parameters_and_forgets_the_fit(rows):
    X, y, tasks = rows
    model = tacit.MeanRegularizedRegressor(epsilon=3.0, clip=2.0, random_state=1)
    model.fit(X, y, tasks=tasks)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "coef_")


def test_multiclass_probabilities_sum_to_one_and_classes_keep_their_names(rows):
    X, y, tasks = rows
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-1.0, 1.0])]
    for name in ("SingleTaskClassifier", "PooledClassifier"):
        model = getattr(tacit, name)().fit(X, labels, tasks=tasks)
        proba = model.predict_proba(X, tasks=tasks)
        np.testing.assert_allclose(proba.sum(axis=1), 1.0)
        assert set(model.predict(X, tasks=tasks)) <= {"low", "middle", "high"}
        assert model.score(X, labels, tasks=tasks) > 0.8
    private = tacit.MeanRegularizedClassifier(epsilon=1.0, random_state=0)
    assert private.fit(X, labels, tasks=tasks).coef_.shape == (3, 3, 4)
