from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from tacit.errors import InvalidInput
from tacit.privacy import MECHANISMS, SeededEntropy, SystemEntropy, mechanism
from tacit.privacy.events import EpsilonDeltaDpEvent, dominating_event
from tacit.privacy.mechanisms import (
    Exact,
    FixedSizeGaussian,
    GammaVector,
    Gaussian,
    Laplace,
    PoissonGaussian,
    SymmetricGaussian,
    TwoSidedWishart,
)

GAUSSIAN = dp_event.GaussianDpEvent(2.0)
CASES = {
    "gaussian": ({"sensitivity": 3.0, "noise_multiplier": 2.0}, GAUSSIAN),
    "symmetric-gaussian": ({"sensitivity": 3.0, "noise_multiplier": 2.0}, GAUSSIAN),
    "laplace": ({"sensitivity_l1": 3.0, "epsilon": 0.5}, EpsilonDeltaDpEvent(0.5, 0.0)),
    "gamma-vector": ({"sensitivity_l2": 3.0, "epsilon": 0.5}, EpsilonDeltaDpEvent(0.5, 0.0)),
    "two-sided-wishart": (
        {"sensitivity_trace": 3.0, "epsilon": 0.5},
        EpsilonDeltaDpEvent(0.5, 0.0),
    ),
    "poisson-gaussian": (
        {"sensitivity": 3.0, "noise_multiplier": 2.0, "sampling_rate": 0.1},
        dp_event.PoissonSampledDpEvent(0.1, GAUSSIAN),
    ),
    "fixed-size-gaussian": (
        {"sensitivity": 3.0, "noise_multiplier": 2.0, "n_units": 10, "cohort_size": 4},
        GAUSSIAN,
    ),
    "distributed-gaussian": (
        {"sensitivity": 3.0, "noise_multiplier": 2.0, "n_shares": 3, "min_honest": 3},
        GAUSSIAN,
    ),
    "distributed-symmetric-gaussian": (
        {"sensitivity": 3.0, "noise_multiplier": 2.0, "n_shares": 3, "min_honest": 3},
        GAUSSIAN,
    ),
    "exact": ({}, dp_event.NonPrivateDpEvent()),
}


def test_every_registered_mechanism_is_tested_here():
    assert set(CASES) == set(MECHANISMS)


@pytest.mark.parametrize("name", CASES)
def test_a_release_carries_its_event_and_says_whether_it_was_seeded(name):
    parameters, event = CASES[name]
    made = mechanism(name, **parameters)
    for entropy, seeded in ((SystemEntropy(), False), (SeededEntropy(1), True)):
        release = made.release(np.eye(4), entropy)
        assert release.event == made.event == event
        assert (release.mechanism, release.sound, release.seeded) == (name, True, seeded)
        assert release.value.shape == (4, 4)
        assert release.value.dtype == np.float64
    again = [made.release(np.eye(4), SeededEntropy(1)).value for _ in range(2)]
    assert np.array_equal(*again)


@pytest.mark.parametrize("name", CASES)
def test_bad_parameters_are_refused_by_name(name):
    parameters, _ = CASES[name]
    for field in parameters:
        for bad in (-1.0, 0.0, math.nan, "one"):
            with pytest.raises(InvalidInput, match=f"{field}="):
                mechanism(name, **{**parameters, field: bad})
    with pytest.raises(InvalidInput, match=name):
        mechanism(name, **parameters, colour="blue")


def test_an_infinite_epsilon_points_to_the_exact_mechanism():
    with pytest.raises(InvalidInput, match="'exact'"):
        Laplace(1.0, math.inf)


@pytest.mark.parametrize("name", ["wishart", "unknown", "gaussian-published", None])
def test_an_unknown_name_lists_the_sound_ones(name):
    with pytest.raises(InvalidInput, match="two-sided-wishart") as error:
        mechanism(name)
    assert "published" not in str(error.value).split(":", 1)[1]


@pytest.mark.parametrize("name", [name for name in CASES if name != "exact"])
def test_noise_never_has_less_than_the_declared_scale(name):
    made = mechanism(name, **CASES[name][0])
    exact = {"gaussian": 6.0, "two-sided-wishart": 3.0}.get(name, 6.0)
    assert exact <= made.scale <= exact * (1 + 1e-15)


def test_exact_hands_out_a_copy():
    value = np.arange(3.0)
    released = Exact().release(value, SystemEntropy()).value
    assert np.array_equal(released, value)
    assert released is not value
    assert Exact().scale == 0.0


def test_values_that_are_not_finite_never_reach_the_noise():
    for name in set(CASES) - {"exact"}:
        with pytest.raises(InvalidInput, match="value"):
            mechanism(name, **CASES[name][0]).release(np.full((2, 2), np.nan), SystemEntropy())


def test_log_densities_are_those_of_scipy():
    noise = np.random.default_rng(0).normal(size=(2, 3))
    gaussian, laplace = Gaussian(1.5, 2.0), Laplace(1.5, 0.5)
    assert gaussian.log_density(noise) == pytest.approx(stats.norm(scale=3).logpdf(noise).sum())
    assert laplace.log_density(noise) == pytest.approx(stats.laplace(scale=3).logpdf(noise).sum())
    # In one dimension the gamma vector is a Laplace variable; in two it integrates to one.
    assert GammaVector(1.5, 0.5).log_density([0.7]) == pytest.approx(laplace.log_density([0.7]))
    grid = np.linspace(-24, 24, 121)
    vector = GammaVector(1.0, 1.0)
    mass = sum(math.exp(vector.log_density([x, y])) for x in grid for y in grid) * 0.4**2
    assert mass == pytest.approx(1.0, abs=0.02)
    rows = GammaVector(1.5, 0.5, local=True)
    single = GammaVector(1.5, 0.5)
    assert rows.log_density(noise) == pytest.approx(sum(map(single.log_density, noise)))


def test_the_symmetric_density_is_spherical_in_frobenius_geometry():
    made = SymmetricGaussian(1.0, 2.0)
    noise = np.array([[1.0, 0.5], [0.5, -2.0]])
    coordinates = [1.0, -2.0, math.sqrt(2) * 0.5]
    expected = stats.norm(scale=2).logpdf(coordinates).sum()
    assert made.log_density(noise) == pytest.approx(expected)


vectors = hnp.arrays(np.float64, 4, elements=st.floats(-50, 50))


@settings(max_examples=200, deadline=None)
@given(released=vectors, value=vectors, direction=vectors)
def test_pure_mechanisms_never_lose_more_than_epsilon(released, value, direction):
    for made, length in (
        (Laplace(2.0, 0.7), np.abs(direction).sum()),
        (GammaVector(2.0, 0.7), np.linalg.norm(direction)),
    ):
        other = value + direction * (2.0 / length if length > 1e-9 else 0.0)
        assert abs(made.log_density_ratio(released, value, other)) <= 0.7 * (1 + 1e-9)


def test_the_gaussian_loss_is_linear_in_the_release():
    made = Gaussian(1.0, 2.0)
    # Privacy loss at output t between means 0 and 1: (1 − 2t) / (2 σ²).
    assert made.log_density_ratio([0.3], [0.0], [1.0]) == pytest.approx((1 - 0.6) / 8)


@pytest.mark.parametrize("name", ["symmetric-gaussian", "two-sided-wishart"])
def test_matrix_releases_are_exactly_symmetric_and_stack(name):
    made = mechanism(name, **CASES[name][0])
    released = made.release(np.zeros((3, 2, 5, 5)), SystemEntropy()).value
    assert np.array_equal(released, np.swapaxes(released, -1, -2))
    assert len(np.unique(released[..., 0, 0])) == 6
    with pytest.raises(InvalidInput, match="square"):
        made.release(np.zeros((2, 3)), SystemEntropy())


@pytest.mark.parametrize("d", [1, 3, 40])
@pytest.mark.parametrize("name", ["symmetric-gaussian", "two-sided-wishart"])
def test_the_edge_is_where_the_largest_eigenvalue_lies(name, d):
    made = mechanism(name, **CASES[name][0])
    noise = made.release(np.zeros((60, d, d)), SeededEntropy(0)).value
    largest = np.linalg.eigvalsh(noise)[:, -1].mean()
    assert largest < made.edge(d)
    if d == 40:
        assert largest > 0.85 * made.edge(d)
    with pytest.raises(InvalidInput, match="d=0"):
        made.edge(0)


def test_a_stack_gets_one_gamma_vector_per_task_only_when_local():
    stack = np.zeros((400, 5))
    local = GammaVector(1.0, 1.0, local=True).release(stack, SeededEntropy(0)).value
    joint = GammaVector(1.0, 1.0).release(stack, SeededEntropy(0)).value
    assert np.linalg.norm(local, axis=1).mean() == pytest.approx(5.0, rel=0.1)
    assert np.linalg.norm(joint) == pytest.approx(2000.0, rel=0.15)


def test_a_cohort_of_fixed_size_is_amplified_for_outsiders_only():
    sizes = {"n_units": 10, "cohort_size": 4}
    inside = FixedSizeGaussian(1.0, 2.0, **sizes)
    outside = FixedSizeGaussian(1.0, 2.0, **sizes, observer="outside")
    assert inside.event == GAUSSIAN
    assert outside.event == dp_event.SampledWithoutReplacementDpEvent(10, 4, GAUSSIAN)
    assert len(set(inside.cohort(SystemEntropy()))) == 4
    with pytest.raises(InvalidInput, match="cohort_size=11"):
        FixedSizeGaussian(1.0, 2.0, n_units=10, cohort_size=11)
    with pytest.raises(InvalidInput, match="observer="):
        FixedSizeGaussian(1.0, 2.0, **sizes, observer="anyone")


def test_a_poisson_cohort_has_the_sampling_rate():
    made = PoissonGaussian(1.0, 2.0, sampling_rate=0.25)
    assert made.cohort(40_000, SeededEntropy(0)).mean() == pytest.approx(0.25, abs=0.015)
    assert PoissonGaussian(1.0, 2.0, sampling_rate=1.0).cohort(5, SystemEntropy()).all()


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 30.0])
def test_the_dominating_event_costs_at_least_epsilon(epsilon):
    event = dominating_event(EpsilonDeltaDpEvent(epsilon))
    lie = event.noise_parameter / 2
    assert math.log1p(-lie) - math.log(lie) == pytest.approx(epsilon, rel=1e-9)
    assert math.log1p(-lie) - math.log(lie) >= epsilon * (1 - 1e-15)
    with pytest.raises(ValueError, match="delta"):
        dominating_event(EpsilonDeltaDpEvent(epsilon, 1e-6))


def test_local_noise_on_a_stack_is_independent_between_tasks():
    released = TwoSidedWishart(2.0, 1.0).release(np.zeros((2, 3, 3)), SystemEntropy()).value
    assert not np.array_equal(released[0], released[1])
