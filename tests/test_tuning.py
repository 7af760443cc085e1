"""Hyper-parameters chosen with the choice paid for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event

import tacit
from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy import Ledger, calibrate, epsilon_of
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.tuning import PrivateSearch, repetitions, selection_event, selection_noise


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    m, n, d = 150, 12, 4
    tasks = np.repeat([f"site {i}" for i in range(m)], n)
    X = rng.normal(size=(m * n, d))
    return X, X @ [1.0, -1.0, 2.0, 0.5] + rng.normal(size=m * n), tasks


def test_number_of_runs_is_logarithmic_with_the_mean_asked_for():
    entropy = SeededEntropy(0)
    draws = np.array([repetitions(10.0, entropy) for _ in range(4000)])
    assert draws.min() == 1
    # Standard deviation of the mean is about 0.28 here: four of them.
    assert draws.mean() == pytest.approx(10.0, abs=1.2)
    # The mean fixes γ through (1/γ − 1)/log(1/γ) = 10, hence P[K = 1] = (1 − γ)/log(1/γ).
    decay = 3.6150  # log(1/γ)
    assert math.expm1(decay) / decay == pytest.approx(10.0, abs=0.01)
    assert np.mean(draws == 1) == pytest.approx((1 - math.exp(-decay)) / decay, abs=0.03)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_selection_noise_is_safe_and_nearly_the_smallest(epsilon):
    noise = selection_noise(epsilon, 1e-6, 10.0)
    assert epsilon_of(selection_event(noise, 10.0), 1e-6) <= epsilon
    assert epsilon_of(selection_event(noise / 1.001, 10.0), 1e-6) > epsilon


def test_selection_among_many_costs_less_than_cross_validating_them():
    ours = selection_noise(1.0, 1e-6, 10.0)
    alone = calibrate(1.0, 1e-6)
    for candidates in (10, 30):
        naive = calibrate(
            1.0,
            1e-6,
            event=lambda s, g=candidates: dp_event.SelfComposedDpEvent(
                dp_event.GaussianDpEvent(s), g + 1
            ),
        )
        assert alone < ours < naive


def test_search_finds_the_useful_candidate_and_states_what_it_cost(rows, tmp_path):
    X, y, tasks = rows
    ledger = Ledger(tmp_path / "ledger.db", epsilon=20.0, delta=1e-5)
    search = PrivateSearch(
        tacit.MeanRegularizedRegressor(),
        {"clip": [1e-6, 10.0], "n_rounds": [1, 2]},
        epsilon=20.0,
        delta=1e-5,
        mean_runs=20.0,
        ledger=ledger,
        random_state=3,
    ).fit(X, y, tasks=tasks)
    assert search.best_params_["clip"] in (1e-6, 10.0)
    assert 0.5 < search.best_score_ < 1.1
    assert search.privacy_.epsilon <= 20.0
    assert search.privacy_.seeded
    assert any("accounted selection" in text for text in search.privacy_.assumptions)
    assert len(search.billboard_) == 1 + search.best_params_["n_rounds"]
    assert search.score(X, y, tasks=tasks) > 0.5
    with pytest.raises(BudgetExceeded):
        search.fit(X, y, tasks=tasks)


def test_search_works_for_classifiers_and_column_names(rows):
    pd = pytest.importorskip("pandas")
    X, y, tasks = rows
    frame = pd.DataFrame(X, columns=list("abcd")).assign(site=tasks)
    labels = np.where(y > 0, "ill", "well")
    search = PrivateSearch(
        tacit.MeanRegularizedClassifier(), {"n_rounds": [1, 2]}, epsilon=5.0, random_state=0
    ).fit(frame, labels, tasks="site")
    assert search.predict_proba(frame.drop(columns="site"), tasks=tasks).shape == (len(y), 2)


def test_secret_searches_differ_and_hold(rows):
    X, y, tasks = rows
    fits = [
        PrivateSearch(tacit.MeanRegularizedRegressor(), {"n_rounds": [1]}, mean_runs=2.0).fit(
            X, y, tasks=tasks
        )
        for _ in range(2)
    ]
    assert all(fit.privacy_.holds for fit in fits)
    assert fits[0].best_score_ != fits[1].best_score_


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimator": tacit.SingleTaskRegressor()}, "must be a private estimator"),
        ({"parameters": {}}, "parameters="),
        ({"parameters": {"epsilon": [1.0]}}, "cannot be searched"),
        ({"parameters": {"nonsense": [1.0]}}, "nonsense"),
        ({"parameters": {"clip": []}}, "at least one value"),
        ({"epsilon": float("inf")}, "epsilon=inf"),
        ({"delta": 0.0}, "delta=0.0"),
        ({"mean_runs": 1.0}, "mean_runs=1.0"),
        ({"score_share": 0.0}, "score_share=0.0"),
    ],
)
def test_bad_searches_are_refused(rows, change, message):
    X, y, tasks = rows
    given = {"estimator": tacit.MeanRegularizedRegressor(), "parameters": {"clip": [1.0]}}
    with pytest.raises(InvalidInput, match=message):
        PrivateSearch(**(given | change)).fit(X, y, tasks=tasks)
