"""The same few features for everybody."""

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput

INF = float("inf")


@pytest.fixture(scope="module")
def few_features():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(60), 16)
    X = rng.standard_normal((len(task), 8))
    W = np.zeros((60, 8))
    W[:, :2] = 3 + rng.standard_normal((60, 2))
    y = np.einsum("nd,nd->n", X, W[task]) + 0.5 * rng.standard_normal(len(task))
    return X, y, task


def test_without_privacy_a_strong_penalty_drops_features_for_all_tasks(few_features):
    X, y, task = few_features
    model = tacit.GroupSparseRegressor(INF, alpha=3.0).fit(X, y, tasks=task)
    norms = np.linalg.norm(model.coef_, axis=0)
    assert (norms[:2] > 1).all()
    np.testing.assert_allclose(norms[2:], 0, atol=1e-8)


def test_the_release_has_a_number_a_feature_and_shows_the_relevant_ones(few_features):
    X, y, task = few_features
    model = tacit.GroupSparseRegressor(20.0, n_rounds=1, random_state=0).fit(X, y, tasks=task)
    assert model.billboard_.read(0).shape == (8,)
    shown = np.diag(model.shared_covariance_)
    assert shown[:2].min() > 3 * shown[2:].max()


def test_the_default_shows_the_features_in_which_tasks_differ(few_features):
    X, y, task = few_features
    model = tacit.GroupSparseRegressor(50.0, random_state=0).fit(X, y, tasks=task)
    shown = np.diag(model.shared_covariance_)
    assert shown[:2].min() > 3 * shown[2:].max()
    assert "moment" in [release["name"] for release in model.history_]


def test_matrix_noise_is_refused_for_a_diagonal(few_features):
    X, y, task = few_features
    with pytest.raises(InvalidInput, match="mechanism='two-sided-wishart'"):
        tacit.GroupSparseRegressor(mechanism="two-sided-wishart").fit(X, y, tasks=task)
