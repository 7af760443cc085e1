"""Comparisons of candidate priors: bounded messages, and a reading that knows its noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tacit.protocols._hierarchical_evidence import Comparisons, WholeGrid, asked, evidence_limit
from tacit.protocols._hierarchical_plan import grid

ASKED = Comparisons(n_slopes=11, n_levels=6, n_shapes=4, limit=0.75, n_tasks=200)
CHAIN = (0, 0, 1)


def _candidates(shapes=1):
    return grid(np.zeros((shapes, 9)), 8, "squared", (None, *[np.eye(8)] * (shapes - 1)))


def _logs(candidates, slope, level, shape=0, alone=-3.0):
    """Return the log-evidence of one task for strengths around the named ones."""
    slopes = np.arange(candidates.slopes.size)[:, None] - slope
    levels = np.arange(candidates.levels.size) - level
    shapes = np.abs(np.arange(len(candidates.shapes)) - shape)[:, None, None]
    shared = -(0.1 * slopes**2 + 0.2 * levels**2) - shapes
    return shared[None], np.full((1, 11), alone)


@given(
    arrays(np.float64, (2, 3, 11, 6), elements=st.floats(-1e6, 1e6)),
    arrays(np.float64, (2, 11), elements=st.floats(-1e6, 1e6)),
)
def test_a_message_is_never_longer_than_one_and_of_its_own_task(shared, alone):
    found = ASKED.messages(shared, alone, _candidates(3), CHAIN)
    assert found.shape == (2, ASKED.size)
    assert (np.linalg.norm(found, axis=1) <= 1 + 1e-12).all()
    for row in range(2):
        by_itself = ASKED.messages(
            shared[row : row + 1], alone[row : row + 1], _candidates(3), CHAIN
        )
        np.testing.assert_array_equal(by_itself[0], found[row])


def test_shapes_are_compared_with_those_they_refine_and_missing_ones_are_silent():
    shared = np.zeros((1, 3, 11, 6)) + np.array([0.0, 0.5, 0.2])[:, None, None]
    found = ASKED.messages(shared, np.zeros((1, 11)), _candidates(3), CHAIN)[0] * ASKED.radius
    np.testing.assert_allclose(found[:15], 0.0, atol=1e-12)
    np.testing.assert_allclose(found[15:18], [0.5, -0.3, 0.0], atol=1e-12)
    assert 0.2 < found[18] < 0.3


@pytest.mark.parametrize(("slope", "level"), [(4, 2), (7, 0), (9, 4)])
def test_what_all_tasks_say_is_read_and_what_noise_hides_is_not(slope, level):
    candidates = _candidates()
    shared, alone = _logs(candidates, slope, level)
    total = 200 * ASKED.messages(shared, alone, candidates, (0,))[0]
    weights, by_itself = ASKED.read(total, 1e-6, candidates, (0,))
    best = np.unravel_index(weights.argmax(), candidates.shape)[1:]
    assert np.abs(np.subtract(best, (slope, level))).max() <= 1
    assert np.log(np.exp(weights).mean()) > by_itself.max() + 2
    loud, _ = ASKED.read(total, 1e5, candidates, (0,))
    nothing, _ = ASKED.read(0 * total, 1e5, candidates, (0,))
    np.testing.assert_allclose(loud, nothing, atol=0.1)


def test_weights_prefer_the_shape_most_tasks_prefer():
    candidates = _candidates(3)
    shared, alone = _logs(candidates, 5, 2, shape=1)
    total = 200 * ASKED.messages(shared, alone, _candidates(3), CHAIN)[0]
    weights, _ = ASKED.read(total, 1e-6, candidates, CHAIN)
    assert weights.reshape(candidates.shape).max(axis=(1, 2)).argmax() == 1


def test_noise_alone_seldom_settles_a_strength():
    rng = np.random.default_rng(0)
    candidates, sure = _candidates(), 0
    deviation = 26.0  # of a budget like that of 200 tasks at ε = 1
    for _ in range(100):
        weights, _ = ASKED.read(
            deviation * rng.normal(size=ASKED.size), deviation, candidates, (0,)
        )
        share = np.exp(weights).reshape(candidates.shape).sum(axis=(0, 2))
        sure += (share / share.sum()).max() > 0.9
    assert sure <= 10


def test_more_is_let_through_as_noise_falls():
    assert evidence_limit(1.0) == 0.75
    assert 0.75 < evidence_limit(0.02) < evidence_limit(0.01)
    assert evidence_limit(0.0) == 6.0


def test_the_whole_grid_is_asked_for_where_there_is_hardly_any_noise():
    sizes = {"n_tasks": 200, "loss": "squared"}
    assert isinstance(asked(11, 6, 4, noise=0.02, **sizes), Comparisons)
    whole = asked(11, 6, 4, noise=1e-4, **sizes)
    assert isinstance(whole, WholeGrid)
    candidates = _candidates(3)
    shared, alone = _logs(candidates, 4, 2, shape=2, alone=-9.0)
    said = whole.messages(shared, alone, candidates, CHAIN)
    assert said.shape == (1, whole.size)
    assert abs(said.sum()) < 1e-12
    weights, by_itself = whole.read(200 * said[0], 1e-6, candidates, CHAIN)
    expected = 20 * (shared - shared.max()).ravel()
    np.testing.assert_allclose(weights - weights.max(), expected, rtol=1e-5, atol=1e-9)
    assert by_itself.max() < weights.max() - 100
