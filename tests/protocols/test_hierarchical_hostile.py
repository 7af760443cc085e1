"""The default conversation under attack: hostile tasks, any releases, and its price by hand."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import tacit
from tacit.audit.attacks.abort import hostile_task
from tacit.estimators._private import Sizes
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.bounds import VectorClip
from tacit.privacy.schedule import Schedule, in_turn
from tacit.privacy.unit import Unit
from tacit.protocols._hierarchical_evidence import Comparisons, WholeGrid
from tacit.protocols._hierarchical_plan import grid
from tacit.protocols.hierarchical import HierarchicalProtocol, Loudness
from tacit.tasks import TaskSet

HOSTILE = [0.0, 1.0, -1.0, 1e308, -1e308, 5e307, 5e-324, -745.0, np.inf, -np.inf, np.nan]


def _square(message):
    """Return the squared length without rounding."""
    return sum((Fraction(float(number)) ** 2 for number in message.ravel()), Fraction(0))


@pytest.mark.parametrize(("levels", "shapes", "limit"), [(6, 1, 0.75), (6, 6, 6.0), (1, 4, 1.3)])
@pytest.mark.parametrize("kind", [Comparisons, WholeGrid])
def test_whatever_a_task_finds_its_message_has_the_stated_length_exactly(
    kind, levels, shapes, limit
):
    rng = np.random.default_rng(0)
    asked = kind(11, levels, shapes, limit, *([50] if kind is Comparisons else []))
    means = np.zeros((shapes, 5 + (levels > 1)))
    candidates = grid(means, 5, "squared", (None, *[np.eye(5)] * (shapes - 1)))
    parents = (0, *range(shapes - 1))
    shared = rng.choice(HOSTILE, size=(60, *candidates.shape))
    shared[20:40] = rng.choice(HOSTILE[:8], size=shared[20:40].shape)
    shared[40:] = 10 * rng.normal(size=shared[40:].shape)
    alone = rng.choice(HOSTILE[:3], size=(60, 11))
    with quiet_arithmetic():
        messages = asked.messages(shared, alone, candidates, parents)
        for row in range(0, 60, 7):
            one = slice(row, row + 1)
            by_itself = asked.messages(shared[one], alone[one], candidates, parents)[0]
            np.testing.assert_array_equal(by_itself, messages[row])
    bound = VectorClip(1.0)
    bounded = bound(messages)
    assert max(map(_square, bounded)) <= 1
    assert max(_square(a - b) for a, b in zip(bounded, bounded[::-1], strict=True)) <= Fraction(
        bound.sensitivity("l2", "replace-one") ** 2
    )
    assert bounded.any(axis=1).sum() > 19  # not because all say nothing


def _tasks(loss, m, d):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(m), rng.integers(1, 20, m))
    X = rng.normal(size=(len(task), d))
    y = X.sum(axis=1) + rng.normal(size=len(task))
    return TaskSet.from_arrays(X, (y > 0).astype(float) if loss.name == "logistic" else y, task)


def _wild(rng, shape, m):
    kinds = (
        np.zeros(shape),
        rng.normal(size=shape) * m * 10 ** rng.uniform(-3, 6),
        rng.standard_cauchy(size=shape) * m,
        np.full(shape, 10 ** rng.uniform(-300, 15)),
        -np.abs(rng.normal(size=shape)) * 1e3 * m,
    )
    return kinds[rng.integers(len(kinds))]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("pure", [False, True])
@pytest.mark.parametrize(
    ("loss", "pattern", "kinds"),
    [
        (SquaredLoss(), "any", [None, "huge", "constant", "duplicated columns", "single row"]),
        (SquaredLoss(), "related", [None, "wildly scaled"]),
        (LogisticLoss(), "any", [None, "huge"]),
        (LogisticLoss(), "group-sparse", ["duplicated columns"]),
    ],
)
def test_no_release_makes_a_task_fail_or_say_more_than_is_stated(loss, pattern, kinds, pure):
    m, d = 5, 4
    protocol = HierarchicalProtocol(
        loss, m, d, loudness=Loudness(2 / (3e3 * m), pure), pattern=pattern
    )
    rounds = protocol.rounds()
    schedule = Schedule.calibrate(rounds, epsilon=3e3, delta=0.0 if pure else 1e-5)
    told = set()
    for seed, kind in enumerate(kinds):
        rng, public = np.random.default_rng(seed), protocol.opening()
        tasks = _tasks(loss, m, d)
        tasks = tasks if kind is None else hostile_task(tasks, 0, kind)
        with quiet_arithmetic():
            home = protocol.start(tasks, np.arange(m))
            for call in in_turn(rounds):
                round = rounds[call.round]
                home, said = protocol.speak(home, public, call, None)
                bounded = round.bound(said)
                assert max(map(_square, bounded)) <= Fraction(round.bound.radius) ** 2
                told |= {round.name} if bounded.any() else set()
                value = _wild(rng, (m, *round.shape) if round.at_task else round.shape, m)
                value = value + value.T if round.bound.kind == "matrix" else value
                public = protocol.read(public, value, call, schedule.mechanisms[call.round])
            assert protocol.finish(home, public).shape == (m, 1, d + 1)
    assert len(told) > 3


def _longest(round, norm):
    """Return how far a replaced task moves the sum, from first principles."""
    K, kind = mpmath.mpf(round.bound.radius), type(round.bound).__name__
    if kind in ("VectorClip", "VectorNormalise"):
        return 2 * K
    if kind == "NonNegativeClip":  # disjoint supports, and in ℓ1 both of half the numbers
        return K * mpmath.sqrt(2 * math.prod(round.shape) if norm == "l1" else 2)
    assert kind == "SecondMoment"
    return 2 * K**2 if norm in ("l1", "trace") else mpmath.sqrt(2) * K**2


@pytest.mark.parametrize("delta", ["auto", 1e-12, 0.0])
@pytest.mark.parametrize(
    ("name", "m", "d", "epsilon"),
    [
        ("LowRankRegressor", 139, 27, 10.0),
        ("LowRankClassifier", 2000, 12, 1.0),
        ("GroupSparseRegressor", 40_000, 60, 0.3),
        ("TaskRelationshipRegressor", 500, 4, 50.0),
        ("SharedPriorClassifier", 100, 1, 1e3),
    ],
)
def test_the_default_costs_what_it_states_in_fifty_digits(name, m, d, epsilon, delta):
    estimator = getattr(tacit, name)(epsilon=epsilon, delta=delta)
    protocol, schedule = estimator._staged(Sizes(m, d))
    assert isinstance(protocol, HierarchicalProtocol)
    delta = estimator._run_delta(Sizes(m, d))
    stated = schedule.cost(Unit.TASK, delta).epsilon
    assert estimator.plan(m, d).epsilon == epsilon >= stated
    with mpmath.workdps(50):
        square = pure = mpmath.mpf(0)
        for round, mechanism in zip(schedule.rounds, schedule.mechanisms, strict=True):
            change = _longest(round, mechanism.norm.value) / mpmath.mpf(mechanism.scale)
            if mechanism.family == "gaussian":
                square += round.turns * change**2
            elif mechanism.name == "two-sided-wishart":  # its scale is of another density
                pure += round.turns * mpmath.mpf(mechanism.epsilon)
            else:
                assert change <= mechanism.epsilon
                pure += round.turns * change
        assert (square > 0) != (pure > 0)
        if pure > 0:
            assert 0.999 * epsilon < pure <= stated
            return
        mu, epsilon = mpmath.sqrt(square), mpmath.mpf(stated)
        upper, lower = (mpmath.ncdf(sign * mu / 2 - epsilon / mu) for sign in (1, -1))
        assert 0.99 * delta < upper - mpmath.exp(epsilon) * lower <= delta
