"""Penalties: every prox is the minimiser it claims to be, and never expands distances."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from tacit.errors import InvalidInput
from tacit.penalties import (
    FeatureGroup,
    GraphLaplacian,
    Lasso,
    MeanPull,
    Nuclear,
    Ridge,
    TaskGroup,
)


def ring(m):
    adjacency = np.roll(np.eye(m), 1, axis=1) + np.roll(np.eye(m), -1, axis=1)
    return np.diag(adjacency.sum(axis=1)) - adjacency


def penalties(m, d, strength):
    centre = np.linspace(-1, 1, d)
    return {
        "nuclear": Nuclear(strength),
        "feature-group": FeatureGroup(strength),
        "task-group": TaskGroup(strength),
        "lasso": Lasso(strength),
        "ridge": Ridge(strength),
        "ridge-centred": Ridge(strength, centre),
        "mean": MeanPull(strength),
        "graph": GraphLaplacian(strength, ring(m)),
        "graph-sparse": GraphLaplacian(strength, scipy.sparse.csr_array(ring(m))),
    }


NAMES = list(penalties(4, 3, 1.0))
SMOOTH = ["ridge", "ridge-centred", "mean", "graph", "graph-sparse"]
every = pytest.mark.parametrize("name", NAMES)
cases = given(
    seed=st.integers(0, 2**32 - 1),
    m=st.integers(3, 9),
    d=st.integers(1, 9),
    strength=st.floats(0.01, 5.0),
    step=st.floats(0.05, 3.0),
)


few = settings(max_examples=25, deadline=None)


def problem(penalty, V, step, W):
    return 0.5 * np.sum((W - V) ** 2) + step * penalty.value(W)


@every
@few
@cases
def test_no_perturbation_of_the_prox_lowers_its_problem(name, seed, m, d, strength, step):
    rng = np.random.default_rng(seed)
    V = 2 * rng.standard_normal((m, d))
    penalty = penalties(m, d, strength)[name]
    P = penalty.prox(V, step)
    least = problem(penalty, V, step, P)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(5):
            other = P + size * rng.standard_normal((m, d))
            # The problem is 1-strongly convex, so the minimiser wins by half the distance squared.
            margin = 0.5 * np.sum((other - P) ** 2)
            assert problem(penalty, V, step, other) >= least + margin - 1e-9 * (1 + least)


@every
@few
@cases
def test_the_residual_of_the_prox_is_a_subgradient(name, seed, m, d, strength, step):
    rng = np.random.default_rng(seed)
    V = rng.standard_normal((m, d))
    penalty = penalties(m, d, strength)[name]
    P = penalty.prox(V, step)
    subgradient = (V - P) / step
    for other in (np.zeros((m, d)), V, -P, 3 * P, rng.standard_normal((m, d))):
        below = penalty.value(P) + np.sum(subgradient * (other - P))
        assert penalty.value(other) >= below - 1e-9 * (1 + abs(below))


@every
@few
@cases
def test_the_prox_is_firmly_non_expansive(name, seed, m, d, strength, step):
    rng = np.random.default_rng(seed)
    A, B = rng.standard_normal((2, m, d))
    penalty = penalties(m, d, strength)[name]
    moved = penalty.prox(A, step) - penalty.prox(B, step)
    assert np.sum(moved**2) <= np.sum(moved * (A - B)) + 1e-10


@pytest.mark.parametrize("name", SMOOTH)
def test_the_prox_of_a_quadratic_matches_a_generic_solver(name):
    from scipy.optimize import minimize

    V = np.random.default_rng(0).standard_normal((4, 3))
    penalty = penalties(4, 3, 0.7)[name]
    found = minimize(lambda w: problem(penalty, V, 0.9, w.reshape(4, 3)), V.ravel(), tol=1e-12)
    assert_allclose(penalty.prox(V, 0.9), found.x.reshape(4, 3), atol=1e-5)


@pytest.mark.parametrize("shape", [(60, 5), (5, 60), (7, 7)])
@pytest.mark.parametrize("step", [1e-9, 1e-3, 0.5, 1e3])
def test_the_nuclear_prox_equals_thresholded_singular_values(shape, step):
    V = np.random.default_rng(1).standard_normal(shape)
    V[:, 0] *= 50
    left, singular, right = np.linalg.svd(V, full_matrices=False)
    expected = (left * np.maximum(singular - step, 0)) @ right
    assert_allclose(Nuclear(1.0).prox(V, step), expected, atol=1e-9)


@every
def test_without_strength_the_prox_changes_nothing(name):
    V = np.random.default_rng(2).standard_normal((6, 4))
    assert_allclose(penalties(6, 4, 0.0)[name].prox(V, 1.0), V, atol=1e-14)
    assert penalties(6, 4, 0.0)[name].value(V) == 0


@every
def test_a_zero_matrix_is_handled_and_input_is_not_changed(name):
    penalty = penalties(5, 3, 1.0)[name]
    assert np.isfinite(penalty.prox(np.zeros((5, 3)), 1.0)).all()
    V = np.random.default_rng(3).standard_normal((5, 3))
    before = V.copy()
    penalty.prox(V, 0.3)
    assert_array_equal(V, before)


@every
def test_single_precision_stays_single(name):
    V = np.random.default_rng(4).standard_normal((5, 3)).astype(np.float32)
    assert penalties(5, 3, 0.1)[name].prox(V, 0.5).dtype == np.float32


@pytest.mark.parametrize("name", ["task-group", "lasso", "ridge", "ridge-centred"])
def test_a_separable_prox_takes_one_step_for_each_task(name):
    V = np.random.default_rng(5).standard_normal((4, 3))
    penalty, steps = penalties(4, 3, 0.5)[name], np.array([0.1, 0.5, 1.0, 2.0])
    assert penalty.task_separable
    expected = [penalty.prox(V[[i]], steps[i])[0] for i in range(4)]
    assert_allclose(penalty.prox(V, steps), expected, atol=1e-14)
    assert_allclose(penalty.prox(V, steps[:, None]), expected, atol=1e-14)


@pytest.mark.parametrize("name", ["nuclear", "feature-group", "mean", "graph"])
def test_a_coupling_penalty_refuses_steps_by_task(name):
    penalty = penalties(4, 3, 0.5)[name]
    assert not penalty.task_separable
    with pytest.raises(InvalidInput, match="couples the tasks"):
        penalty.prox(np.ones((4, 3)), np.ones(4))


@pytest.mark.parametrize("strength", [-1.0, math.nan, math.inf, "1"])
@pytest.mark.parametrize("kind", [Nuclear, FeatureGroup, TaskGroup, Lasso, Ridge, MeanPull])
def test_a_bad_strength_is_refused_by_name(kind, strength):
    with pytest.raises(InvalidInput, match="strength="):
        kind(strength)


@pytest.mark.parametrize(
    "laplacian",
    [
        None,
        np.ones((2, 3)),
        np.array([[1.0, 0.5], [0.0, 1.0]]),
        np.array([[1.0, 2.0], [2.0, 1.0]]),
        np.array([[math.nan, 0.0], [0.0, 1.0]]),
        scipy.sparse.csr_array(np.array([[1.0, 2.0], [2.0, 1.0]])),
    ],
)
def test_a_matrix_that_is_no_laplacian_is_refused(laplacian):
    with pytest.raises(InvalidInput, match="laplacian"):
        GraphLaplacian(1.0, laplacian)
