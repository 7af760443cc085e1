"""Noise-aware shrinkers: the outlier laws hold, and noise alone never makes a shape."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidInput
from tacit.privacy import SeededEntropy
from tacit.privacy.mechanisms import (
    GammaVector,
    Gaussian,
    Laplace,
    SymmetricGaussian,
    TwoSidedWishart,
)
from tacit.privacy.mechanisms.laws import Coordinates, Semicircle, WishartDifference
from tacit.protocols._shrinkage import Shape, safe_shift, shrink_diagonal, shrink_spectrum


def _symmetric_gaussian(d, scale, rng):
    A = rng.standard_normal((d, d))
    return scale * (A + A.T) / 2


def _wishart_difference(d, scale, rng):
    A, B = rng.standard_normal((2, d + 1, d)) * np.sqrt(scale)
    return A.T @ A - B.T @ B


LAWS = {
    "gaussian": (Semicircle.of_gaussian, _symmetric_gaussian),
    "wishart": (WishartDifference.of_wishart, _wishart_difference),
}


@pytest.mark.parametrize("name", LAWS)
def test_edge_is_where_the_largest_noise_eigenvalue_lies(name):
    law, draw = LAWS[name]
    rng = np.random.default_rng(0)
    largest = [np.linalg.eigvalsh(draw(200, 1.0, rng))[-1] for _ in range(5)]
    assert np.mean(largest) == pytest.approx(law(1.0, 200).edge, rel=0.08)


@pytest.mark.parametrize("name", LAWS)
def test_outliers_are_debiased_and_their_overlap_is_predicted(name):
    law, draw = LAWS[name]
    rng = np.random.default_rng(1)
    d = 300
    noise = law(1.0, d)
    u = np.zeros(d)
    u[0] = 1.0
    theta = 1.5 * noise.edge
    excess, overlap = [], []
    for _ in range(8):
        values, vectors = np.linalg.eigh(theta * np.outer(u, u) + draw(d, 1.0, rng))
        excess.append(noise.excess(values[-1:])[0])
        overlap.append(vectors[0, -1] ** 2)
    assert np.mean(excess) == pytest.approx(theta, rel=0.03)
    assert np.mean(overlap) == pytest.approx(float(noise.overlap(np.array(theta))), abs=0.03)


@pytest.mark.parametrize("name", LAWS)
def test_pure_noise_gives_the_identity(name):
    law, draw = LAWS[name]
    rng = np.random.default_rng(2)
    flat = [
        shrink_spectrum(
            draw(30, 50.0, rng) + 10 / 3 * np.eye(30), law(50.0, 30), trace=100.0, n_tasks=100
        ).flat
        for _ in range(40)
    ]
    assert np.mean(flat) >= 0.9  # one false alarm in a hundred draws is meant
    shape = Shape(np.zeros(30), 100 / 30)
    np.testing.assert_allclose(shape.covariance(0.04), np.eye(30))


@given(st.integers(0, 10_000), st.floats(0.01, 100.0))
def test_shrinking_keeps_the_trace_and_stays_positive(seed, scale):
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((60, 8)) * np.array([5, 2, 1, 1, 1, 1, 1, 1])
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    noisy = directions.T @ directions + _symmetric_gaussian(8, scale, rng)
    shape = shrink_spectrum(noisy, Semicircle.of_gaussian(scale, 8), trace=60.0, n_tasks=60)
    assert (shape.excess >= 0).all()
    assert shape.floor >= 0
    assert shape.excess.sum() + 8 * shape.floor == pytest.approx(60.0, rel=1e-6) or (
        shape.floor == pytest.approx(0.0, abs=1e-9)
    )
    assert np.linalg.eigvalsh(shape.covariance(0.04))[0] > 0


def test_shrunk_second_moment_is_nearer_to_the_truth_than_the_release():
    rng = np.random.default_rng(3)
    truth = np.diag([80.0, 60.0, 40.0] + [5.0] * 27)
    noise = Semicircle.of_gaussian(4.0, 30)
    gain = []
    for _ in range(10):
        noisy = truth + _symmetric_gaussian(30, 4.0, rng)
        shape = shrink_spectrum(noisy, noise, trace=float(np.trace(truth)))
        estimate = (shape.vectors * (shape.excess + shape.floor)) @ shape.vectors.T
        gain.append(np.linalg.norm(estimate - truth) / np.linalg.norm(noisy - truth))
    assert np.mean(gain) < 0.6


@pytest.mark.parametrize("heavy", [False, True])
def test_diagonal_shrinker_keeps_strong_features_and_ignores_noise(heavy):
    rng = np.random.default_rng(4)
    draw = rng.laplace if heavy else rng.normal
    truth = np.array([80.0, 70.0] + [0.5] * 28)
    noise = Coordinates(4.0, heavy=heavy)
    shape = shrink_diagonal(truth + draw(scale=4.0, size=30), noise, trace=164.0)
    np.testing.assert_allclose(shape.excess[:2], [80.0, 70.0], atol=16.0)
    assert shape.excess[2:].max() < 8.0
    loud = Coordinates(1e5, heavy=heavy)
    for _ in range(20):
        assert shrink_diagonal(5.0 + draw(scale=1e5, size=30), loud, trace=164.0).flat


def test_leading_directions_return_the_rest_to_the_floor():
    shape = Shape(np.array([0.0, 3.0, 9.0]), 1.0)
    first = shape.leading(1)
    np.testing.assert_array_equal(first.excess, [0.0, 0.0, 9.0])
    assert first.excess.sum() + 3 * first.floor == pytest.approx(15.0)


@pytest.mark.parametrize("d", [1, 3, 30])
@pytest.mark.parametrize(
    "noise",
    [SymmetricGaussian(1.0, 7.0), TwoSidedWishart(1.0, 0.1), Gaussian(1.0, 7.0), Laplace(1.0, 0.1)],
    ids=lambda noise: noise.name,
)
def test_the_deepest_fall_covers_the_noise_and_is_not_far_below_it(noise, d):
    entropy = SeededEntropy(0)
    if isinstance(noise, SymmetricGaussian | TwoSidedWishart):
        draws = noise.release(np.zeros((2000, d, d)), entropy).value
        lowest = np.linalg.eigvalsh(draws)[:, 0]
    else:
        lowest = noise.release(np.zeros((2000, d)), entropy).value.min(axis=1)
    fall = noise.fall(d, n_rounds=30)
    assert lowest.min() > -fall
    # A hundred times less likely still: no bound that would shrink nothing at all.
    assert lowest.min() < -fall / 6


def test_noise_of_unknown_depth_is_refused():
    with pytest.raises(InvalidInput, match="gamma-vector"):
        GammaVector(1.0, 1.0).fall(3, n_rounds=1)


def test_safe_shift_leaves_every_eigenvalue_well_above_zero():
    np.testing.assert_array_equal(safe_shift(np.array([-9.0, -7.0, 1.0]), 8.0), [2.0, 2.0, 9.0])
