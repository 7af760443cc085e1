"""Averaging fits over candidate priors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import multivariate_normal

from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.local_fit import local_fit
from tacit.numerics.logistic import logistic_paths
from tacit.numerics.prior import Prior
from tacit.numerics.prior_average import _evidence_path, averaged_fit
from tacit.tasks import TaskSet


def _tasks(rng, n_tasks=20, n_rows=15, d=6, *, binary=False, mean=3.0):
    truth = np.zeros((n_tasks, d))
    truth[:, 0] = mean + 0.3 * rng.normal(size=n_tasks)
    X = rng.normal(size=(n_tasks, n_rows, d))
    z = np.einsum("mnd,md->mn", X, truth)
    y = (rng.random(z.shape) < expit(z)).astype(float) if binary else z + rng.normal(size=z.shape)
    labels = np.repeat(np.arange(n_tasks), n_rows)
    return TaskSet.from_arrays(X.reshape(-1, d), y.ravel(), labels), truth


@pytest.mark.parametrize(("n", "d"), [(5, 9), (12, 4)])
def test_the_evidence_is_the_gaussian_density_with_its_variance_profiled_out(n, d):
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(1, n, d)), rng.normal(size=(1, n, 1))
    alphas = np.array([[0.5, 7.0]])
    _, total = _evidence_path(rows, y, alphas, np.array([float(n)]))
    scores = []
    for alpha in alphas[0]:
        shape = np.eye(n) + rows[0] @ rows[0].T / alpha
        variance = y[0, :, 0] @ np.linalg.solve(shape, y[0, :, 0]) / n
        density = multivariate_normal(np.zeros(n), variance * shape).logpdf(y[0, :, 0])
        scores.append(density + 0.5 * n * (1 + np.log(2 * np.pi) - np.log(n)))
    assert total[0, 0] == pytest.approx(np.logaddexp(*scores), rel=1e-10)


def test_the_laplace_evidence_is_close_to_the_integral_in_one_dimension():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(25, 1))
    y = (rng.random(25) < expit(X[:, 0])).astype(float)
    tasks = TaskSet.from_arrays(X, y)
    path = logistic_paths(tasks, np.array([0.8]))
    grid = np.linspace(-15, 15, 20001)
    z = X * grid
    likelihood = np.sum(y[:, None] * z - np.logaddexp(0, z), axis=0)
    log_prior = 0.5 * np.log(0.8 / (2 * np.pi)) - 0.4 * grid**2
    integral = np.log(np.trapezoid(np.exp(likelihood + log_prior), grid))
    assert path.log_evidence[0, 0] == pytest.approx(integral, abs=0.03)


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()])
def test_without_candidates_every_task_keeps_its_own_fit(loss):
    tasks, _ = _tasks(np.random.default_rng(2), binary=loss.name == "logistic")
    own = local_fit(tasks, loss)
    same = averaged_fit(tasks, loss, [])
    np.testing.assert_array_equal(same.coef, own.coef)
    np.testing.assert_array_equal(same.intercept, own.intercept)


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()])
def test_a_good_prior_helps_and_a_bad_one_is_ignored(loss):
    rng = np.random.default_rng(3)
    tasks, truth = _tasks(rng, 60, binary=loss.name == "logistic")
    mean = np.zeros(6)
    mean[0] = 3.0
    covariance = np.diag([1.0, 1e-3, 1e-3, 1e-3, 1e-3, 1e-3])

    def error(candidates):
        return np.mean((averaged_fit(tasks, loss, candidates).coef - truth) ** 2)

    own = error([])
    assert error([Prior(mean, covariance)]) < 0.5 * own
    assert error([Prior(covariance=covariance)]) < 0.7 * own
    wrong = np.array([0.0, 0.0, 40.0, 0.0, 0.0, 0.0])
    assert error([Prior(wrong, covariance[::-1, ::-1])]) < 1.15 * own


def test_the_result_does_not_depend_on_the_units_of_targets_and_features():
    tasks, _ = _tasks(np.random.default_rng(4))
    covariance = np.diag([5.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    mean = np.arange(6.0)
    fit = averaged_fit(tasks, SquaredLoss(), [Prior(mean, covariance)])
    scaled = tasks.replace(X=tasks.X * 100.0, y=tasks.y * 7.0)
    other = averaged_fit(scaled, SquaredLoss(), [Prior(mean * 0.07, covariance)])
    np.testing.assert_allclose(other.coef, fit.coef * 0.07, rtol=1e-6, atol=1e-9)


def test_tasks_of_one_row_and_constant_targets_stay_finite():
    X = np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 1.0], [3.0, 1.0]])
    tasks = TaskSet.from_arrays(X, np.array([1.0, 2.0, 2.0, 2.0]), np.array([0, 1, 1, 1]))
    candidates = [Prior(np.ones(2)), Prior(covariance=np.eye(2))]
    fit = averaged_fit(tasks, SquaredLoss(), candidates)
    assert np.isfinite(fit.coef).all()
    assert np.isfinite(fit.intercept).all()
