import itertools
import math

import attr
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event, get_epsilon_gaussian
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from tacit.errors import InvalidInput
from tacit.privacy import Adjacency, Norm, VectorClip
from tacit.privacy.accounting import (
    ACCOUNTANTS,
    calibrate,
    compose,
    composition_bound,
    epsilon_of,
    event_from_json,
    event_to_json,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    geometric,
    group_privacy,
    optimal_composition,
    power,
    scale_gaussian,
    scale_pure,
)
from tacit.privacy.accounting.pure import sum_up
from tacit.privacy.events import EpsilonDeltaDpEvent

Gaussian = dp_event.GaussianDpEvent
Laplace = dp_event.LaplaceDpEvent
Step = EpsilonDeltaDpEvent


def poisson(rate, noise):
    return dp_event.PoissonSampledDpEvent(rate, Gaussian(noise))


def times(event, count):
    return dp_event.SelfComposedDpEvent(event, count)


# -- Gaussian releases ---------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1e-3, 0.1, 1.0, 4.0, 30.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.0, 7.0, 400.0])
def test_gaussian_delta_is_the_integral_of_the_positive_part(mu, epsilon):
    # p - e^ε q > 0 exactly above ε/μ + μ/2 for p = N(μ, 1) and q = N(0, 1).
    threshold = epsilon / mu + mu / 2

    def positive_part(x):
        return norm.pdf(x - mu) * -math.expm1(epsilon - mu * x + mu * mu / 2)

    top = max(threshold, mu) + 12
    middle = [mu] if threshold < mu else None
    integral, _ = quad(
        positive_part, threshold, top, points=middle, epsabs=0, epsrel=1e-10, limit=300
    )
    assert gaussian_delta(mu, epsilon) == pytest.approx(integral, rel=1e-8, abs=1e-290)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("delta", [1e-100, 1e-12, 1e-5, 0.05])
def test_gaussian_epsilon_is_that_of_dp_accounting_and_not_below(mu, delta):
    golden = get_epsilon_gaussian(1 / mu, delta, tol=1e-13)
    assert gaussian_epsilon(mu, delta) == pytest.approx(golden, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("mu", [1e-12, 1e-9, 1e-6])
def test_small_mu_does_not_cancel(mu):
    # At ε = 0 the curve is 2Φ(μ/2) - 1 = erf(μ/√8), and for small μ it is μφ(0).
    assert gaussian_delta(mu, 0.0) == pytest.approx(math.erf(mu / math.sqrt(8)), rel=1e-11)
    epsilon = 3 * mu
    a = epsilon / mu - mu / 2
    first_order = mu * (norm.pdf(a) - a * norm.sf(a))
    assert gaussian_delta(mu, epsilon) == pytest.approx(first_order, rel=1e-5)


def test_extreme_values_stay_finite_and_ordered():
    assert gaussian_epsilon(0.0, 1e-5) == 0.0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    assert gaussian_epsilon(1.0, 0.0) == math.inf
    assert gaussian_epsilon(1e8, 1e-300) == pytest.approx(5e15, rel=1e-5)
    assert gaussian_delta(1.0, math.inf) == 0.0
    assert gaussian_delta(1.0, 1e5) >= 0.0
    assert gaussian_mu(math.inf, 1e-5) == math.inf
    assert gaussian_mu(1.0, 0.0) == 0.0


@settings(max_examples=60, deadline=None)
@given(
    mu=st.floats(1e-6, 1e3),
    growth=st.floats(1.0, 10.0),
    log_delta=st.floats(-600.0, -0.2),
    drop=st.floats(0.0, 20.0),
)
def test_gaussian_epsilon_grows_with_mu_and_falls_with_delta(mu, growth, log_delta, drop):
    delta, smaller = math.exp(log_delta), math.exp(log_delta - drop)
    here = gaussian_epsilon(mu, delta)
    assert gaussian_epsilon(mu * growth, delta) >= here
    assert gaussian_epsilon(mu, smaller) >= here


@settings(max_examples=60, deadline=None)
@given(mu=st.floats(1e-6, 1e3), log_delta=st.floats(-600.0, -0.2))
def test_epsilon_and_delta_of_gaussians_are_consistent(mu, log_delta):
    delta = math.exp(log_delta)
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(mu, epsilon) <= delta * (1 + 1e-9)
    if epsilon > 0:
        assert gaussian_delta(mu, epsilon * (1 - 1e-9)) >= delta * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(epsilon=st.floats(1e-4, 1e4), log_delta=st.floats(-300.0, -0.2))
def test_largest_mu_never_exceeds_the_target_and_is_tight(epsilon, log_delta):
    delta = math.exp(log_delta)
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_epsilon(mu, delta) <= epsilon
    assert gaussian_epsilon(mu * (1 + 1e-9), delta) > epsilon


# -- composition against dp-accounting and published values ----------------------------------------


def test_published_pld_value_q_tenth_sigma_3_512_rounds():
    # Issue's published value: ε = 3.77 at δ = 1e-6.
    assert epsilon_of(times(poisson(0.1, 3.0), 512), 1e-6) == pytest.approx(3.77, abs=0.005)


def test_published_calibration_q_tenth_512_rounds_epsilon_1():
    # Issue's published value: σ = 9.66.
    noise = calibrate(1.0, 1e-6, event=lambda s: poisson(0.1, s), n_releases=512)
    assert noise == pytest.approx(9.66, abs=0.005)
    assert epsilon_of(times(poisson(0.1, noise), 512), 1e-6) <= 1.0


@pytest.mark.parametrize(
    ("rate", "noise", "count"), [(0.01, 1.0, 100), (0.2, 2.0, 30), (0.5, 4.0, 3)]
)
def test_poisson_sampling_costs_what_dp_accounting_says(rate, noise, count):
    event = poisson(rate, noise)
    pld = PLDAccountant().compose(event, count).get_epsilon(1e-6)
    rdp = RdpAccountant().compose(event, count).get_epsilon(1e-6)
    assert epsilon_of(times(event, count), 1e-6) == pytest.approx(pld, rel=1e-8)
    assert epsilon_of(times(event, count), 1e-6, accountant="rdp") == pytest.approx(rdp, rel=1e-12)
    assert pld <= rdp


def test_poisson_sampling_once_is_the_brute_force_integral():
    rate, noise, epsilon = 0.2, 1.5, 0.3

    def mixture(x):
        return (1 - rate) * norm.pdf(x, 0, noise) + rate * norm.pdf(x, 1, noise)

    def plain(x):
        return norm.pdf(x, 0, noise)

    deltas = []
    for p, q in ((mixture, plain), (plain, mixture)):
        value, _ = quad(
            lambda x, p=p, q=q: max(0.0, p(x) - math.exp(epsilon) * q(x)), -15, 15, limit=500
        )
        deltas.append(value)
    delta = max(deltas)
    found = epsilon_of(poisson(rate, noise), delta)
    assert epsilon - 1e-7 <= found <= epsilon + 1e-3  # the quadrature's own error is about 1e-9


def test_poisson_sampling_twice_is_the_brute_force_double_integral():
    rate, noise, epsilon = 0.3, 1.2, 0.8
    x = np.linspace(-11, 12, 2001)
    step = x[1] - x[0]
    plain = norm.pdf(x, 0, noise)
    mixture = (1 - rate) * plain + rate * norm.pdf(x, 1, noise)
    removed = np.outer(mixture, mixture) - math.exp(epsilon) * np.outer(plain, plain)
    added = np.outer(plain, plain) - math.exp(epsilon) * np.outer(mixture, mixture)
    delta = max(np.maximum(removed, 0).sum(), np.maximum(added, 0).sum()) * step**2
    found = epsilon_of(times(poisson(rate, noise), 2), delta)
    assert found == pytest.approx(epsilon, abs=2e-3)


def test_gaussian_composition_is_exact_and_the_others_are_above():
    events = [Gaussian(4.0), Gaussian(7.0), times(Gaussian(9.0), 5)]
    mu = math.sqrt(1 / 16 + 1 / 49 + 5 / 81)
    cost = compose(events, delta=1e-6)
    assert cost.accountant == "gdp"
    assert cost.epsilon == pytest.approx(gaussian_epsilon(mu, 1e-6), rel=1e-14)
    for name in ("pld", "rdp", "zcdp"):
        assert compose(events, delta=1e-6, accountant=name).epsilon >= cost.epsilon * (1 - 1e-9)
    assert compose(events, delta=1e-6, accountant="pld").epsilon == pytest.approx(
        cost.epsilon, rel=1e-4
    )


def test_nested_composition_is_taken_apart():
    nested = dp_event.ComposedDpEvent(
        [times(dp_event.ComposedDpEvent([Gaussian(3.0), dp_event.NoOpDpEvent()]), 4), Gaussian(3.0)]
    )
    assert compose(nested, delta=1e-5) == compose([Gaussian(3.0)] * 5, delta=1e-5)


def test_sampling_with_rate_one_is_the_plain_release():
    assert compose(poisson(1.0, 2.0), delta=1e-5) == compose(Gaussian(2.0), delta=1e-5)


def test_releases_without_cost_cost_nothing():
    free = [dp_event.NoOpDpEvent(), poisson(0.0, 1.0), Gaussian(math.inf), Step(0.0)]
    assert compose(free, delta=1e-5).epsilon == 0.0
    assert compose([], delta=0.0).epsilon == 0.0


@pytest.mark.parametrize("event", [dp_event.NonPrivateDpEvent(), Gaussian(0.0), Step(math.inf)])
def test_a_release_without_noise_costs_everything(event):
    for accountant in ACCOUNTANTS:
        assert compose([event], delta=1e-5, accountant=accountant).epsilon == math.inf


def test_auto_picks_the_tightest_accountant_that_knows_every_event():
    def chosen(*events):
        return compose(events, delta=1e-6).accountant

    assert chosen(Gaussian(1.0)) == "gdp"
    assert chosen(Step(0.1), Laplace(5.0)) == "optimal"
    assert chosen(poisson(0.1, 2.0)) == "pld"
    assert chosen(Gaussian(3.0), Step(0.1)) == "pld"
    assert chosen(dp_event.ZCDpEvent(0.01)) == "rdp"


def test_mixture_of_gaussian_and_pure_steps_lies_between_its_parts_and_their_sum():
    gaussian, steps = [Gaussian(5.0)] * 3, [Step(0.1)] * 5
    both = compose(gaussian + steps, delta=1e-6).epsilon
    alone = compose(gaussian, delta=1e-6).epsilon
    assert alone < both <= alone + 0.5 + 1e-3
    assert both <= compose(gaussian + steps, delta=1e-6, accountant="rdp").epsilon


def test_zcdp_of_gaussians_agrees_with_fine_rdp():
    rho = 0.02
    zcdp = compose(dp_event.ZCDpEvent(rho), delta=1e-6, accountant="zcdp").epsilon
    orders = np.linspace(1.5, 200, 20000)
    conversion = rho * orders + np.log1p(-1 / orders) - np.log(1e-6 * orders) / (orders - 1)
    assert zcdp == pytest.approx(conversion.min(), rel=1e-4)
    assert zcdp >= conversion.min() * (1 - 1e-9)


@attr.s(frozen=True)
class MysteryDpEvent(dp_event.DpEvent):
    pass


@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_an_unknown_event_is_refused_by_name(accountant):
    with pytest.raises(InvalidInput, match="MysteryDpEvent"):
        compose([Gaussian(1.0), MysteryDpEvent()], delta=1e-5, accountant=accountant)
    with pytest.raises(InvalidInput, match="UnsupportedDpEvent"):
        compose(dp_event.UnsupportedDpEvent(), delta=1e-5, accountant=accountant)


@pytest.mark.parametrize(
    ("event", "accountant"),
    [(poisson(0.1, 1.0), "gdp"), (Gaussian(1.0), "optimal"), (poisson(0.1, 1.0), "zcdp")],
)
def test_an_accountant_refuses_what_it_does_not_know(event, accountant):
    with pytest.raises(InvalidInput, match=type(event).__name__):
        compose(event, delta=1e-5, accountant=accountant)


def test_something_that_is_no_event_is_refused():
    with pytest.raises(InvalidInput, match="must be a dp_accounting event"):
        compose([1.0], delta=1e-5)


# -- sampling and adjacency -----------------------------------------------------------------------


def test_without_replacement_amplifies_only_for_an_outside_observer():
    cohort = dp_event.SampledWithoutReplacementDpEvent(100, 10, Gaussian(4.0))
    with pytest.raises(InvalidInput, match="observer='outside'"):
        compose(cohort, delta=1e-5)
    outside = compose(cohort, delta=1e-5, observer="outside").epsilon
    assert outside < compose(Gaussian(4.0), delta=1e-5).epsilon
    golden = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert outside == pytest.approx(golden.compose(cohort).get_epsilon(1e-5), rel=1e-12)


def test_poisson_sampling_is_refused_under_replace_one():
    with pytest.raises(InvalidInput, match="add-or-remove"):
        compose(poisson(0.1, 1.0), delta=1e-5, adjacency=Adjacency.REPLACE_ONE)
    for adjacency in (Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT):
        assert compose(poisson(0.1, 1.0), delta=1e-5, adjacency=adjacency).epsilon > 0


def test_replace_one_does_not_double_the_sensitivity_for_you():
    # The pitfall: dp-accounting gives one noise multiplier the same ε under both relations.
    add = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
    replace = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    event = Gaussian(2.0)
    assert add.compose(event).get_epsilon(1e-5) == replace.compose(event).get_epsilon(1e-5)
    # So the bound must say it: the same noise is half the noise multiplier under replace-one.
    clip, deviation = VectorClip(1.0), 4.0
    cost = {
        adjacency: epsilon_of(Gaussian(deviation / clip.sensitivity(Norm.L2, adjacency)), 1e-5)
        for adjacency in (Adjacency.ADD_OR_REMOVE, Adjacency.REPLACE_ONE)
    }
    assert cost[Adjacency.REPLACE_ONE] > 1.9 * cost[Adjacency.ADD_OR_REMOVE]


# -- pure-ε steps ---------------------------------------------------------------------------------


def brute_force_epsilon(epsilons, delta):
    """Enumerate all truth-or-lie outcomes and search ε by bisection."""
    p, q = [], []
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        truth = [1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True)]
        lie = [1 / (1 + math.exp(s * e)) for s, e in zip(signs, epsilons, strict=True)]
        p.append(math.prod(truth))
        q.append(math.prod(lie))
    p, q = np.array(p), np.array(q)
    low, high = 0.0, sum(epsilons)
    for _ in range(80):
        middle = (low + high) / 2
        if np.maximum(0, p - math.exp(middle) * q).sum() > delta:
            low = middle
        else:
            high = middle
    return high


@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.03])
@pytest.mark.parametrize("epsilon", [0.05, 0.7, 2.0])
def test_equal_pure_steps_are_exact(epsilon, delta):
    found = optimal_composition([epsilon] * 9, delta)
    assert found == pytest.approx(brute_force_epsilon([epsilon] * 9, delta), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("delta", [1e-9, 1e-4, 0.03])
def test_unequal_pure_steps_approach_the_exact_value_from_above(delta):
    epsilons = [0.1, 0.23, 0.4, 0.05, 0.9, 0.31, 0.17, 0.62]
    exact = brute_force_epsilon(epsilons, delta)
    found = optimal_composition(epsilons, delta)
    assert exact - 1e-12 <= found <= exact * (1 + 1e-4)


@settings(max_examples=40, deadline=None)
@given(
    epsilons=st.lists(st.floats(1e-3, 3.0), min_size=1, max_size=9),
    log_delta=st.floats(-25.0, -1.0),
)
def test_optimal_composition_is_safe_and_never_worse_than_published_or_sum(epsilons, log_delta):
    delta = math.exp(log_delta)
    found = optimal_composition(epsilons, delta)
    assert found >= brute_force_epsilon(epsilons, delta) - 1e-9
    assert found <= composition_bound(epsilons, delta) * (1 + 1e-9)
    assert found <= sum_up(epsilons)
    assert optimal_composition(epsilons, 0.0) == sum_up(epsilons)


@settings(max_examples=30, deadline=None)
@given(
    epsilons=st.lists(st.floats(1e-3, 2.0), min_size=1, max_size=12),
    extra=st.floats(1e-3, 1.0),
    log_delta=st.floats(-25.0, -1.0),
)
def test_optimal_composition_grows_with_steps_and_falls_with_delta(epsilons, extra, log_delta):
    delta = math.exp(log_delta)
    here = optimal_composition(epsilons, delta)
    # The grid moves with the steps, so monotone up to its width.
    slack = 1e-3 * here + 1e-9
    assert optimal_composition([*epsilons, extra], delta) >= here - slack
    assert optimal_composition(epsilons, delta / 10) >= here - 1e-12


def test_steps_with_delta_use_up_delta_first():
    assert optimal_composition([0.1] * 5, 1e-6, deltas=[1e-6] * 5) == math.inf
    some = optimal_composition([0.1] * 50, 1e-5, deltas=[1e-8] * 50)
    assert some > optimal_composition([0.1] * 50, 1e-5)
    pld = compose([Step(0.1, 1e-8)] * 50, delta=1e-5, accountant="pld").epsilon
    assert pld == pytest.approx(some, rel=1e-3)


def test_composition_bound_is_definition_7():
    steps, delta = np.array([0.1, 0.2, 0.3]), 1e-3
    drift = sum((math.exp(e) - 1) * e / (math.exp(e) + 1) for e in steps)
    squares = float((steps**2).sum())
    three = (
        0.6,
        drift + math.sqrt(2 * squares * math.log(1 / delta)),
        drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta)),
    )
    assert composition_bound(steps, delta) == pytest.approx(min(three), rel=1e-12)
    many = np.full(2000, 0.01)
    assert composition_bound(many, delta) < many.sum()


def test_laplace_counts_as_its_pure_epsilon():
    assert compose([Laplace(2.0)] * 3, delta=0.0).epsilon == pytest.approx(1.5, rel=1e-12)
    assert compose(Laplace(2.0), delta=0.0).epsilon >= 0.5


def test_group_privacy_is_the_geometric_sum_and_below_proposition_3():
    epsilon, delta = group_privacy(0.1, 1e-9, 30)
    chained = sum(1e-9 * math.exp(0.1 * j) for j in range(30))
    assert epsilon == pytest.approx(3.0)
    assert delta == pytest.approx(chained, rel=1e-12)
    assert delta < 30 * math.exp(3.0) * 1e-9
    assert group_privacy(1.0, 1e-5, 1) == (1.0, 1e-5)
    assert group_privacy(0.5, 0.0, 4) == (2.0, 0.0)
    assert group_privacy(0.0, 1e-6, 4)[1] == pytest.approx(4e-6)
    assert group_privacy(10.0, 1e-5, 1000)[1] == 1.0


# -- calibration and budgets over rounds ----------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    epsilon=st.floats(0.01, 50.0),
    log_delta=st.floats(-40.0, -2.0),
    count=st.integers(1, 10_000),
)
def test_calibration_is_safe_and_not_wasteful(epsilon, log_delta, count):
    delta = math.exp(log_delta)
    noise = calibrate(epsilon, delta, n_releases=count)
    assert compose(times(Gaussian(noise), count), delta=delta).epsilon <= epsilon
    less = times(Gaussian(noise * (1 - 1e-9)), count)
    assert compose(less, delta=delta).epsilon > epsilon


@pytest.mark.parametrize("accountant", ["rdp", "pld", "zcdp"])
def test_calibration_by_other_accountants_is_safe(accountant):
    noise = calibrate(1.0, 1e-5, n_releases=3, accountant=accountant)
    assert compose([Gaussian(noise)] * 3, delta=1e-5, accountant=accountant).epsilon <= 1.0
    assert noise >= calibrate(1.0, 1e-5, n_releases=3)


def test_calibration_of_laplace_noise_is_pure():
    noise = calibrate(1.0, 0.0, event=Laplace, n_releases=4)
    assert noise == pytest.approx(4.0, rel=1e-5)
    assert compose([Laplace(noise)] * 4, delta=0.0).epsilon <= 1.0


def test_no_privacy_needs_no_noise():
    assert calibrate(math.inf, 1e-5) == 0.0
    assert np.all(scale_gaussian(power(3), math.inf, 1e-5) == 0)
    assert np.all(np.isinf(scale_pure(power(3), math.inf)))


@settings(max_examples=25, deadline=None)
@given(
    count=st.integers(1, 60),
    alpha=st.floats(-2.0, 2.0),
    epsilon=st.floats(0.01, 20.0),
    log_delta=st.floats(-30.0, -2.0),
)
def test_gaussian_rounds_stay_within_the_target(count, alpha, epsilon, log_delta):
    delta = math.exp(log_delta)
    noise = scale_gaussian(power(count, alpha), epsilon, delta)
    cost = compose([Gaussian(s) for s in noise], delta=delta).epsilon
    assert epsilon * (1 - 1e-9) <= cost <= epsilon
    assert np.allclose(noise * power(count, alpha), noise[0] * power(count, alpha)[0])


@pytest.mark.parametrize("weights", [power(20, 0.4), geometric(20, 0.9), power(20)])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_pure_rounds_stay_within_the_target(weights, delta):
    epsilons = scale_pure(weights, 1.0, delta)
    cost = optimal_composition(epsilons, delta)
    assert 1.0 - 1e-6 <= cost <= 1.0
    assert np.allclose(epsilons / weights, epsilons[0] / weights[0])
    published = scale_pure(weights, 1.0, delta, bound="published")
    assert composition_bound(published, delta) <= 1.0
    assert np.all(published <= epsilons * (1 + 1e-9))


def test_weights_follow_the_papers():
    assert np.allclose(power(4, 0.4) / power(4, 0.4)[0], np.arange(1, 5) ** 0.4)
    assert np.allclose(geometric(4, 0.5) / geometric(4, 0.5)[0], [1, 2, 4, 8])
    assert np.all(np.isfinite(geometric(5000, 0.1)[-10:]))


# -- bad input and files --------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.nan, -math.inf, "1", None, True])
def test_bad_epsilon_is_refused_with_the_remedy(epsilon):
    for call in (
        lambda: calibrate(epsilon, 1e-5),
        lambda: gaussian_mu(epsilon, 1e-5),
        lambda: scale_pure(power(3), epsilon),
        lambda: scale_gaussian(power(3), epsilon, 1e-5),
    ):
        with pytest.raises(InvalidInput, match=r"epsilon=.*no privacy"):
            call()


@pytest.mark.parametrize("delta", [-1e-5, 1.0, 2.0, math.nan, math.inf, "1e-5", None, False])
def test_bad_delta_is_refused_with_the_remedy(delta):
    for call in (
        lambda: calibrate(1.0, delta),
        lambda: compose(Gaussian(1.0), delta=delta),
        lambda: gaussian_epsilon(1.0, delta),
        lambda: optimal_composition([1.0], delta),
        lambda: group_privacy(1.0, delta, 2),
    ):
        with pytest.raises(InvalidInput, match="delta="):
            call()


def test_gaussian_noise_has_no_pure_epsilon():
    with pytest.raises(InvalidInput, match="delta=0"):
        calibrate(1.0, 0.0)
    with pytest.raises(InvalidInput, match="delta=0"):
        scale_gaussian(power(3), 1.0, 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: compose(Gaussian(-1.0), delta=1e-5),
        lambda: compose(Gaussian(math.nan), delta=1e-5),
        lambda: compose(poisson(1.5, 1.0), delta=1e-5),
        lambda: compose(Step(-0.1), delta=1e-5),
        lambda: compose(Gaussian(1.0), delta=1e-5, accountant="magic"),
        lambda: compose(Gaussian(1.0), delta=1e-5, observer="curator"),
        lambda: compose(times(Gaussian(1.0), -1), delta=1e-5),
        lambda: calibrate(1.0, 1e-5, n_releases=0),
        lambda: power(0),
        lambda: power(3, math.nan),
        lambda: geometric(3, 0.0),
        lambda: scale_pure([1.0, -1.0], 1.0),
        lambda: scale_pure([], 1.0),
        lambda: optimal_composition([-1.0], 1e-5),
        lambda: optimal_composition([math.nan], 1e-5),
        lambda: optimal_composition([1.0], 1e-5, deltas=[0.1, 0.1]),
        lambda: gaussian_epsilon(-1.0, 1e-5),
        lambda: gaussian_delta(1.0, -1.0),
        lambda: group_privacy(1.0, 1e-5, 0),
    ],
)
def test_other_bad_input_is_refused(call):
    with pytest.raises(InvalidInput):
        call()


@pytest.mark.parametrize(
    "event",
    [
        Gaussian(1 / 3),
        poisson(0.1, 2.5),
        Step(0.7, 1e-9),
        times(Laplace(2.0), 3),
        dp_event.ComposedDpEvent([Gaussian(1.0), dp_event.NoOpDpEvent()]),
        dp_event.SampledWithoutReplacementDpEvent(10, 3, Gaussian(1.0)),
    ],
)
def test_events_survive_json_exactly(event):
    assert event_from_json(event_to_json(event)) == event


def test_json_names_only_events():
    for text in ('{"type":"DpEventBuilder"}', '{"type":"os.system"}', '{"type":"List"}'):
        with pytest.raises(InvalidInput, match="not an event"):
            event_from_json(text)
