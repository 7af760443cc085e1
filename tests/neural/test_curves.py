"""Losses by round: a task's own, the public ones, and the average that is not sound."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra neural")

import tacit
from tacit.errors import InvalidInput, UnknownTask
from tacit.neural import own_losses, public_losses
from tacit.neural.theory import suggested

M, D, ROUNDS = 8, 4, 4


def rows(seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(M), 30)
    X = rng.standard_normal((len(task), D))
    return X, (X[:, 0] + 0.3 * rng.standard_normal(len(task)) > 0).astype(int), task


@pytest.fixture(scope="module")
def model():
    X, y, task = rows()
    options = {"n_rounds": ROUNDS, "cohort": 0.5, "random_state": 0, "classes": (0, 1)}
    return tacit.NeuralMeanRegularizedClassifier(300.0, **options).fit(X, y, tasks=task)


def test_the_curve_ends_where_the_fit_did(model):
    X, y, task = rows()
    found = own_losses(model, X, y, tasks=task)
    assert found.values.shape == (ROUNDS + 1, M)
    assert found.epsilon[0] == 0
    assert math.isclose(found.epsilon[-1], model.history_[-1]["epsilon"], rel_tol=1e-9)
    assert (np.diff(found.epsilon) > 0).all()
    probabilities = model.predict_proba(X, tasks=task)
    own = -np.log(probabilities[np.arange(len(y)), y])
    expected = np.bincount(task, own) / np.bincount(task)
    np.testing.assert_allclose(found.values[-1], expected, rtol=1e-4)
    np.testing.assert_array_equal(found.of(3), found.values[:, 3])


def test_a_task_s_curve_depends_on_its_own_rows_alone(model):
    X, y, task = rows()
    whole = own_losses(model, X, y, tasks=task, rounds=[0, ROUNDS])
    other = X.copy()
    other[task != 3] *= 5
    changed = own_losses(model, other, y, tasks=task, rounds=[0, ROUNDS])
    np.testing.assert_array_equal(whole.of(3), changed.of(3))
    assert np.any(whole.of(2) != changed.of(2))


def test_the_average_says_that_it_is_not_sound(model):
    X, y, task = rows()
    average = own_losses(model, X, y, tasks=task, rounds=[ROUNDS]).average()
    assert average.sound is False
    assert average.values.shape == (1,)


def test_public_rows_show_the_shared_model_alone(model):
    X, y, _ = rows(5)
    found = public_losses(model, X, y)
    assert found.sound is True
    assert found.values[0] == pytest.approx(math.log(2), rel=1e-6)  # of two classes at zero
    assert found.values[-1] < 0.9 * found.values[0]


def test_impossible_questions_are_refused(model):
    X, y, task = rows()
    with pytest.raises(InvalidInput, match=r"rounds=\[9\]"):
        own_losses(model, X, y, tasks=task, rounds=[9])
    with pytest.raises(UnknownTask, match="'nobody'"):
        own_losses(model, X, y, tasks=task, rounds=[1]).of("nobody")


def test_theorem_three_s_rounds_balance_descent_and_noise():
    m, d, epsilon, delta = 836, 500, 1.0, 1e-5
    best = suggested(m, d, epsilon=epsilon, delta=delta).n_rounds

    def bound(rounds):
        return 1 / rounds + rounds * d * math.log(1 / delta) / (m * epsilon) ** 2

    assert min(range(1, 200), key=bound) == best
    assert suggested(10 * m, d, epsilon=epsilon, delta=delta).n_rounds > 5 * best
    assert suggested(3, d, epsilon=0.1, delta=delta).n_rounds == 1


def test_theorem_five_s_pull_reaches_the_floor_in_time():
    found = suggested(836, 500, epsilon=1.0, delta=1e-5)
    contraction = 1 - found.pull / (1 + found.pull)
    assert contraction**found.n_rounds == pytest.approx(found.n_rounds**-2, rel=1e-9)


def test_a_plan_shows_both():
    plan = tacit.plan("neural-mean-regularized", 836, 49, n_outputs=10, epsilon=1.0, cohort=0.2)
    assert plan.suggested_rounds >= 1
    assert plan.releases[0].expected_cohort == pytest.approx(167.2)
    assert "by Theorems 3 and 5" in str(plan)
    averaged = tacit.plan("private-fed-avg", 836, 49, n_outputs=10, epsilon=1.0)
    assert averaged.suggested_pull is None


def test_a_plan_of_pure_noise_has_releases_and_no_theorem():
    plan = tacit.plan("neural-mean-regularized", 836, 49, n_outputs=10, epsilon=1.0, delta=0.0)
    assert plan.releases
    assert plan.suggested_rounds is None
    assert "Theorems" not in str(plan)


def test_the_command_line_plans_a_cohort_in_seconds():
    words = ("plan", "--tasks", "836", "--features", "49", "--method", "neural-mean-regularized")
    words += ("--outputs", "10", "--epsilon", "1", "--rounds", "50", "--set", "cohort=0.1")
    code = "from tacit.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    for told in ("expected cohort", "83.6", "noise multiplier", "up, one task", "Theorems 3 and 5"):
        assert told in done.stdout
