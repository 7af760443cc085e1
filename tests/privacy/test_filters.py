import math

import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tacit.errors import BudgetExceeded, InvalidInput
from tacit.privacy.accounting import PrivacyFilter, calibrate, compose, gaussian_mu
from tacit.privacy.accounting.filters import mu_spend, rdp_order
from tacit.privacy.events import EpsilonDeltaDpEvent as Step

Gaussian = dp_event.GaussianDpEvent


def poisson(rate, noise):
    return dp_event.PoissonSampledDpEvent(rate, Gaussian(noise))


def drain(budget, event, most=10_000):
    for count in range(most):
        if not budget.allows(event):
            return count
        budget.spend(event)
    return most


@settings(max_examples=25, deadline=None)
@given(noises=st.lists(st.floats(2.0, 60.0), min_size=1, max_size=40))
def test_gaussian_filter_never_passes_the_budget_whatever_is_chosen(noises):
    budget = PrivacyFilter(1.0, 1e-5)
    passed = []
    for noise in noises:
        if budget.allows(Gaussian(noise)):
            budget.spend(Gaussian(noise))
            passed.append(Gaussian(noise))
    assert compose(passed, delta=1e-5).epsilon <= 1.0
    assert budget.spent.epsilon <= 1.0


def test_gaussian_filter_lets_a_calibrated_run_through_and_not_one_release_more():
    budget, noise = PrivacyFilter(1.0, 1e-5), calibrate(1.0, 1e-5, n_releases=7)
    assert drain(budget, Gaussian(noise)) == 7
    assert budget.spent.epsilon == pytest.approx(1.0, rel=1e-12)


def test_what_is_left_can_be_spent_to_the_end():
    budget = PrivacyFilter(2.0, 1e-6)
    budget.spend(Gaussian(5.0))
    budget.spend(Gaussian(calibrate(budget.left.epsilon, 1e-6)))
    assert budget.spent.epsilon == pytest.approx(2.0, rel=1e-6)
    assert budget.left.epsilon < 1e-3


def test_a_refusal_says_what_was_asked_and_left_and_spends_nothing():
    budget = PrivacyFilter(1.0, 1e-5)
    budget.spend(Gaussian(5.0))
    before = budget.spent
    with pytest.raises(BudgetExceeded, match=r"asked for ε = .* left is ε") as refusal:
        budget.spend(Gaussian(1.0))
    assert refusal.value.asked > refusal.value.left > 0
    assert budget.spent == before


def test_pure_steps_enter_the_gaussian_filter_by_a_curve_below_their_own():
    for epsilon in (1e-6, 0.3, 1.0, 8.0):
        mu = math.sqrt(mu_spend(((Step(epsilon), 1),)).mu_squared)
        assert norm.cdf(-mu / 2) == pytest.approx(1 / (1 + math.exp(epsilon)), rel=1e-9)
        # The Gaussian trade-off curve lies below the response's everywhere.
        lie = 1 / (1 + math.exp(epsilon))
        for a in (0.01 * lie, 0.5 * lie, lie, 0.5, 0.9):
            response = max(0.0, 1 - math.exp(epsilon) * a, math.exp(-epsilon) * (1 - a))
            assert norm.cdf(norm.isf(a) - mu) <= response + 1e-9


def test_rdp_filter_pays_for_sampled_releases_at_one_order():
    budget = PrivacyFilter(1.0, 1e-5, rule="rdp")
    count = drain(budget, poisson(0.1, 3.0))
    assert count > 10
    assert compose([poisson(0.1, 3.0)] * count, delta=1e-5, accountant="rdp").epsilon <= 1.0
    assert budget.left.epsilon < 1.0


def test_rdp_order_lets_the_most_gaussian_noise_in():
    def allowed(order):
        return (1.0 - math.log(1e5) / (order - 1)) / order

    best = rdp_order(1.0, 1e-5)
    assert allowed(best) > max(allowed(0.97 * best), allowed(1.03 * best))


def test_basic_filter_adds_up_exactly():
    budget = PrivacyFilter(1.0, 0.0)
    assert drain(budget, Step(0.1)) == 9  # 0.1 is above one tenth, so ten of them exceed 1
    assert drain(PrivacyFilter(1.0, 0.0), Step(0.125)) == 8
    shared = PrivacyFilter(1.0, 1e-6, rule="basic")
    assert drain(shared, Step(0.01, 2.5e-7)) == 4
    assert shared.left.delta == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    ("rule", "event"),
    [("gdp", poisson(0.1, 1.0)), ("gdp", Step(0.1, 1e-6)), ("basic", Gaussian(3.0))],
)
def test_a_filter_refuses_what_it_cannot_price(rule, event):
    with pytest.raises(InvalidInput, match=type(event).__name__):
        PrivacyFilter(1.0, 1e-5, rule=rule).spend(event)


def test_a_release_without_noise_never_passes():
    for rule in ("gdp", "rdp", "basic"):
        assert not PrivacyFilter(1.0, 1e-5, rule=rule).allows(dp_event.NonPrivateDpEvent())


@pytest.mark.parametrize(
    "arguments", [(0.0, 1e-5), (-1.0, 1e-5), (math.nan, 1e-5), (1.0, 1.0), (1.0, -1e-9)]
)
def test_bad_budgets_are_refused(arguments):
    with pytest.raises(InvalidInput):
        PrivacyFilter(*arguments)


@pytest.mark.parametrize("rule", ["gdp", "rdp"])
def test_filters_that_need_delta_say_so(rule):
    with pytest.raises(InvalidInput, match="needs δ > 0"):
        PrivacyFilter(1.0, 0.0, rule=rule)


def test_plain_privacy_loss_distributions_are_no_filter():
    with pytest.raises(InvalidInput, match="rule='pld'"):
        PrivacyFilter(1.0, 1e-5, rule="pld")


def test_gaussian_filter_total_is_the_largest_mu():
    budget = PrivacyFilter(1.0, 1e-5)
    mu = gaussian_mu(1.0, 1e-5)
    assert budget.allows(Gaussian(1 / mu * (1 + 1e-12)))
    assert not budget.allows(Gaussian(1 / mu * (1 - 1e-12)))
