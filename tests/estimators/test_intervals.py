"""Predictions with a standard deviation, from the posterior that a task computes at home."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.datasets import make_low_rank
from tacit.errors import InvalidInput, UnknownTask

KINDS = (tacit.SharedPriorRegressor, tacit.MeanRegularizedRegressor, tacit.SingleTaskRegressor)


def _rows(n_rows=12, n_tasks=150, seed=3):
    made = make_low_rank(
        n_tasks, n_rows, 6, n_test_rows=20, similarity=0.9, signal=4.0, random_state=seed
    )
    return made.train, made.test


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_rows", [12, 40])
def test_about_95_per_cent_of_new_values_lie_within_two_deviations(kind, n_rows):
    train, test = _rows(n_rows)
    settings = {} if kind is tacit.SingleTaskRegressor else {"epsilon": 4.0}
    model = kind(intervals=True, **settings).fit(train.X, train.y, tasks=train.task_of_row)
    predicted, deviation = model.predict(test.X, tasks=test.task_of_row, return_std=True)
    np.testing.assert_array_equal(predicted, model.predict(test.X, tasks=test.task_of_row))
    inside = np.abs(test.y - predicted) < 1.96 * deviation
    assert 0.90 < inside.mean() < 0.985
    half = np.abs(test.y - predicted) < 0.674 * deviation
    assert 0.42 < half.mean() < 0.65


def test_sharing_makes_intervals_shorter_and_rows_make_them_shorter_still():
    train, test = _rows(8)
    alone = tacit.SingleTaskRegressor(intervals=True)
    shared = tacit.SharedPriorRegressor(epsilon=8.0, intervals=True)
    more = _rows(60)[0]
    lengths = []
    for model, rows in ((alone, train), (shared, train), (shared, more)):
        model.fit(rows.X, rows.y, tasks=rows.task_of_row)
        lengths.append(model.predict(test.X, tasks=test.task_of_row, return_std=True)[1].mean())
    assert lengths[0] > 1.2 * lengths[1] > 1.2 * lengths[2]


def test_far_from_a_tasks_rows_the_deviation_grows():
    train, _ = _rows(40)
    model = tacit.SharedPriorRegressor(epsilon=4.0, intervals=True)
    model.fit(train.X, train.y, tasks=train.task_of_row)
    point = np.ones((1, 6))
    near, far = (
        model.predict(scale * point, tasks=[0], return_std=True)[1][0] for scale in (0.1, 100.0)
    )
    assert far > 5 * near


def test_a_tasks_deviations_depend_on_its_own_rows_and_the_releases_only():
    train, _ = _rows(12)
    model = tacit.SharedPriorRegressor(epsilon=4.0, intervals=True)
    model.fit(train.X, train.y, tasks=train.task_of_row)
    mine = train.task_of_row == 5
    again = model.fit_task(train.X[mine], train.y[mine], name="again")
    for name in ("noise_", "centre_", "spread_"):
        np.testing.assert_allclose(getattr(again, name)[-1], getattr(again, name)[5], rtol=1e-10)


def test_a_partys_folder_holds_its_own_spread_alone_and_answers_alike(tmp_path):
    train, test = _rows(12)
    model = tacit.SharedPriorRegressor(epsilon=4.0, intervals=True)
    model.fit(train.X, train.y, tasks=train.task_of_row)
    model.save(tmp_path / "own", task=7)
    own = tacit.load(tmp_path / "own")
    assert own.spread_.shape == (1, 7, 7)
    rows = test.X[test.task_of_row == 7]
    np.testing.assert_array_equal(
        own.predict(rows, return_std=True)[1],
        model.predict(rows, tasks=[7] * len(rows), return_std=True)[1],
    )


def test_who_kept_no_spread_or_asks_for_a_stranger_is_told_so():
    train, _ = _rows(12)
    X, y, tasks = train.X, train.y, train.task_of_row
    with pytest.raises(InvalidInput, match="intervals=True"):
        tacit.SharedPriorRegressor().fit(X, y, tasks=tasks).predict(X, tasks=tasks, return_std=True)
    with pytest.raises(InvalidInput, match="for regressors"):
        tacit.SharedPriorClassifier(intervals=True).fit(X, y > 0, tasks=tasks)
    model = tacit.SharedPriorRegressor(epsilon=8.0, intervals=True, unknown_task="shared")
    model.fit(X, y, tasks=tasks)
    with pytest.raises(UnknownTask, match="return_std"):
        model.predict(X[:1], tasks=["stranger"], return_std=True)
