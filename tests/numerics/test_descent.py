"""Proximal gradient descent reaches the optimum of every loss and penalty."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics import (
    Objective,
    nesterov_momentum,
    proximal_gradient,
    strongly_convex_momentum,
)
from tacit.penalties import (
    FeatureGroup,
    GraphLaplacian,
    Lasso,
    MeanPull,
    Nuclear,
    Ridge,
    TaskGroup,
)

PENALTIES = [
    Nuclear(0.1),
    FeatureGroup(0.1),
    MeanPull(0.2),
    Lasso(0.05),
    TaskGroup(0.1),
    Ridge(0.2),
    GraphLaplacian(0.3, np.eye(6) - 1 / 6),
]
every_penalty = pytest.mark.parametrize("penalty", PENALTIES, ids=lambda p: type(p).__name__)


@every_penalty
@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=lambda x: x.name)
@pytest.mark.parametrize("accelerated", [True, False])
def test_the_solution_is_a_fixed_point_of_the_proximal_step(ragged, penalty, loss, accelerated):
    target = Objective(ragged([9, 20, 6, 14, 8, 30], 5, labels=True), loss)
    found = proximal_gradient(
        target, penalty, accelerated=accelerated, max_rounds=20_000, tolerance=1e-9
    )
    assert found.converged
    again = penalty.prox(found.W - 0.1 * target.gradient(found.W), 0.1)
    assert_allclose(again, found.W, atol=1e-7)
    assert_allclose(found.value, target.value(found.W).sum() + penalty.value(found.W))


def test_the_lasso_solution_equals_that_of_scikit_learn(ragged, by_task):
    from sklearn.linear_model import Lasso as Reference

    tasks = ragged([12, 25, 9], 6)
    found = proximal_gradient(
        Objective(tasks, SquaredLoss()), Lasso(0.1), tolerance=1e-11, max_rounds=20_000
    )
    for w, (X, y) in zip(found.W, by_task(tasks), strict=True):
        reference = Reference(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=100_000)
        assert_allclose(w, reference.fit(X, y).coef_, atol=1e-7)


def test_the_ridge_solution_equals_the_closed_form(ragged, by_task):
    tasks = ragged([12, 25, 3], 6)
    found = proximal_gradient(
        Objective(tasks, SquaredLoss()), Ridge(0.3), tolerance=1e-11, max_rounds=20_000
    )
    for w, (X, y) in zip(found.W, by_task(tasks), strict=True):
        expected = np.linalg.solve(X.T @ X / len(y) + 0.3 * np.eye(6), X.T @ y / len(y))
        assert_allclose(w, expected, atol=1e-8)


def test_momentum_saves_rounds(ragged):
    target = Objective(ragged([9, 20, 6, 14], 5), SquaredLoss())
    plain, fast = (
        proximal_gradient(
            target, Nuclear(0.01), accelerated=accelerated, max_rounds=50_000, tolerance=1e-8
        )
        for accelerated in (False, True)
    )
    assert plain.converged
    assert fast.converged
    assert fast.n_rounds < plain.n_rounds / 3


def test_strongly_convex_momentum_converges_at_its_rate(ragged):
    target = Objective(ragged([60, 80], 3), SquaredLoss())
    mu = min(np.linalg.eigvalsh(target.tasks.X[a:b].T @ target.tasks.X[a:b] / (b - a))[0]
             for a, b in [(0, 60), (60, 140)])  # fmt: skip
    L = target.curvature().max()
    found = proximal_gradient(target, Nuclear(0.01), strong_convexity=mu, tolerance=1e-8)
    assert found.converged
    assert found.n_rounds <= 2 * np.log(1e10) * np.sqrt(L / mu)


def test_a_warm_start_at_the_solution_stops_at_once(ragged):
    target = Objective(ragged([9, 20, 6], 5), SquaredLoss())
    first = proximal_gradient(target, FeatureGroup(0.1), tolerance=1e-9, max_rounds=20_000)
    again = proximal_gradient(target, FeatureGroup(0.1), start=first.W, tolerance=1e-8)
    assert again.n_rounds <= 2
    assert_allclose(again.W, first.W, atol=1e-7)


def test_a_strong_enough_nuclear_norm_leaves_nothing(ragged):
    target = Objective(ragged([9, 20, 6], 5), SquaredLoss())
    top = np.linalg.norm(target.gradient(np.zeros((3, 5))), ord=2)
    assert np.abs(proximal_gradient(target, Nuclear(1.01 * top)).W).max() == 0
    assert np.abs(proximal_gradient(target, Nuclear(0.9 * top)).W).max() > 0


def test_steps_by_task_do_not_depend_on_the_units_of_other_tasks(ragged):
    tasks = ragged([20, 20], 4)
    scale = np.where(np.arange(40)[:, None] < 20, 1.0, 1000.0)
    found = proximal_gradient(
        Objective(tasks.replace(X=tasks.X * scale), SquaredLoss()), Ridge(0.0), tolerance=1e-12
    )
    expected = np.linalg.lstsq(tasks.X[:20], tasks.y[:20], rcond=None)[0]
    assert_allclose(found.W[0], expected, atol=1e-5)


def test_the_callback_sees_every_round_and_can_stop(ragged):
    seen = []
    proximal_gradient(
        Objective(ragged([9, 20], 5), SquaredLoss()),
        Ridge(0.1),
        tolerance=0.0,
        callback=lambda t, W: seen.append((t, W.shape)) or t == 4,
    )
    assert seen == [(t, (2, 5)) for t in (1, 2, 3, 4)]


def test_the_momentum_rules_are_those_of_the_paper():
    assert [nesterov_momentum(t) for t in (1, 2, 4)] == [0.0, 0.25, 0.5]
    assert_allclose(strongly_convex_momentum(1.0, 4.0), 1 / 3)
    assert strongly_convex_momentum(0.0, 4.0) == 1.0


def test_a_step_that_is_not_usable_is_refused(ragged):
    target = Objective(ragged([9, 20], 5), SquaredLoss())
    with pytest.raises(InvalidInput, match="step"):
        proximal_gradient(target, Ridge(0.1), step="armijo")
    with pytest.raises(InvalidInput, match="step"):
        proximal_gradient(target, Ridge(0.1), step=-1.0)
    with pytest.raises(InvalidInput, match="couples the tasks"):
        proximal_gradient(target, Nuclear(0.1), step=np.ones(2))
