"""Events are chosen well, and bounding them on fresh draws keeps the promise."""

import numpy as np
import pytest

from tacit.audit.bounds import epsilon_bound
from tacit.audit.selection import Event, best_event, count, thresholds


def goal(p, q):
    return epsilon_bound(p, q, 0.0)


def test_an_event_says_in_words_what_it_is():
    event = Event("projection", 0.25, above=True, likely=1)
    assert str(event) == "projection at least 0.25 (likelier under the second data set)"
    assert event.holds(np.array([0.2, 0.25, 0.3])).tolist() == [False, True, True]


def test_a_clean_separation_is_found_from_either_side():
    low, high = np.linspace(0, 1, 500), np.linspace(2, 3, 500)
    for first, second in ((low, high), (high, low)):
        promise, event = best_event("x", first, second, goal, failure=1e-3)
        p, q = count(event, first, second, 1e-3)
        assert promise > 4
        assert goal(p, q) == pytest.approx(promise)


def test_an_atom_computed_with_rounding_stays_on_one_side():
    rng = np.random.default_rng(0)
    atom = 1.0 + 1e-15 * rng.integers(-4, 4, 1000)
    cuts = thresholds(np.zeros(10), atom)
    assert any((atom >= cut).all() and cut > 0.5 for cut in cuts)


def test_infinite_scores_are_allowed():
    first = np.concatenate([np.zeros(400), np.full(100, -np.inf)])
    second = np.concatenate([np.zeros(400), np.full(100, np.inf)])
    promise, _ = best_event("x", first, second, goal, failure=1e-3)
    assert promise > 2


def test_the_same_draws_twice_promise_nothing():
    scores = np.random.default_rng(1).standard_normal(1000)
    promise, _ = best_event("x", scores, scores, goal, failure=1e-3)
    assert promise == 0.0
