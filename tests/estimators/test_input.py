"""Bad input gets an error that names the parameter, the value and the remedy; no state changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tacit
from tacit.errors import InvalidInput, UnknownTask


@pytest.fixture
def rows():
    rng = np.random.default_rng(1)
    tasks = np.repeat(["a", "b"], 20)
    X = rng.normal(size=(40, 3))
    return X, X @ [1.0, 2.0, 3.0], tasks


@pytest.fixture(params=["SingleTaskRegressor", "PooledRegressor", "MeanRegularizedRegressor"])
def model(request):
    return getattr(tacit, request.param)()


def test_nan_is_refused_with_task_and_column(model, rows):
    X, y, tasks = rows
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"])
    frame.loc[25, "dose"] = np.nan
    with pytest.raises(InvalidInput, match=r"NaN.*'dose'|'dose'.*NaN") as refusal:
        model.fit(frame, y, tasks=tasks)
    assert "'b'" in str(refusal.value)


def test_infinite_target_is_refused(model, rows):
    X, y, tasks = rows
    y[3] = np.inf
    with pytest.raises(InvalidInput, match="inf"):
        model.fit(X, y, tasks=tasks)


def test_lengths_must_agree(model, rows):
    X, y, tasks = rows
    with pytest.raises(InvalidInput, match="39 labels for 40 rows"):
        model.fit(X, y, tasks=tasks[:-1])
    with pytest.raises(InvalidInput, match="39 values for 40 rows"):
        model.fit(X, y[:-1], tasks=tasks)


def test_non_numeric_columns_are_named(model, rows):
    X, y, tasks = rows
    frame = pd.DataFrame(X, columns=["age", "dose", "weight"]).assign(ward="x")
    with pytest.raises(InvalidInput, match="'ward'"):
        model.fit(frame, y, tasks=tasks)


def test_a_task_column_that_is_not_there_is_named_with_those_that_are(model, rows):
    X, y, _ = rows
    with pytest.raises(InvalidInput, match=r"'site'.*age"):
        model.fit(pd.DataFrame(X, columns=["age", "dose", "weight"]), y, tasks="site")
    with pytest.raises(InvalidInput, match="column name needs X to be"):
        model.fit(X, y, tasks="site")


def test_a_refused_refit_leaves_the_fitted_model_as_it_was(model, rows):
    X, y, tasks = rows
    model.fit(X, y, tasks=tasks)
    before, coef = model.predict(X, tasks=tasks), model.coef_
    with pytest.raises(InvalidInput):
        model.fit(np.full((4, 5), np.nan), np.zeros(4))
    assert model.coef_ is coef
    np.testing.assert_array_equal(model.predict(X, tasks=tasks), before)


def test_unknown_task_is_an_error_with_the_remedy(rows):
    X, y, tasks = rows
    pooled = tacit.PooledRegressor().fit(X, y, tasks=tasks)
    with pytest.raises(UnknownTask, match=r'\'c\'.*unknown_task="shared"'):
        pooled.predict(X[:1], tasks=["c"])
    shared = tacit.PooledRegressor(unknown_task="shared").fit(X, y, tasks=tasks)
    np.testing.assert_allclose(shared.predict(X[:1], tasks=["c"]), y[:1], atol=0.1)
    alone = tacit.SingleTaskRegressor().fit(X, y, tasks=tasks)
    with pytest.raises(UnknownTask, match="no shared model"):
        alone.predict(X[:1], tasks=["c"])


def test_predict_without_tasks_needs_a_single_task_model(rows):
    X, y, tasks = rows
    with pytest.raises(InvalidInput, match="this model has 2 tasks"):
        tacit.SingleTaskRegressor().fit(X, y, tasks=tasks).predict(X)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"epsilon": -1.0}, r"epsilon=-1.0: must be positive; use epsilon=float\(\"inf\"\)"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": float("nan")}, "epsilon=nan"),
        ({"delta": 1.5}, "delta=1.5"),
        ({"delta": -1e-9}, "delta=-1e-09"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"clip": 0.0}, "clip=0.0"),
        ({"n_rounds": 0}, "n_rounds=0"),
        ({"n_rounds": 1.5}, "n_rounds=1.5"),
        ({"mechanism": "magic"}, "mechanism='magic'"),
        ({"unknown_task": "guess"}, "unknown_task='guess'"),
        ({"engine": "cloud"}, "engine='cloud'"),
        ({"progress": 3}, "progress=3"),
    ],
)
def test_bad_parameters_are_named_with_value_and_remedy(rows, parameters, message):
    X, y, tasks = rows
    with pytest.raises(InvalidInput, match=message):
        tacit.MeanRegularizedRegressor(**parameters).fit(X, y, tasks=tasks)


def test_a_task_of_one_class_is_learned_and_predicts(rows):
    X, y, tasks = rows
    labels = (y > 0).astype(int)
    labels[:20] = 1
    for name in ("SingleTaskClassifier", "PooledClassifier", "MeanRegularizedClassifier"):
        model = getattr(tacit, name)().fit(X, labels, tasks=tasks)
        proba = model.predict_proba(X, tasks=tasks)
        assert np.isfinite(proba).all()
        if name == "SingleTaskClassifier":
            assert (model.predict(X[:20], tasks=tasks[:20]) == 1).all()


def test_constant_features_and_more_features_than_rows_are_fine():
    rng = np.random.default_rng(2)
    X = np.hstack([rng.normal(size=(12, 30)), np.ones((12, 2))])
    tasks = np.repeat([0, 1, 2], 4)
    y = X[:, 0]
    for name in ("SingleTaskRegressor", "PooledRegressor", "MeanRegularizedRegressor"):
        model = getattr(tacit, name)().fit(X, y, tasks=tasks)
        assert np.isfinite(model.predict(X, tasks=tasks)).all()


def test_task_names_of_any_hashable_kind_are_kept(rows):
    X, y, _ = rows
    names = [("ward", 1), 7, "x", 2.5] * 10
    model = tacit.SingleTaskRegressor().fit(X, y, tasks=names)
    assert set(model.task_names_) == {("ward", 1), 7, "x", 2.5}
    assert model.predict(X[:1], tasks=[("ward", 1)]).shape == (1,)
