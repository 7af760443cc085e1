"""The printed mechanisms: reachable by full name only, marked, and leaking as the errata say."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tacit.errors import InvalidInput, PrivacyWarning
from tacit.privacy import MECHANISMS, SeededEntropy, mechanism
from tacit.privacy.events import EpsilonDeltaDpEvent
from tacit.privacy.published import PUBLISHED

CASES = {
    "wishart-published": {"epsilon": 1.0, "radius": 2.0},
    "algorithm5-noise-published": {"epsilon": 1.0, "sensitivity": 4.0},
    "asynchronous-per-iteration-published": {
        "epsilon": 1.0,
        "row_norm": 2.0,
        "derivative_bound": 0.5,
        "n_rows": 10,
        "step_size": 0.1,
    },
    "simulated-sensitivity-laplace-published": {"epsilon": 1.0, "n_simulations": 20},
}


def made(name, **changes):
    with pytest.warns(PrivacyWarning, match=name):
        return mechanism(name, **{**CASES[name], **changes})


def test_they_stand_apart_from_the_sound_ones():
    assert set(CASES) == set(PUBLISHED)
    assert not set(PUBLISHED) & set(MECHANISMS)


@pytest.mark.parametrize("name", CASES)
def test_each_warns_claims_what_was_printed_and_is_marked_unsound(name):
    release = made(name).release(np.eye(3), SeededEntropy(0))
    assert not release.sound
    assert release.seeded
    assert release.event == EpsilonDeltaDpEvent(1.0, 0.0)
    assert release.value.shape == ((3,) if "simulated" in name else (3, 3))


@pytest.mark.parametrize("name", CASES)
def test_half_a_name_is_refused(name):
    with pytest.raises(InvalidInput, match="mechanism="):
        mechanism(name.removesuffix("-published"), **CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_bad_parameters_are_refused_without_a_warning(name):
    for field in CASES[name]:
        with pytest.raises(InvalidInput, match=f"{field}="):
            mechanism(name, **{**CASES[name], field: -1})


def test_the_scales_are_the_printed_ones():
    assert made("wishart-published").scale == 2.0
    assert made("wishart-published").edge(5) == 40.0
    assert made("algorithm5-noise-published").scale == 0.25
    assert made("asynchronous-per-iteration-published").scale == pytest.approx(0.02)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_the_printed_wishart_leaks_as_measured(epsilon):
    # Erratum 1: with w = 0 the release minus w'w'ᵀ fails to be PSD with probability 1 − e^(−ε);
    # with w' it never does. Hoeffding at 600 draws: a false alarm has probability 1e-6.
    d, n_draws, K = 4, 600, 2.0
    w = np.zeros(d)
    w[0] = K
    printed = made("wishart-published", epsilon=epsilon)
    entropy = SeededEntropy(5)

    def rate(second_moment):
        released = printed.release(np.broadcast_to(second_moment, (n_draws, d, d)), entropy).value
        smallest = np.linalg.eigvalsh(released - np.outer(w, w))[:, 0]
        return np.mean(smallest < 0)

    margin = math.sqrt(math.log(2 / 1e-6) / (2 * n_draws))
    assert rate(np.zeros((d, d))) == pytest.approx(1 - math.exp(-epsilon), abs=margin)
    assert rate(np.outer(w, w)) <= 0.01


def test_the_inverted_noise_grows_with_epsilon():
    quiet = made("algorithm5-noise-published", epsilon=0.1)
    loud = made("algorithm5-noise-published", epsilon=10.0)
    stack = np.zeros((500, 3))
    lengths = [
        np.linalg.norm(kind.release(stack, SeededEntropy(0)).value, axis=1).mean()
        for kind in (quiet, loud)
    ]
    # ‖b‖ ~ Gamma(d, ε/s), one vector per task.
    assert lengths == pytest.approx([3 * 0.025, 3 * 2.5], rel=0.1)


def test_a_simulated_sensitivity_is_the_largest_change_over_removed_rows():
    rows = np.random.default_rng(0).standard_normal((12, 4))
    found = made("simulated-sensitivity-laplace-published", n_simulations=1000).sensitivity(
        rows, SeededEntropy(0)
    )
    changes = [
        np.abs(np.delete(rows, r, axis=0).mean(axis=0) - rows.mean(axis=0)) for r in range(12)
    ]
    np.testing.assert_allclose(found, np.max(changes, axis=0))
    few = made("simulated-sensitivity-laplace-published", n_simulations=1).sensitivity(
        rows, SeededEntropy(0)
    )
    assert any(np.allclose(few, change) for change in changes)


def test_a_single_row_has_no_simulated_sensitivity():
    with pytest.raises(InvalidInput, match="1 row"):
        made("simulated-sensitivity-laplace-published").release(np.ones((1, 3)), SeededEntropy(0))
