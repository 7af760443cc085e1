"""The radius of updates: fixed, or by a private quantile of their lengths."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("jax", reason="needs the extra neural")

import tacit
from tacit.errors import InvalidInput
from tacit.neural import FixedRadius, QuantileRadius
from tacit.privacy import Ledger
from tacit.privacy.unit import Adjacency, Norm

LONGEST = np.sqrt(1 + 1 / 16)


def updates_of(lengths, seed=0):
    directions = np.random.default_rng(seed).standard_normal((len(lengths), 7))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return (np.asarray(lengths)[:, None] * directions).astype(np.float32)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 1e30) | st.just(float("nan")), min_size=2, max_size=6),
    st.floats(1e-6, 1e6),
)
def test_no_task_moves_the_sum_by_more_than_the_constant_whatever_the_radius(lengths, radius):
    quantile = QuantileRadius()
    bound = quantile.bound
    with np.errstate(all="ignore"):
        messages = quantile.said(updates_of(lengths), radius)
    everybody = bound.total(messages)
    for i in range(len(lengths)):
        without = messages.copy()
        without[i] = 0
        assert np.linalg.norm(everybody - bound.total(without)) <= LONGEST * (1 + 1e-12)
    assert bound.sensitivity(Norm.L2, Adjacency.ZERO_OUT, dimension=8) <= LONGEST * (1 + 1e-9)
    replaced = bound.sensitivity(Norm.L2, Adjacency.REPLACE_ONE, dimension=8)
    assert replaced == pytest.approx(2 * LONGEST)


@pytest.mark.parametrize("quantile", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("typical", [0.01, 1.0, 300.0])
def test_the_radius_finds_the_quantile_from_far_away(quantile, typical):
    lengths = typical * np.exp(np.random.default_rng(1).standard_normal(400))
    updates, rule = updates_of(lengths), QuantileRadius(quantile=quantile)
    radius = rule.first
    for _ in range(60):
        total = rule.bound.total(rule.said(updates, radius))
        mean, radius = rule.heard(total, radius, len(lengths))
    assert (lengths <= radius).mean() == pytest.approx(quantile, abs=0.02)
    clipped = updates * np.minimum(1, radius / lengths)[:, None]
    np.testing.assert_allclose(mean, clipped.mean(axis=0), rtol=0.1, atol=0.01 * radius)


def test_a_release_of_nothing_but_noise_moves_the_radius_by_a_public_factor_at_most():
    rule = QuantileRadius()
    for count in (-1e9, 1e9):
        _, radius = rule.heard(np.array([0.0, count]), 1.0, 10.0)
        assert np.exp(-0.5) <= radius <= np.exp(0.5)


def test_the_count_is_planned_charged_and_stated_with_the_update():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(12), 8)
    X = rng.standard_normal((len(task), 4))
    y = (X @ rng.standard_normal((4, 3))).argmax(axis=1)
    ledger = Ledger(":memory:", epsilon=2.0, delta=1e-5)
    model = tacit.PrivateFedAvgClassifier(
        2.0, delta=1e-5, n_rounds=4, cohort=0.5, clip="quantile", fine_tune=None, ledger=ledger
    )
    (planned,) = model.plan(12, 4, n_outputs=3).releases
    assert planned.n_numbers == 5 * 3 + 1
    assert planned.sensitivity == pytest.approx(LONGEST)
    model.fit(X, y, tasks=task)
    assert {posting.value.shape for posting in model.billboard_} == {(16,)}
    assert model.shared_model_.shape == (15,)
    assert ledger.spent().epsilon == pytest.approx(model.privacy_.epsilon, rel=1e-9)
    assert model.privacy_.epsilon <= 2.0
    fixed = tacit.PrivateFedAvgClassifier(2.0, delta=1e-5, n_rounds=4, cohort=0.5).plan(12, 4)
    assert planned.noise_multiplier == pytest.approx(fixed.releases[0].noise_multiplier)


def test_updates_far_from_the_guess_are_learnt_as_well_as_near_it():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(40), 20)
    X = rng.standard_normal((len(task), 4))
    y = 50 * X @ np.arange(1.0, 5.0)

    def score(clip):
        model = tacit.PrivateFedAvgRegressor(
            float("inf"), n_rounds=15, clip=clip, fine_tune=None, random_state=0
        )
        return model.fit(X, y, tasks=task).score(X, y, tasks=task)

    assert score("quantile") > 0.9 > 0.5 > score(1.0)


@pytest.mark.parametrize("wrong", [{"first": 0.0}, {"first": -1.0}, {"quantile": 1.5}])
def test_impossible_radii_are_refused(wrong):
    (name,) = wrong
    with pytest.raises(InvalidInput, match=name):
        QuantileRadius(**wrong)


def test_a_fixed_radius_sends_updates_as_they_are():
    updates = updates_of([0.5, 2.0])
    rule = FixedRadius(1.0)
    assert rule.said(updates, 1.0) is updates
    assert np.linalg.norm(rule.bound.total(updates[1:])) == pytest.approx(1.0)
