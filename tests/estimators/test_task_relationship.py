"""Who resembles whom, from noisy models alone."""

import numpy as np

import tacit


def two_camps(n_tasks=40, n_rows=25, d=4):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), n_rows)
    side = np.where(np.arange(n_tasks) % 2, 1.0, -1.0)
    X = rng.standard_normal((len(task), d))
    y = X[:, 0] * 3 * side[task] + 0.5 * rng.standard_normal(len(task))
    return X, y, task, side


def test_the_embedding_tells_the_two_camps_apart():
    X, y, task, side = two_camps()
    model = tacit.TaskRelationshipRegressor(60.0, clip=1.0, random_state=0).fit(X, y, tasks=task)
    leading = model.task_embedding_[:, 0]
    assert abs(np.corrcoef(leading, side)[0, 1]) > 0.95
    assert model.billboard_.read(0).shape == (40, 4)
    assert model.privacy_.curator == "untrusted"


def test_the_default_map_shows_deviations_from_the_mean_where_noise_lets_them_be_seen():
    X, y, task, side = two_camps()
    model = tacit.TaskRelationshipRegressor(300.0, random_state=0).fit(X, y, tasks=task)
    leading = model.task_embedding_[:, 0]
    assert abs(np.corrcoef(leading, side)[0, 1]) > 0.95
    assert model.privacy_.curator == "trusted"
    loud = tacit.TaskRelationshipRegressor(10.0, random_state=0).fit(X, y, tasks=task)
    assert loud.task_embedding_.shape == (40, 0)


def test_noise_alone_gives_no_embedding_and_single_task_models():
    X, y, task, _ = two_camps()
    model = tacit.TaskRelationshipRegressor(1e-4, random_state=0).fit(X, y, tasks=task)
    own = tacit.SingleTaskRegressor().fit(X, y, tasks=task)
    assert model.task_embedding_.shape == (40, 0)
    np.testing.assert_array_equal(model.coef_, own.coef_)


def test_without_privacy_relatives_help_each_other():
    X, y, task, side = two_camps(n_rows=5)
    model = tacit.TaskRelationshipRegressor(float("inf")).fit(X, y, tasks=task)
    own = tacit.SingleTaskRegressor().fit(X, y, tasks=task)
    truth = np.outer(3 * side, np.eye(4)[0])
    assert np.linalg.norm(model.coef_ - truth) < np.linalg.norm(own.coef_ - truth)
