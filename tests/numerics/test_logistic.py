"""Batched Newton logistic regression, against scikit-learn and against its own optimality."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss
from tacit.numerics import logistic_kfold, logistic_paths
from tacit.numerics.prior import Prior
from tacit.tasks import TaskSet

ALPHAS = np.array([100.0, 1e-3, 1.0])
SIZES = [1, 2, 6, 7, 12, 17, 30, 44]
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])


@with_and_without_intercept
@pytest.mark.parametrize("d", [5, 20])
def test_models_equal_those_of_scikit_learn(ragged, by_task, intercept, d):
    tasks = ragged(SIZES, d, labels=True)
    path = logistic_paths(tasks, ALPHAS, intercept=intercept)
    compared = 0
    for i, (X, y) in enumerate(by_task(tasks)):
        if len(set(y)) < 2:
            continue
        compared += 1
        for k, alpha in enumerate(ALPHAS):
            reference = LogisticRegression(
                C=1 / alpha,
                fit_intercept=intercept,
                solver="newton-cholesky",
                tol=1e-12,
                max_iter=1000,
            ).fit(X, y)
            assert_allclose(path.coef[k, i], reference.coef_[0], atol=1e-6)
            assert_allclose(path.intercept[k, i], np.ravel(reference.intercept_)[0], atol=1e-6)
    assert compared >= 5


@with_and_without_intercept
def test_the_gradient_vanishes_under_any_prior(ragged, by_task, intercept):
    tasks = ragged(SIZES, 6, labels=True)
    rng = np.random.default_rng(1)
    A = rng.standard_normal((6, 6))
    mean, covariance = rng.standard_normal(6), A @ A.T / 6 + 0.2 * np.eye(6)
    path = logistic_paths(tasks, ALPHAS, prior=Prior(mean, covariance), intercept=intercept)
    for i, (X, y) in enumerate(by_task(tasks)):
        for k, alpha in enumerate(ALPHAS):
            w, b = path.coef[k, i], path.intercept[k, i]
            slope = expit(X @ w + b) - y
            gradient = covariance @ (X.T @ slope) + alpha * (w - mean)
            assert np.linalg.norm(gradient) < 1e-8
            if intercept and 0 < y.mean() < 1:
                assert abs(slope.sum()) < 1e-8


@with_and_without_intercept
def test_tasks_of_one_class_and_separable_tasks_stay_finite(ragged, intercept):
    tasks = ragged([3, 5, 30], 4, labels=True)
    y = tasks.y.copy()
    y[:3], y[3:8] = 0, 1
    tasks = tasks.replace(X=1e3 * tasks.X, y=y)
    path = logistic_paths(tasks, [1e-6, 1.0], intercept=intercept)
    for values in (path.coef, path.intercept, path.loo_predictions, path.loo_errors):
        assert np.isfinite(values).all()
    z = np.sum(tasks.X * path.coef[1][tasks.task_of_row], axis=1)
    z += path.intercept[1][tasks.task_of_row]
    assert (z[:3] < 0).all()
    assert (z[3:8] > 0).all()


@with_and_without_intercept
def test_approximate_leave_one_out_is_near_leaving_out_for_real(ragged, by_task, intercept):
    tasks = ragged([60, 80], 3, labels=True)
    path = logistic_paths(tasks, 2.0, intercept=intercept)
    row, gaps, moves = 0, [], []
    for i, (X, y) in enumerate(by_task(tasks)):
        n = len(y)
        others = np.array([np.delete(np.arange(n), r) for r in range(n)]).ravel()
        without = TaskSet.from_arrays(X[others], y[others], np.repeat(np.arange(n), n - 1))
        fits = logistic_paths(without, 2.0, intercept=intercept)
        exact = np.sum(X * fits.coef[0], axis=1) + fits.intercept[0]
        full = X @ path.coef[0, i] + path.intercept[0, i]
        gaps.extend(np.abs(path.loo_predictions[0, row : row + n] - exact))
        moves.extend(np.abs(full - exact))
        row += n
    assert np.mean(gaps) < 0.05 * np.mean(moves)


@with_and_without_intercept
def test_k_fold_predicts_each_row_by_a_fit_without_its_fold(ragged, intercept):
    from tacit.numerics.logistic import _stratified_folds

    tasks = ragged([12, 31, 8], 4, labels=True)
    found = logistic_kfold(tasks, ALPHAS, n_folds=3, random_state=5, intercept=intercept)
    folds = _stratified_folds(tasks, tasks.y, 3, 5)
    for f in range(3):
        path = logistic_paths(tasks.take_rows(folds != f), ALPHAS, intercept=intercept)
        held = folds == f
        task = tasks.task_of_row[held]
        for k in range(3):
            z = np.sum(tasks.X[held] * path.coef[k][task], axis=1) + path.intercept[k][task]
            assert_allclose(found[k, held], z, atol=1e-6)


def test_folds_are_even_within_every_task_and_label(ragged):
    from tacit.numerics.logistic import _stratified_folds

    tasks = ragged([25, 31, 8], 4, labels=True)
    folds = _stratified_folds(tasks, tasks.y, 4, 0)
    for task in range(3):
        for label in (0, 1):
            among = folds[(tasks.task_of_row == task) & (tasks.y == label)]
            counts = np.bincount(among, minlength=4)
            assert counts.max() - counts.min() <= 1


def test_a_task_whose_only_row_is_held_out_is_predicted_by_the_prior(ragged):
    tasks = ragged([1, 9], 3, labels=True)
    mean = np.array([1.0, -2.0, 0.5])
    found = logistic_kfold(tasks, 1.0, n_folds=3, random_state=0, prior=Prior(mean))
    assert_allclose(found[0, 0], tasks.X[0] @ mean)


def test_errors_are_the_mean_loss_of_the_leave_one_out_predictions(ragged):
    tasks = ragged(SIZES, 4, labels=True)
    path = logistic_paths(tasks, ALPHAS)
    losses = LogisticLoss().value(path.loo_predictions, tasks.y)
    expected = np.add.reduceat(losses, tasks.offsets[:-1], axis=1) / tasks.counts
    assert_allclose(path.loo_errors, expected)


def test_labels_outside_zero_and_one_and_a_single_fold_are_refused(ragged):
    tasks = ragged([4, 5], 3, labels=True)
    with pytest.raises(InvalidInput, match="labels"):
        logistic_paths(tasks, 1.0, targets=2 * tasks.y - 1)
    with pytest.raises(InvalidInput, match="n_folds=1"):
        logistic_kfold(tasks, 1.0, n_folds=1)
