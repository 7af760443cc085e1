"""Splits, scores and searches that know tasks, through scikit-learn's doors and tacit's own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder

import tacit
from tacit.errors import BudgetExceeded, InvalidInput, PrivacyLeak
from tacit.model_selection import (
    GridSearch,
    TaskKFold,
    TaskShuffleSplit,
    cross_validate,
    task_scorer,
)
from tacit.preprocessing import TaskMeanImputer
from tacit.privacy import Ledger


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    tasks = np.array(["north", "south", "west", "tiny"]).repeat([40, 30, 20, 2])
    rng.shuffle(tasks)
    X = rng.normal(size=(92, 3))
    slope = {"north": 1.0, "south": 1.3, "west": 0.7, "tiny": 1.0}
    y = X @ np.array([1.0, -1.0, 0.5]) * np.array([slope[t] for t in tasks])
    return X, y + 0.1 * rng.normal(size=92), tasks


@pytest.mark.parametrize("cv", [TaskKFold(5, random_state=0), TaskShuffleSplit(4, random_state=0)])
def test_every_task_is_in_every_training_fold(rows, cv):
    X, y, tasks = rows
    parts = list(cv.split(X, y, tasks=tasks))
    assert len(parts) == cv.get_n_splits()
    for train, test in parts:
        assert set(tasks[train]) == set(tasks)
        assert not set(train) & set(test)
        assert len(train) + len(test) == len(X)


def test_folds_test_every_row_once_and_follow_from_the_tasks_own_rows(rows):
    X, _, tasks = rows
    folds = [test for _, test in TaskKFold(5, random_state=1).split(X, groups=tasks)]
    assert sorted(np.concatenate(folds)) == list(range(92))
    # Without another task the rows of "north" are dealt as before.
    kept = np.flatnonzero(tasks != "south")
    fewer = [
        kept[test] for _, test in TaskKFold(5, random_state=1).split(X[kept], groups=tasks[kept])
    ]
    for one, other in zip(folds, fewer, strict=True):
        assert set(one[tasks[one] == "north"]) == set(other[tasks[other] == "north"])


def test_a_splitter_without_tasks_or_with_too_many_folds_says_so(rows):
    X, _, tasks = rows
    with pytest.raises(InvalidInput, match="tasks=None"):
        next(TaskKFold().split(X))
    with pytest.raises(InvalidInput, match="91 labels for 92 rows"):
        next(TaskKFold().split(X, tasks=tasks[1:]))
    with pytest.raises(InvalidInput, match="n_folds=50"):
        next(TaskKFold(50).split(X, tasks=tasks))


def test_scikit_learns_own_search_scores_without_nan_and_without_requests(rows):
    X, y, tasks = rows
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            tacit.SingleTaskRegressor(),
            {"alpha": [0.1, 1000.0]},
            cv=TaskKFold(3, random_state=0),
            scoring=task_scorer("neg_mean_absolute_error"),
            error_score="raise",
        ).fit(X, y, tasks=tasks)
        scores = cross_val_score(
            tacit.SingleTaskRegressor(), X, y, params={"tasks": tasks}, cv=TaskKFold(3)
        )
    assert search.best_params_ == {"alpha": 0.1}
    assert -0.5 < search.best_score_ < 0
    assert np.isfinite(scores).all()
    assert scores.min() > 0.9


def test_a_pipeline_with_a_column_transformer_goes_through_a_search(rows):
    X, y, tasks = rows
    frame = pd.DataFrame(X, columns=list("abc")).assign(ward=np.where(X[:, 0] > 0, "u", "v"))
    pipeline = make_pipeline(
        make_column_transformer(
            (MinMaxScaler(), list("abc")), (OneHotEncoder(drop="first"), ["ward"])
        ),
        tacit.SingleTaskRegressor(),
    )
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            pipeline,
            {"singletaskregressor__alpha": [0.01, 1e4]},
            cv=TaskKFold(3, random_state=0),
            scoring=task_scorer("r2"),
            error_score="raise",
        ).fit(frame, y, tasks=tasks)
        assert search.score(frame, y, tasks=tasks) > 0.95
    assert search.best_params_ == {"singletaskregressor__alpha": 0.01}
    found = cross_validate(pipeline, frame, y, tasks=tasks, cv=3)
    assert found["test_score"].min() > 0.9


@pytest.mark.parametrize("metric", ["accuracy", "balanced_accuracy", "neg_log_loss", "roc_auc"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_classifiers_hand_tasks_on(rows, metric, n_classes):
    X, y, tasks = rows
    labels = np.array(["low", "mid", "top"])[np.digitize(y, [-0.5, 0.7][: n_classes - 1])]
    found = cross_validate(
        tacit.SingleTaskClassifier(), X, labels, tasks=tasks, cv=3, scoring=metric
    )
    score = found["test_score"].mean()
    assert -1.0 < score < 0 if metric == "neg_log_loss" else 0.7 < score <= 1.0


def test_a_function_can_score_and_an_unknown_name_is_refused(rows):
    X, y, tasks = rows
    worst = task_scorer(lambda y, answers: np.abs(y - answers).max(), greater_is_better=False)
    found = cross_validate(tacit.SingleTaskRegressor(), X, y, tasks=tasks, cv=3, scoring=worst)
    assert (found["test_score"] < 0).all()
    with pytest.raises(InvalidInput, match="metric='r3'"):
        task_scorer("r3")


@pytest.fixture(scope="module")
def crowd():
    made = tacit.datasets.make_low_rank(150, 10, 4, n_test_rows=5, random_state=0).train
    return made.X, made.y, made.task_of_row


def test_folds_in_processes_charge_one_ledger_and_the_sum_is_stated(crowd, tmp_path):
    X, y, tasks = crowd
    ledger = Ledger(tmp_path / "one.db", epsilon=3.0, delta=1e-5)
    model = tacit.SharedPriorRegressor(epsilon=1.0)
    found = cross_validate(model, X, y, tasks=tasks, cv=3, ledger=ledger, n_jobs=2)
    (line,) = ledger.lines()
    stated = found["privacy"]
    assert line.n_reservations == 3
    assert stated.epsilon == line.spent.epsilon
    assert 1.5 < stated.epsilon < 3.0  # three fits of ε = 1, composed
    assert stated.holds
    assert "PrivateSearch" in " ".join(stated.not_protected)
    assert model.ledger is None  # the estimator that was given is left as it was


def test_a_look_that_the_ledger_cannot_pay_is_refused_before_it_spends(crowd, tmp_path):
    X, y, tasks = crowd
    ledger = Ledger(tmp_path / "small.db", epsilon=1.5, delta=1e-5)
    with pytest.raises(BudgetExceeded):
        cross_validate(tacit.SharedPriorRegressor(), X, y, tasks=tasks, cv=5, ledger=ledger)
    assert ledger.lines() == ()


def test_without_a_ledger_the_sum_is_stated_all_the_same(crowd):
    X, y, tasks = crowd
    model = tacit.SharedPriorRegressor(epsilon=1.0)
    stated = cross_validate(model, X, y, tasks=tasks, cv=3)["privacy"]
    assert 1.5 < stated.epsilon < 3.0
    assert stated.n_releases == 3 * model.fit(X, y, tasks=tasks).privacy_.n_releases
    assert "this fit alone" in " ".join(model.privacy_.assumptions)
    assert "this fit alone" not in " ".join(stated.assumptions)


def test_what_shares_nothing_costs_nothing(rows):
    X, y, tasks = rows
    stated = cross_validate(tacit.SingleTaskRegressor(), X, y, tasks=tasks, cv=3)["privacy"]
    assert stated.epsilon == 0
    pooled = cross_validate(tacit.PooledRegressor(), X, y, tasks=tasks, cv=3)["privacy"]
    assert not pooled.private


def test_a_grid_search_over_private_candidates_must_be_declared(crowd):
    X, y, tasks = crowd
    grid = {"clip": ["auto", 5.0]}
    model = tacit.MeanRegularizedRegressor(epsilon=4.0)
    with pytest.raises(PrivacyLeak, match="PrivateSearch"):
        GridSearch(model, grid, cv=2).fit(X, y, tasks=tasks)
    search = GridSearch(model, grid, cv=2, choice="unprotected").fit(X, y, tasks=tasks)
    assert not search.privacy_.sound
    assert not search.best_estimator_.privacy_.holds
    assert search.privacy_.epsilon > 4.0
    assert search.best_params_ in search.cv_results_["params"]
    assert search.predict(X, tasks=tasks).shape == y.shape


def test_a_grid_search_without_privacy_is_free_to_choose(rows):
    X, y, tasks = rows
    search = GridSearch(tacit.SingleTaskRegressor(), {"alpha": [0.1, 1000.0]}, cv=3)
    search.fit(X, y, tasks=tasks)
    assert search.best_params_ == {"alpha": 0.1}
    assert search.privacy_.holds
    assert search.privacy_.epsilon == 0


def test_gaps_are_filled_within_tasks_in_a_pipeline_that_is_validated(rows):
    X, y, tasks = rows
    gaps = np.array(X, dtype=float)
    gaps[::7, 0] = np.nan
    chain = make_pipeline(TaskMeanImputer(), tacit.SingleTaskRegressor())
    found = cross_validate(chain, gaps, y, tasks=tasks, cv=TaskKFold(5, random_state=0))
    assert (found["test_score"] > 0.5).all()
