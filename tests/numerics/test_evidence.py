"""Personal models and fits of a handful of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.losses import SquaredLoss
from tacit.numerics.evidence import personal_models
from tacit.numerics.hierarchical import Candidates, Frame, SquaredTasks
from tacit.numerics.local_fit import LocalFit, bounded_slopes, local_fit
from tacit.numerics.prior import Prior
from tacit.tasks import TaskSet


def _setting(ragged):
    tasks = ragged([4, 9, 20], 3)
    frame = Frame(np.zeros(3), np.ones(3))
    shared = Candidates(np.ones((1, 4)), np.array([0.1, 1.0]), np.array([0.1, 10.0]))
    alone = Candidates(np.zeros((1, 4)), np.array([0.1, 1.0]), np.array([1e3]))
    own = LocalFit(np.full((3, 3), 7.0), np.full(3, -7.0))
    return SquaredTasks.of(tasks, frame), shared, alone, own


def test_public_weights_can_send_every_task_home(ragged):
    home, shared, alone, own = _setting(ragged)
    weights = np.r_[np.full(shared.size, -1e6), np.zeros(alone.size)]
    found = personal_models(home, shared, alone, weights, own)
    np.testing.assert_allclose(found.coef, own.coef)
    np.testing.assert_allclose(found.intercept, own.intercept)


def test_public_weights_can_settle_one_prior_for_all(ragged):
    home, shared, alone, own = _setting(ragged)
    weights = np.full(shared.size + alone.size, -1e6)
    weights[2] = 0.0
    found = personal_models(home, shared, alone, weights, own)
    models, _ = home.averaged(shared, weights[: shared.size])
    np.testing.assert_allclose(np.column_stack([found.coef, found.intercept]), models)


def test_two_rows_that_nearly_coincide_do_not_make_a_steep_model():
    rng = np.random.default_rng(1)
    X = np.vstack([np.full((2, 4), 0.5), rng.random((30, 4))])
    X[1] += 1e-5
    y = np.r_[0.0, 2.0, rng.normal(size=30)]
    tasks = TaskSet.from_arrays(X, y, np.r_[np.zeros(2), np.ones(30)])
    wild = local_fit(tasks, SquaredLoss(), priors=(Prior(), Prior()))
    assert np.abs(wild.coef[0]).max() > 1e3
    kept = local_fit(tasks, SquaredLoss())
    far = np.array([1.0, 0.0, 1.0, 0.0])
    assert abs(far @ kept.coef[0] + kept.intercept[0] - 1.0) <= 2.0
    np.testing.assert_allclose(kept.coef[1], wild.coef[1], rtol=1e-12)
    assert kept.intercept[1] == pytest.approx(wild.intercept[1], rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_a_small_fit_passes_through_its_own_mean_with_a_bounded_slope(n):
    rng = np.random.default_rng(n)
    X, y = rng.normal(size=(n, 6)), 50 + rng.normal(size=n)
    tasks = TaskSet.from_arrays(X, y)
    fit = local_fit(tasks, SquaredLoss())
    assert X.mean(axis=0) @ fit.coef[0] + fit.intercept[0] == pytest.approx(y.mean())
    length = np.sqrt((X**2).sum(axis=1).mean())
    assert np.linalg.norm(fit.coef[0]) * length <= np.sqrt(n - 1) * y.std() * (1 + 1e-12)


def test_a_small_fit_is_the_same_in_any_company(ragged):
    tasks = ragged([2, 5, 30, 1, 3], 4)
    many = bounded_slopes(tasks, LocalFit(np.full((5, 4), 9.0), np.zeros(5)))
    for number, (low, high) in enumerate(zip(tasks.offsets[:-1], tasks.offsets[1:], strict=True)):
        alone = TaskSet.from_arrays(tasks.X[low:high], tasks.y[low:high])
        one = bounded_slopes(alone, LocalFit(np.full((1, 4), 9.0), np.zeros(1)))
        np.testing.assert_array_equal(one.coef[0], many.coef[number])
        assert one.intercept[0] == many.intercept[number]
