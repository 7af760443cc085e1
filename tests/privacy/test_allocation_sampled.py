"""Poisson-sampled Gaussians: dp-accounting's distribution, found and calibrated fast."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import privacy_loss_distribution as losses
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

from tacit.privacy.accounting import compose
from tacit.privacy.accounting.allocation import scale_sampled
from tacit.privacy.accounting.sampled import divergences, poisson_gaussian

NOISES, RATES = (0.05, 0.3, 1.0, 3.0, 50.0, 1e3), (1e-4, 0.01, 0.1, 0.5, 0.99, 1 - 1e-9)
INTERVAL = 1e-3


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(("noise", "rate"), list(itertools.product(NOISES, RATES)))
def test_the_divergences_are_those_of_dp_accounting(noise, rate, removed):
    adjacency = AdjacencyType.REMOVE if removed else AdjacencyType.ADD
    loss = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=adjacency)
    ends = loss.connect_dots_bounds()
    grid = np.linspace(ends.epsilon_lower - 1e-4, ends.epsilon_upper + 1e-4, 401)
    expected = loss.get_delta_for_epsilon(grid)
    found = divergences(grid, noise, rate, removed=removed)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("noise", "rate"), [(0.3, 0.1), (0.7, 0.01), (1.5, 0.1), (4.0, 0.5)])
def test_the_distribution_is_that_of_dp_accounting(noise, rate):
    ours = poisson_gaussian(noise, rate, INTERVAL)
    theirs = losses.from_gaussian_mechanism(
        noise, value_discretization_interval=INTERVAL, sampling_prob=rate
    )
    for mine, other in ((ours._pmf_remove, theirs._pmf_remove), (ours._pmf_add, theirs._pmf_add)):
        other = other.to_dense_pmf()
        assert mine._lower_loss == other._lower_loss
        np.testing.assert_allclose(mine._probs, other._probs, rtol=0, atol=1e-12)
        assert mine._infinity_mass == pytest.approx(other._infinity_mass, abs=1e-15)
        assert mine._infinity_mass + mine._probs.sum() >= 1 - 1e-12


@pytest.mark.parametrize(
    ("noise", "rate", "turns"), [(1.5, 0.1, 5), (0.8, 0.05, 10), (6.0, 0.5, 3)]
)
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_epsilon_lies_between_the_optimistic_and_the_pessimistic_distribution(
    noise, rate, turns, delta
):
    event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(noise))
    found = compose(dp_event.SelfComposedDpEvent(event, turns), delta=delta).epsilon

    def theirs(pessimistic):
        single = losses.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            use_connect_dots=pessimistic,
        )
        return single.self_compose(turns).get_epsilon_for_delta(delta)

    assert theirs(False) <= found <= 1.005 * theirs(True)


@pytest.mark.parametrize("noise", [0.05, 1e8, 1e100])
def test_extreme_noise_has_a_distribution_too(noise):
    epsilon = poisson_gaussian(noise, 0.1, 1e-2).get_epsilon_for_delta(1e-5)
    assert (epsilon > 100) == (noise < 1)


@pytest.mark.parametrize(
    ("weights", "turns"), [((1.0,), (5,)), ((1.0, 2.0, 3.0, 4.0, 5.0), (1,) * 5)]
)
def test_five_sampled_rounds_are_calibrated_within_half_a_second(weights, turns):
    rates = (0.1,) * len(weights)
    scale_sampled(weights, (0.2,) * len(weights), turns, 2.0, 1e-5)  # imports
    start = time.process_time()
    noise = scale_sampled(weights, rates, turns, 1.0, 1e-5)
    assert time.process_time() - start < 1.0  # half a second where the machine is idle
    events = [
        dp_event.SelfComposedDpEvent(
            dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma)), count
        )
        for sigma, rate, count in zip(noise.tolist(), rates, turns, strict=True)
    ]
    assert 0.995 <= compose(events, delta=1e-5).epsilon <= 1.0
    np.testing.assert_allclose(noise * weights, noise[0] * weights[0])


@pytest.mark.parametrize(
    ("rate", "turns", "epsilon", "delta"),
    [(0.01, 1000, 2.0, 1e-6), (0.9, 3, 0.2, 1e-8), (0.3, 50, 0.05, 1e-3)],
)
def test_the_noise_of_any_sampled_schedule_is_safe_and_hardly_more_than_needed(
    rate, turns, epsilon, delta
):
    (noise,) = scale_sampled((1.0,), (rate,), (turns,), epsilon, delta).tolist()

    def cost(sigma):
        event = dp_event.PoissonSampledDpEvent(rate, dp_event.GaussianDpEvent(sigma))
        return compose(dp_event.SelfComposedDpEvent(event, turns), delta=delta).epsilon

    assert cost(noise) <= epsilon < cost(0.98 * noise)
