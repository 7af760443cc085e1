"""Counts to bounds: exact, one-sided, and never beyond what is true."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tacit.audit import bounds
from tacit.errors import InvalidInput


@pytest.mark.parametrize(("k", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (317, 100_000)])
def test_limits_are_those_of_scipys_exact_interval(k, n):
    interval = stats.binomtest(k, n).proportion_ci(0.99, method="exact")
    assert bounds.rate_lower(k, n, 0.005) == pytest.approx(interval.low, abs=1e-12)
    assert bounds.rate_upper(k, n, 0.005) == pytest.approx(interval.high, abs=1e-12)


@given(p=st.floats(0.01, 0.99), n=st.integers(5, 60))
def test_a_limit_is_wrong_no_more_often_than_it_says(p, n):
    counts = np.arange(n + 1)
    wrong = bounds.rate_lower(counts, n, 0.05) > p
    assert stats.binom.pmf(counts, n, p)[wrong].sum() <= 0.05 + 1e-12


def test_epsilon_and_delta_of_an_event_agree_with_their_definitions():
    assert bounds.epsilon_bound(0.5, 0.1, 0.0) == pytest.approx(np.log(5))
    assert bounds.epsilon_bound(0.5, 0.1, 0.2) == pytest.approx(np.log(3))
    assert bounds.epsilon_bound(0.1, 0.5, 0.0) == 0.0
    assert bounds.epsilon_bound(1e-6, 0.5, 1e-5) == 0.0
    assert bounds.delta_bound(0.7, 0.1, np.log(2)) == pytest.approx(0.5)
    assert bounds.delta_bound(0.7, 0.0, 1e5) == pytest.approx(0.7)
    assert bounds.delta_bound(0.7, 0.1, 1e5) == 0.0


def test_mu_of_a_gaussian_event_is_the_shift():
    p, q = stats.norm.sf(0.2 - 0.7), stats.norm.sf(0.2)
    assert bounds.mu_bound(p, q) == pytest.approx(0.7)


def one_run_p_value_by_its_definition(m, r, v, epsilon, delta):
    """Steinke, Nasr, Jagielski 2023, Theorem 5.2, as a plain loop."""
    q = 1 / (1 + np.exp(-epsilon))
    alpha = total = 0.0
    for i in range(1, v + 1):
        total += stats.binom.pmf(v - i, r, q)
        alpha = max(alpha, total / i)
    return min(stats.binom.sf(v - 1, r, q) + 2 * m * delta * alpha, 1.0)


@pytest.mark.parametrize(
    "case", [(100, 40, 33, 0.5, 1e-5), (1000, 100, 95, 2.0, 1e-3), (9, 5, 0, 1, 0.1)]
)
def test_the_one_run_p_value_is_that_of_the_theorem(case):
    assert bounds.one_run_p_value(*case) == pytest.approx(
        one_run_p_value_by_its_definition(*case), rel=1e-9
    )


def test_a_perfect_one_run_guesser_refutes_what_the_paper_says():
    # 100 of 100 right at 95 %: q^100 <= 0.05, so epsilon >= logit(0.05 ** 0.01).
    root = 0.05**0.01
    found = bounds.one_run_epsilon(100, 100, 100, delta=0.0, confidence=0.95)
    assert found == pytest.approx(np.log(root / (1 - root)), rel=1e-9)


def test_chance_level_guessing_refutes_nothing():
    assert bounds.one_run_epsilon(1000, 500, 250, delta=1e-5, confidence=0.95) == 0.0


def test_the_one_run_bound_is_wrong_no_more_often_than_it_says():
    # Randomised response at epsilon = 1 is the extreme case of the theorem.
    r, epsilon = 60, 1.0
    counts = np.arange(r + 1)
    found = [bounds.one_run_epsilon(r, r, int(v), delta=0.0, confidence=0.95) for v in counts]
    wrong = np.array(found) > epsilon
    assert stats.binom.pmf(counts, r, 1 / (1 + np.exp(-epsilon)))[wrong].sum() <= 0.05


def test_more_right_guesses_than_guesses_are_refused():
    with pytest.raises(InvalidInput, match="n_correct=6"):
        bounds.one_run_p_value(10, 5, 6, 1.0, 0.0)
