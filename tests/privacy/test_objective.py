"""Objective perturbation: exact densities in one and two dimensions, and the solver."""

from __future__ import annotations

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit

from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.accounting.gaussian import gaussian_delta
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.objective import (
    Accuracy,
    ObjectivePerturbation,
    Problem,
    gamma_scale,
    gaussian_scales,
    jacobian_cost,
    minimise,
    minimiser,
    pure_cost,
    smallest_strength,
)
from tacit.privacy.objective.calibration import _composed_delta


def _noise_and_log_jacobian(w, rows, labels, strength, centre=0.0):
    """Return b(w) and log det(∂b/∂w) for models ``w`` (g, d): the change of variables, exactly."""
    z = w @ rows.T
    b = -(expit(z) - labels) @ rows - strength * (w - centre)
    curvature = expit(z) * expit(-z)
    hessian = np.einsum("gi,ij,ik->gjk", curvature, rows, rows) + strength * np.eye(rows.shape[1])
    return b, np.linalg.slogdet(hessian)[1]


def _pure_loss(w, data, other, rate, strength, centre=0.0):
    """Return the log-density ratio of the released minimiser at ``w`` under gamma noise."""
    b, jacobian = _noise_and_log_jacobian(w, *data, strength, centre)
    b_other, jacobian_other = _noise_and_log_jacobian(w, *other, strength, centre)
    norms = np.linalg.norm(b, axis=1), np.linalg.norm(b_other, axis=1)
    return rate * (norms[1] - norms[0]) + jacobian - jacobian_other


def _aligned_loss(rate, strength):
    """Return the largest loss of an attack in the plane that the proof says is the worst.

    Old and new row are nearly opposite and w is far out between them, so that both are badly
    wrong at once (in one dimension they cannot be: s + s' = 1); the public centre is chosen such
    that the noise points along the difference of their gradients.
    """
    angle, far, length = 1e-3, 1e5, 1e6
    rows = np.array([1.0, 0.0]), np.array([-math.cos(angle), math.sin(angle)])
    losses = []
    for s in np.linspace(0.01, 0.999, 100):
        w = np.array([[-math.log(s / (1 - s)), -far]])
        shift = rows[1] - s * rows[0]
        centre = w - (length / strength) * shift / np.linalg.norm(shift)
        for sign in (1, -1):
            data, other = ((row[None], np.ones(1)) for row in rows)
            middle = w + sign * (w - centre)
            losses.append(float(_pure_loss(w, data, other, rate, strength, middle)[0]))
    return max(losses)


def _neighbours(dimension):
    """Yield pairs of small data sets that differ in one row, extreme rows included."""
    rng = np.random.default_rng(0)
    if dimension == 1:
        extreme = [np.array([v]) for v in (-1.0, -0.3, 0.0, 0.6, 1.0)]
    else:
        extreme = [
            np.array([math.cos(a), math.sin(a)]) for a in np.linspace(0, 2 * math.pi, 7)[:-1]
        ]
    # Without other rows the Jacobian of the replaced one weighs most.
    for rest in (np.zeros((0, dimension)), rng.uniform(-0.7, 0.7, (3, dimension))):
        kept = (np.arange(len(rest)) % 2).astype(float)
        for x, other in itertools.product(extreme, repeat=2):
            for y, label in itertools.product((0.0, 1.0), repeat=2):
                yield (
                    (np.vstack([rest, x]), np.append(kept, y)),
                    (np.vstack([rest, other]), np.append(kept, label)),
                )


def _grid(dimension):
    line = np.concatenate([-np.geomspace(1e3, 1e-3, 60), [0.0], np.geomspace(1e-3, 1e3, 60)])
    if dimension == 1:
        return line[:, None]
    return np.stack(np.meshgrid(line[::3], line[::3]), axis=-1).reshape(-1, 2)


def _worst_loss(dimension, rate, strength):
    grid = _grid(dimension)
    return max(
        float(_pure_loss(grid, data, other, rate, strength).max())
        for data, other in _neighbours(dimension)
    )


@pytest.mark.parametrize("dimension", [1, 2])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_exact_density_never_exceeds_epsilon(dimension, epsilon):
    strength, rate = smallest_strength(epsilon, 1.0), 1 / gamma_scale(epsilon, 1.0)
    assert _worst_loss(dimension, rate, strength) <= epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_the_exact_density_comes_close_to_epsilon_so_the_audit_has_teeth(epsilon):
    strength, rate = smallest_strength(epsilon, 1.0), 1 / gamma_scale(epsilon, 1.0)
    assert 0.98 * epsilon <= _aligned_loss(rate, strength) <= epsilon * (1 + 1e-6)


@pytest.mark.parametrize("dimension", [1, 2])
def test_planting_epsilon_for_epsilon_prime_is_caught(dimension):
    """The printed algorithm draws noise for ε and pays nothing for the Jacobian."""
    epsilon, strength = 1.0, 0.05
    assert _worst_loss(dimension, epsilon / 2, strength) > 1.5 * epsilon


@pytest.mark.parametrize("strength", [0.02, 0.3, 2.0, 50.0])
@pytest.mark.parametrize("rate", [0.05, 0.5, 3.0])
def test_the_closed_cost_bounds_and_attains_the_exact_density(strength, rate):
    s = np.linspace(0, 1, 200_001)
    direct = rate + np.max(rate * s + np.log1p(s * (1 - s) / strength))
    assert pure_cost(rate, 1.0, strength) == pytest.approx(direct, rel=1e-8)
    assert _worst_loss(1, rate, strength) <= direct * (1 + 1e-9)
    assert 0.97 * direct <= _aligned_loss(rate, strength) <= direct * (1 + 1e-6)


def test_the_jacobian_cost_is_attained_and_is_half_the_printed_one():
    """Erratum 5: one row against a zero row at w = 0, where its curvature is 1/4."""
    strength = 0.1
    here = np.zeros((1, 1))
    one = _noise_and_log_jacobian(here, np.ones((1, 1)), np.ones(1), strength)[1][0]
    none = _noise_and_log_jacobian(here, np.zeros((1, 1)), np.ones(1), strength)[1][0]
    assert float(one - none) == pytest.approx(jacobian_cost(1.0, strength), rel=1e-12)
    printed = math.log(1 + 1 / (2 * strength) + 1 / (16 * strength**2))
    assert 2 * jacobian_cost(1.0, strength) == pytest.approx(printed)


def _gaussian_delta_by_quadrature(data, other, sigma, strength, epsilon, centre=0.0):
    w = centre + np.sinh(np.linspace(-9, 9, 12_001))[:, None]
    b, jacobian = _noise_and_log_jacobian(w, *data, strength, centre)
    b_other, jacobian_other = _noise_and_log_jacobian(w, *other, strength, centre)
    constant = -math.log(sigma * math.sqrt(2 * math.pi))
    p = np.exp(constant - b[:, 0] ** 2 / (2 * sigma**2) + jacobian)
    q = np.exp(constant - b_other[:, 0] ** 2 / (2 * sigma**2) + jacobian_other)
    assert np.trapezoid(p, w[:, 0]) == pytest.approx(1, abs=1e-4)
    return float(np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), w[:, 0]))


@pytest.mark.parametrize(("epsilon", "strength"), [(0.5, 5.0), (1.0, 2.5), (2.0, 1.2)])
def test_gaussian_noise_keeps_its_delta_in_one_dimension(epsilon, strength):
    delta = 1e-2
    (sigma,) = gaussian_scales(epsilon, delta, 1.0, [strength], [1.0])
    found = [
        _gaussian_delta_by_quadrature(data, other, sigma, strength, epsilon)
        for data, other in _neighbours(1)
    ]
    assert max(found) <= delta


@pytest.mark.parametrize("centre", [-60.0, -2.0, 0.0, 2.0])
@pytest.mark.parametrize("strength", [0.2, 2.0])
def test_one_row_more_or_less_costs_what_the_proof_says(centre, strength):
    """The link of the chain: a row against no row, both ways; far from the row it is attained."""
    sigma = 4.0
    one, none = (np.ones((1, 1)), np.ones(1)), (np.zeros((1, 1)), np.ones(1))
    cost = jacobian_cost(1.0, strength)
    for epsilon in (0.05, 0.2, 0.5):
        added = _gaussian_delta_by_quadrature(one, none, sigma, strength, epsilon + cost, centre)
        removed = _gaussian_delta_by_quadrature(none, one, sigma, strength, epsilon, centre)
        limit = gaussian_delta(1 / sigma, epsilon)
        assert added <= limit * 1.001 + 1e-9
        assert removed <= limit * 1.001 + 1e-9
        if centre == -60.0 and strength == 2.0:
            assert removed >= 0.99 * limit


def test_gaussian_noise_without_the_jacobian_would_be_caught():
    """With a weak regulariser the plain Gaussian curve is exceeded: the Jacobian must be paid."""
    epsilon, strength, sigma = 1.0, 0.02, 5.0
    found = max(
        _gaussian_delta_by_quadrature(data, other, sigma, strength, epsilon)
        for data, other in _neighbours(1)
    )
    assert found > 2 * gaussian_delta(2 / sigma, epsilon)


def test_one_model_in_closed_form_agrees_with_the_composition_of_one():
    epsilon, delta, strength = 1.0, 1e-5, 20.0
    (sigma,) = gaussian_scales(epsilon, delta, 1.0, [strength], [1.0])
    composed = _composed_delta(2 / sigma, epsilon, (jacobian_cost(1.0, strength),), (1.0,))
    assert delta <= composed <= 1.02 * delta


def test_several_models_cost_at_least_the_gaussian_limit_and_little_more():
    ideal = gaussian_scales(1.0, 1e-5, 1.0, [1e9], [1.0])[0]
    scales = gaussian_scales(1.0, 1e-5, 1.0, [1e6, 1e6], [0.6, 0.8])
    together = 1 / math.hypot(1 / scales[0], 1 / scales[1])
    assert ideal <= together <= 1.01 * ideal
    assert scales[0] / scales[1] == pytest.approx(0.8 / 0.6)


def _accuracy(rows, linear, strength, centre):
    """Return the public numbers of one problem, as tight as they may be."""
    return Accuracy(
        n_rows=len(rows),
        dimension=rows.shape[1],
        row_norm=float(np.linalg.norm(rows, axis=1).max(initial=0.0)),
        strength=strength,
        centre_norm=float(np.linalg.norm(centre)),
        linear_norm=float(np.linalg.norm(linear)),
    )


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10_000),
    st.floats(-6, 2),
    st.floats(-3, 2),
    st.floats(-2, 2),
)
def test_the_minimiser_has_no_gradient(seed, log_strength, log_noise, log_rows):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 60)), int(rng.integers(1, 8))
    rows = 10**log_rows * rng.standard_normal((n, d))
    labels = (rng.random(n) < 0.3).astype(float)
    linear, strength = 10**log_noise * rng.standard_normal(d), 10**log_strength
    centre = rng.standard_normal(d)
    known = _accuracy(rows, linear, strength, centre)
    w = minimise(rows, labels, linear, strength, centre, known)
    gradient = rows.T @ (expit(rows @ w) - labels) + linear + strength * (w - centre)
    size = np.abs(rows).sum() + np.abs(linear).sum() + strength * np.abs(w - centre).sum()
    curved = 0.25 * np.square(rows).sum() * np.linalg.norm(w)
    assert np.linalg.norm(gradient) <= 1e-12 * (size + curved)


def test_the_minimiser_agrees_with_a_general_solver():
    rng = np.random.default_rng(1)
    rows, labels = rng.standard_normal((40, 3)), (rng.random(40) < 0.5).astype(float)
    linear, centre = rng.standard_normal(3), np.array([0.5, -1.0, 0.0])

    def loss(w):
        z = rows @ w
        return (np.logaddexp(0, z) - labels * z).sum() + linear @ w + ((w - centre) ** 2).sum()

    expected = minimize(loss, np.zeros(3), method="BFGS", tol=1e-10).x
    found = minimise(rows, labels, linear, 2.0, centre, _accuracy(rows, linear, 2.0, centre))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def _exact_gradient(rows, labels, linear, strength, centre, w):
    """Return the gradient of floats in 60 digits."""
    from mpmath import exp, mp, mpf

    with mp.workdps(60):
        total = [
            mpf(b) + mpf(strength) * (mpf(v) - mpf(c))
            for b, v, c in zip(linear, w, centre, strict=True)
        ]
        for row, label in zip(rows, labels, strict=True):
            z = sum((mpf(x) * mpf(v) for x, v in zip(row, w, strict=True)), mpf(0))
            residual = 1 / (1 + exp(-z)) - mpf(label)
            total = [t + residual * mpf(x) for t, x in zip(total, row, strict=True)]
        return np.array([float(t) for t in total]), [Fraction(str(t)) for t in total]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.floats(-2, 3), st.floats(-2, 3))
def test_the_public_rounding_covers_the_gradient_as_it_is_computed(seed, log_strength, log_noise):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    rows, labels = rng.standard_normal((n, d)), (rng.random(n) < 0.5).astype(float)
    linear, strength = 10**log_noise * rng.standard_normal(d), 10**log_strength
    centre = 10 * rng.standard_normal(d)
    known = _accuracy(rows, linear, strength, centre)
    away = rng.standard_normal(d)
    w = centre + rng.random() * known.radius * away / np.linalg.norm(away)
    loss = minimiser._Loss(rows, labels, linear, strength, centre, known)
    computed = loss.gradient(w, rows @ w)[0]
    _, exact = _exact_gradient(rows, labels, linear, strength, centre, w)
    error = math.sqrt(
        sum(float(Fraction(c) - e) ** 2 for c, e in zip(computed.tolist(), exact, strict=True))
    )
    assert error <= 0.5 * known.rounding


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.floats(-1, 2), st.floats(-2, 2))
def test_where_newton_fails_gradient_descent_arrives_within_the_proved_distance(
    seed, log_strength, log_noise
):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 6))
    rows, labels = rng.standard_normal((n, d)), (rng.random(n) < 0.5).astype(float)
    linear, strength = 10**log_noise * rng.standard_normal(d), 10**log_strength
    centre = rng.standard_normal(d)
    known = _accuracy(rows, linear, strength, centre)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(minimiser, "_quick", lambda loss, w: (w, math.inf))
        patch.setattr(minimiser, "_damped", lambda loss, w: (w + np.inf, 0.0))
        found = minimise(rows, labels, linear, strength, centre, known)
    gradient, _ = _exact_gradient(rows, labels, linear, strength, centre, found)
    assert np.linalg.norm(gradient) / strength <= known.distance
    newton = minimise(rows, labels, linear, strength, centre, known)
    assert np.linalg.norm(found - newton) <= 2 * known.distance


class _Coin(Entropy):
    """Seeded words, but the coin of the fallback falls as told."""

    system = False

    def __init__(self, seed, falls):
        self._inner, self._falls = SeededEntropy(seed), falls

    def words(self, count):
        return self._inner.words(count)

    def integer(self, n_words):
        return 0 if self._falls else self._inner.integer(n_words) | 1


def _released(mechanism, problem, entropy):
    return mechanism.solve([problem], entropy)[0]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_what_replaces_a_model_beyond_the_cap_does_not_depend_on_the_data(delta):
    mechanism = ObjectivePerturbation(0.5, delta, (20.0,))
    one = Problem(np.eye(3), np.array([0.0, 1.0, 1.0]), np.zeros(3))
    two = Problem(-np.eye(3), np.array([1.0, 0.0, 1.0]), np.zeros(3))
    for seed in range(3):
        first, second = (_released(mechanism, p, _Coin(seed, True)) for p in (one, two))
        np.testing.assert_array_equal(first, second)
        other = _released(mechanism, two, _Coin(seed, False))
        assert not np.array_equal(_released(mechanism, one, _Coin(seed, False)), other)
    # The same where the noise itself is beyond its cap.
    (known,) = mechanism._known([one])
    output = mechanism._output(0, known)
    tight = dataclasses.replace(
        output, accuracy=dataclasses.replace(output.accuracy, linear_norm=1e-9)
    )
    first, second = (tight.release(problem, SeededEntropy(1)) for problem in (one, two))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(("n_rows", "dimension"), [(1, 1), (2, 40), (500, 3), (100_000, 10)])
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
def test_the_cap_of_gamma_noise_is_what_the_proof_asks_for(n_rows, dimension, epsilon):
    mechanism = ObjectivePerturbation(epsilon, 0.0, (1.0,))
    problem = Problem(np.zeros((n_rows, dimension)), np.zeros(n_rows), np.ones(dimension))
    (known,) = mechanism._known([problem])
    output = mechanism._output(0, known)
    rate, used = 1 / output.noise_scale, output.accuracy
    v, s = output.fallback_scale, output.scale
    least = n_rows + 2 * used.linear_norm
    assert v >= math.sqrt(dimension) + least / used.strength
    assert v >= 2 * dimension * s
    volume = dimension * math.log(rate * (0.25 * n_rows + used.strength) * v)
    exponent = 3 * rate + volume + 128 * math.log(2) + 2 + output.epsilon
    assert rate * used.linear_norm >= exponent - math.log(output.epsilon)


def test_both_parts_of_the_budget_add_up_to_no_more_than_epsilon():
    for epsilon in (0.1, 1 / 3, 1.0, 7.3, 40.0, 1e7):
        mechanism = ObjectivePerturbation(epsilon, 0.0, (1.0, 2.0, 3.0))
        rows = np.zeros((5, 2))
        known = mechanism._known([Problem(rows, np.zeros(5), np.zeros(2))] * 3)
        outputs = [mechanism._output(k, known[k]) for k in range(3)]
        ideal = sum(2 / Fraction(output.noise_scale) for output in outputs)
        rounding = sum(2 * Fraction(output.distance) / Fraction(output.scale) for output in outputs)
        assert 0.99 * epsilon <= ideal + rounding <= Fraction(epsilon)


def test_the_noise_on_the_model_is_small_beside_that_in_the_objective():
    mechanism = ObjectivePerturbation(0.5, 0.0, (400.0,))
    problem = Problem(np.zeros((1600, 100)), np.zeros(1600), np.zeros(100))
    (known,) = mechanism._known([problem])
    output = mechanism._output(0, known)
    assert output.scale <= 1e-3 * output.noise_scale / output.accuracy.strength


def test_arithmetic_too_coarse_for_the_model_is_refused_by_public_numbers():
    mechanism = ObjectivePerturbation(1e12, 0.0, (1e-12,))
    problem = Problem(np.zeros((1000, 5)), np.zeros(1000), np.zeros(5))
    with pytest.raises(InvalidInput, match="raise alpha or lower epsilon"):
        mechanism.solve([problem], SeededEntropy(0))


def test_a_row_beyond_the_bound_is_refused():
    mechanism = ObjectivePerturbation(1.0, 0.0, (1.0,))
    problem = Problem(np.array([[1.0, 1.0]]), np.ones(1), np.zeros(2))
    with pytest.raises(PrivacyLeak, match="longer than row_norm"):
        mechanism.solve([problem], SeededEntropy(0))


def test_weak_regularisation_is_raised_to_what_the_budget_needs():
    mechanism = ObjectivePerturbation(0.5, 0.0, (1e-6, 100.0), row_norm=2.0, shares=(0.25, 0.75))
    first, second = mechanism.effective_strengths
    ideal = 0.5 * (1 - 2.0**-8)
    assert first == pytest.approx(2 * 2.0**2 / (0.25 * ideal))
    assert second == 100.0
    assert mechanism.scales == pytest.approx((2 * 2 / (0.25 * ideal), 2 * 2 / (0.75 * ideal)))


def test_shares_beyond_the_whole_budget_are_refused():
    with pytest.raises(InvalidInput, match="sum to at most 1"):
        ObjectivePerturbation(1.0, 0.0, (1.0, 1.0), shares=(0.7, 0.7))


def test_the_event_carries_epsilon_and_no_more_than_delta():
    event = ObjectivePerturbation(1.0, 1e-5, (1.0,)).event
    assert event.epsilon == 1.0
    assert 0.999e-5 <= event.delta <= 1e-5
    release = ObjectivePerturbation(math.inf, 0.0, (1.0,)).release(
        [[Problem(np.eye(2), np.array([0.0, 1.0]), np.zeros(2))]], SeededEntropy(0)
    )
    assert type(release.event).__name__ == "NonPrivateDpEvent"
    assert release.seeded
    assert release.value[0, 0] == pytest.approx(-release.value[0, 1])
