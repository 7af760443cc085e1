"""The mean-regularised protocol: messages, releases, and what tasks make of them."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.privacy import Ledger
from tacit.tasks import TaskSet


@pytest.fixture(scope="module")
def split():
    rng = np.random.default_rng(0)
    m, d, n = 300, 10, 12
    labels = np.repeat(np.arange(m), n)
    W = rng.normal(size=d) * 2 + 0.2 * rng.normal(size=(m, d))
    X = rng.normal(size=(m * n, d))
    y = np.einsum("nd,nd->n", X, W[labels]) + 3 * rng.normal(size=m * n) + 5
    return TaskSet.from_arrays(X, y, labels).split(0.5, random_state=0)


def _error(model, split):
    train, test = split
    model.fit(train.X, train.y, tasks=train.task_of_row)
    predicted = model.predict(test.X, tasks=test.task_of_row)
    return float(np.mean((predicted - test.y) ** 2))


def test_sharing_in_private_beats_learning_alone(split):
    alone = _error(tacit.SingleTaskRegressor(), split)
    for factor, parameters in (
        (0.8, {}),
        (0.9, {"clip": 10.0}),
        (0.8, {"delta": 0.0, "epsilon": 4.0}),
    ):
        together = tacit.MeanRegularizedRegressor(random_state=0, **parameters)
        assert _error(together, split) < factor * alone
        assert together.privacy_.epsilon <= together.epsilon


def test_without_budget_it_is_single_task_learning(split):
    alone = _error(tacit.SingleTaskRegressor(), split)
    for parameters in ({}, {"clip": 10.0}, {"delta": 0.0}):
        model = tacit.MeanRegularizedRegressor(epsilon=1e-6, random_state=0, **parameters)
        assert _error(model, split) == pytest.approx(alone, rel=0.01)


def test_statement_and_ledger_agree_and_the_ledger_refuses_a_second_run(split, tmp_path):
    train, _ = split
    ledger = Ledger(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    model = tacit.MeanRegularizedRegressor(epsilon=1.0, delta=1e-5, ledger=ledger)
    model.fit(train.X, train.y, tasks=train.task_of_row)
    assert model.privacy_.holds
    assert model.privacy_.epsilon == pytest.approx(1.0, rel=1e-6)
    assert len(model.billboard_) == model.privacy_.n_releases >= 1
    coef = model.coef_
    with pytest.raises(tacit.errors.BudgetExceeded):
        model.fit(train.X, train.y, tasks=train.task_of_row)
    assert model.coef_ is coef
    ledger.verify()


def test_secret_noise_differs_between_runs_and_a_seed_is_stated(split):
    train, _ = split
    fits = [
        tacit.MeanRegularizedRegressor(random_state=seed).fit(
            train.X, train.y, tasks=train.task_of_row
        )
        for seed in (None, None, 3, 3)
    ]
    releases = [fit.billboard_.read(0) for fit in fits]
    assert not np.array_equal(releases[0], releases[1])
    np.testing.assert_array_equal(releases[2], releases[3])
    assert [fit.privacy_.seeded for fit in fits] == [False, False, True, True]


def test_progress_is_told_of_every_round(split):
    train, _ = split
    seen = []
    tacit.MeanRegularizedRegressor(
        n_rounds=3, progress=lambda done, total: seen.append((done, total))
    ).fit(train.X, train.y, tasks=train.task_of_row)
    assert seen == [(1, 3), (2, 3), (3, 3)]
