"""Models in a shared subspace."""

import numpy as np
import pytest

import tacit

from .rows import rows_of

INF = float("inf")


def test_without_privacy_a_strong_penalty_lowers_the_rank():
    X, y, task = rows_of(n_tasks=40, d=6)
    ranks = [
        np.linalg.matrix_rank(
            tacit.LowRankRegressor(INF, alpha=alpha).fit(X, y, tasks=task).coef_, tol=1e-6
        )
        for alpha in (1e-6, 3.0, 1e6)
    ]
    assert ranks[0] == 6
    assert ranks[0] > ranks[1] > ranks[2] == 0


def test_the_released_shape_points_along_the_shared_subspace():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(60), 20)
    X = rng.standard_normal((1200, 6))
    direction = np.eye(6)[0]
    y = X @ direction * rng.choice([-2.0, 2.0], 60)[task] + 0.3 * rng.standard_normal(1200)
    for n_rounds in (1, "auto"):
        model = tacit.LowRankRegressor(200.0, n_rounds=n_rounds, random_state=0)
        model.fit(X, y, tasks=task)
        leading = np.linalg.eigh(model.shared_covariance_)[1][:, -1]
        assert abs(leading[0]) > 0.98
    once = tacit.LowRankRegressor(200.0, n_rounds=1, random_state=0).fit(X, y, tasks=task)
    assert once.billboard_.read(0).shape == (6, 6)


def test_both_protections_have_a_statement_each():
    X, y, task = rows_of()
    model = tacit.LowRankRegressor(1.0, epsilon_rows=2.0, target_bound=10.0).fit(X, y, tasks=task)
    assert model.privacy_.unit == "task"
    assert model.row_privacy_.unit == "row"
    assert model.row_privacy_.curator == "untrusted"
    assert model.privacy_.curator == "trusted"
    assert model.row_privacy_.epsilon == pytest.approx(2.0, rel=1e-6)
