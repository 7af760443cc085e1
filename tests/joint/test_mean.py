"""All models and their mean, solved together."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from tacit.joint.mean import JointMean, joint_mean, select_alpha
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.objective import Objective
from tacit.tasks import TaskSet


def _tasks(loss, seed=0, m=4, d=3):
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(m), rng.integers(3, 12, m))
    X = rng.normal(size=(len(labels), d))
    z = np.einsum("nd,nd->n", X, (rng.normal(size=d) + 0.3 * rng.normal(size=(m, d)))[labels])
    y = z + rng.normal(size=len(z)) if loss.name == "squared" else (z > 0).astype(float)
    return TaskSet.from_arrays(X, y, labels)


@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=["squared", "logistic"])
@pytest.mark.parametrize("alpha", [0.1, 10.0])
def test_solution_agrees_with_a_general_minimiser(loss, alpha):
    tasks = _tasks(loss)
    objective = Objective(tasks, loss)
    found = joint_mean(tasks, loss, alpha)
    m, d = found.W.shape

    def value(v):
        return JointMean(v[: m * d].reshape(m, d), v[m * d :]).objective(objective, alpha)

    best = minimize(value, np.zeros(m * d + d), method="BFGS", options={"gtol": 1e-6}).fun
    assert found.objective(objective, alpha) <= best * (1 + 1e-8)


def test_a_strong_pull_gives_everybody_nearly_the_same_model():
    tasks = _tasks(SquaredLoss())
    found = joint_mean(tasks, SquaredLoss(), 1e8)
    np.testing.assert_allclose(found.W, np.tile(found.W[0], (len(found.W), 1)), atol=1e-4)


def test_selection_prefers_pooling_for_equal_tasks_and_freedom_for_different_ones():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(20), 8)
    X = rng.normal(size=(160, 3))
    alphas = np.array([1e-2, 1e3])
    equal = TaskSet.from_arrays(X, X @ [1.0, 2.0, 3.0] + rng.normal(size=160), labels)
    assert select_alpha(equal, SquaredLoss(), alphas) == 1e3
    W = 10 * rng.normal(size=(20, 3))
    apart = TaskSet.from_arrays(X, np.einsum("nd,nd->n", X, W[labels]), labels)
    assert select_alpha(apart, SquaredLoss(), alphas) == 1e-2


def test_selection_works_when_no_row_can_be_held_out():
    tasks = TaskSet.from_arrays(np.eye(3), np.ones(3), [0, 1, 2])
    assert select_alpha(tasks, SquaredLoss(), np.array([1.0, 2.0])) == 2.0
