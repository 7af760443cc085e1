"""Ridge paths in closed form, against scikit-learn and against leaving rows out for real."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Ridge, RidgeCV

from tacit.errors import InvalidInput
from tacit.numerics import ridge_best, ridge_paths
from tacit.numerics.prior import Prior
from tacit.numerics.stacks import eigh

ALPHAS = np.array([1e-6, 1e-2, 1.0, 100.0])
SIZES = [1, 2, 3, 5, 6, 7, 8, 17, 17, 30]
with_and_without_intercept = pytest.mark.parametrize("intercept", [False, True])


def prior(d, seed=1):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((d, d))
    return rng.standard_normal(d), A @ A.T / d + 0.1 * np.eye(d)


@with_and_without_intercept
def test_models_equal_those_of_scikit_learn(ragged, by_task, intercept):
    tasks = ragged(SIZES, 6)
    path = ridge_paths(tasks, ALPHAS, intercept=intercept)
    for i, (X, y) in enumerate(by_task(tasks)):
        for k, alpha in enumerate(ALPHAS):
            reference = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd").fit(X, y)
            assert_allclose(path.coef[k, i], reference.coef_, atol=1e-8)
            assert_allclose(path.intercept[k, i], reference.intercept_, atol=1e-8)


@with_and_without_intercept
@pytest.mark.parametrize("d", [4, 20])
def test_leave_one_out_equals_leaving_out_for_real_under_any_prior(ragged, by_task, intercept, d):
    tasks = ragged([2, 3, 5, 12, 19, 25], d)
    mean, covariance = prior(d)
    root = np.linalg.cholesky(covariance)
    path = ridge_paths(tasks, ALPHAS, prior=Prior(mean, covariance), intercept=intercept)
    expected = np.empty_like(path.loo_residuals)
    row = 0
    for X, y in by_task(tasks):
        white, target = X @ root, y - X @ mean
        for r in range(len(y)):
            others = np.arange(len(y)) != r
            for k, alpha in enumerate(ALPHAS):
                fit = Ridge(alpha=alpha, fit_intercept=intercept, solver="svd")
                fit.fit(white[others], target[others])
                expected[k, row] = target[r] - fit.predict(white[[r]])[0]
            row += 1
    assert_allclose(path.loo_residuals, expected, atol=1e-8, rtol=1e-8)
    squares = np.add.reduceat(expected**2, tasks.offsets[:-1], axis=1) / tasks.counts
    assert_allclose(path.loo_errors, squares, rtol=1e-7)


@with_and_without_intercept
def test_each_task_chooses_what_ridge_cv_chooses(ragged, by_task, intercept):
    tasks = ragged([8, 12, 25, 40], 6)
    found = ridge_best(tasks, ALPHAS, intercept=intercept)
    for i, (X, y) in enumerate(by_task(tasks)):
        reference = RidgeCV(ALPHAS, fit_intercept=intercept, store_cv_results=True).fit(X, y)
        assert found.alpha[i] == reference.alpha_
        assert_allclose(found.coef[i], reference.coef_, atol=1e-8)
        assert_allclose(found.intercept[i], reference.intercept_, atol=1e-8)
        assert_allclose(found.loo_errors[i], -reference.best_score_, rtol=1e-8)


def test_the_best_fit_is_the_path_at_its_least_error(ragged):
    tasks = ragged(SIZES, 6)
    path, best = ridge_paths(tasks, ALPHAS), ridge_best(tasks, ALPHAS)
    k = path.loo_errors.argmin(axis=0)
    assert_array_equal(best.alpha, ALPHAS[k])
    assert_allclose(best.coef, path.coef[k, np.arange(len(SIZES))])
    assert_allclose(best.loo_residuals, path.loo_residuals[k[tasks.task_of_row], np.arange(96)])


def test_errors_are_the_same_whether_or_not_residuals_are_kept(ragged):
    tasks = ragged(SIZES, 6)
    kept, lean = ridge_paths(tasks, ALPHAS), ridge_paths(tasks, ALPHAS, residuals=False)
    assert lean.loo_residuals.shape == (len(ALPHAS), 0)
    assert_array_equal(lean.loo_errors, kept.loo_errors)
    assert_array_equal(lean.coef, kept.coef)


def test_eigenvalues_of_numbers_are_those_the_library_finds():
    numbers = np.array([0.0, 3.0, -2.0, 1e-310, 1e300, np.inf, np.nan])[:, None, None]
    values, vectors = eigh(numbers)
    expected = np.linalg.eigh(numbers[:5])
    assert_array_equal(values[:5], expected.eigenvalues)
    assert_array_equal(vectors[:5], expected.eigenvectors)
    assert np.isnan(values[5:]).all()
    assert np.isnan(vectors[5:]).all()


def test_the_penalty_is_the_generalised_one(ragged, by_task):
    tasks = ragged(SIZES, 6)
    mean, covariance = prior(6)
    precision = np.linalg.inv(covariance)
    path = ridge_paths(tasks, ALPHAS, prior=Prior(mean, covariance))
    each = ridge_paths(tasks, ALPHAS, prior=Prior(np.tile(mean, (len(SIZES), 1)), covariance))
    for i, (X, y) in enumerate(by_task(tasks)):
        system = X.T @ X + precision
        assert_allclose(path.coef[2, i], np.linalg.solve(system, X.T @ y + precision @ mean))
    assert_allclose(path.coef, each.coef, atol=1e-8)
    assert_allclose(path.loo_residuals, each.loo_residuals, atol=1e-8)


def test_a_singular_covariance_confines_the_models(ragged):
    tasks = ragged(SIZES, 5)
    mean = np.arange(5.0)
    covariance = np.diag([1.0, 2.0, 0.0, 0.0, 0.0])
    path = ridge_paths(tasks, ALPHAS, prior=Prior(mean, covariance))
    assert_array_equal(path.coef[:, :, 2:], np.broadcast_to(mean[2:], (4, len(SIZES), 3)))
    nowhere = ridge_paths(tasks, ALPHAS, prior=Prior(mean, np.zeros((5, 5))))
    assert_allclose(nowhere.coef, np.broadcast_to(mean, (4, len(SIZES), 5)))


def test_strengths_by_task_are_taken_by_task(ragged):
    tasks = ragged(SIZES, 4)
    table = np.outer(tasks.counts, [0.1, 1.0])
    path = ridge_paths(tasks, table, intercept=True)
    for i, n in enumerate(SIZES):
        alone = ridge_paths(tasks.take_tasks([i]), [0.1 * n, 1.0 * n], intercept=True)
        assert_allclose(path.coef[:, i], alone.coef[:, 0], atol=1e-10)


def test_a_lone_row_with_an_intercept_is_predicted_by_the_prior(ragged):
    tasks = ragged([1, 4], 3)
    path = ridge_paths(tasks, 1.0, prior=Prior(np.ones(3)), intercept=True)
    assert_allclose(path.loo_residuals[0, 0], tasks.y[0] - tasks.X[0].sum())


@with_and_without_intercept
def test_constant_features_and_single_precision_give_finite_answers(ragged, intercept):
    tasks = ragged([1, 2, 9, 30], 4, dtype=np.float32)
    tasks = tasks.replace(X=np.ones_like(tasks.X))
    best = ridge_best(tasks, ALPHAS, intercept=intercept)
    for values in (best.coef, best.intercept, best.loo_residuals):
        assert values.dtype == np.float64
        assert np.isfinite(values).all()


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"alphas": [1.0, 0.0]}, "alphas"),
        ({"alphas": [np.nan]}, "alphas"),
        ({"alphas": np.ones((3, 2))}, "alphas"),
        ({"alphas": 1.0, "prior": Prior(np.ones(4))}, "prior.mean"),
        ({"alphas": 1.0, "prior": Prior(covariance=-np.eye(3))}, "prior.covariance"),
        ({"alphas": 1.0, "prior": Prior(covariance=np.triu(np.ones((3, 3))))}, "prior.covariance"),
        ({"alphas": 1.0, "targets": np.ones(3)}, "targets"),
    ],
)
def test_bad_parameters_are_refused_by_name(ragged, parameters, name):
    with pytest.raises(InvalidInput, match=name):
        ridge_paths(ragged([4, 5], 3), **parameters)
