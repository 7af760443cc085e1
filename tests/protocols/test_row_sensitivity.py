"""How far one row moves what a site says, in exact fractions, by rows that were made to hurt."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.schedule import Call, Schedule
from tacit.protocols.asynchronous import AsynchronousProtocol, Design
from tacit.protocols.shared_moments import SharedMomentsProtocol
from tacit.tasks import TaskSet

D, SITES, ROWS = 3, 4, 12
LENGTHS = (0.0, 5e-324, 1e-200, 0.3, 1.0, 1 + 2**-52, 7.0, 1e9, 1e200, 1.7e308)


def hurtful(classes):
    """Return rows (N, d) and answers (N,): every direction that matters, every length."""
    rng = np.random.default_rng(0)
    ways = [*np.eye(D), -np.eye(D)[0], np.ones(D), *rng.standard_normal((3, D))]
    rows = [length * (way / np.abs(way).max()) for length in LENGTHS for way in ways]
    rows += [np.array([1.7e308, -1.7e308, 5e-324])]  # whose norms, and products, overflow
    answers = range(classes) if classes else (-1.7e308, -1.0, 0.0, 0.4, 1.0, 1.7e308)
    pairs = [(x, y) for x in rows for y in answers]
    return np.array([x for x, _ in pairs]), np.array([y for _, y in pairs], dtype=float)


def site(X, y):
    return TaskSet.from_arrays(X, y, np.arange(len(X)))


def furthest(bound, messages):
    """Return the largest squared distance of two rows' exact parts of a sum."""
    bounded = bound(messages)
    parts = {tuple(np.ravel(bound.aggregate(row[None]))) for row in bounded}
    exact = [[Fraction(number) for number in part] for part in parts]
    # Far ends of the longest, in floats; the candidates again in fractions.
    floats = np.array([[float(number) for number in part] for part in exact])
    apart = np.sum((floats[:, None] - floats[None]) ** 2, axis=2)
    first, second = np.unravel_index(np.argsort(apart, axis=None)[-400:], apart.shape)
    return max(
        sum((a - b) ** 2 for a, b in zip(exact[i], exact[j], strict=True))
        for i, j in zip(first, second, strict=True)
    )


def conversation(protocol, tasks):
    """Yield round, mechanism and the public state in which its rows speak."""
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=8.0, delta=1e-5, n_tasks=SITES)
    public, home = protocol.opening(), protocol.start(tasks, np.arange(SITES))
    for number, (round, mechanism) in enumerate(
        zip(schedule.rounds, schedule.mechanisms, strict=True)
    ):
        yield number, round, mechanism, public
        call = Call(number, number)
        home, said = protocol.speak(home, public, call, None)
        sums = round.bound.by_task(said)
        value = sums if protocol.by_site else sums.sum(axis=0)
        release = mechanism.release(value, SeededEntropy(number)).value
        public = protocol.read(public, release, call, mechanism)


def ordinary(classes):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((SITES * ROWS, D))
    y = (X[:, 0] + 0.3 * rng.standard_normal(len(X))) / 3
    if classes:
        y = np.digitize(y, [0.0] if classes == 2 else [-0.2, 0.2]).astype(float)
    return TaskSet.from_arrays(X, y, np.repeat(np.arange(SITES), ROWS))


@pytest.mark.parametrize("aggregation", ["untrusted", "trusted"])
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_no_pair_of_rows_moves_a_message_beyond_what_is_declared(classes, aggregation):
    protocol = SharedMomentsProtocol(
        LogisticLoss() if classes else SquaredLoss(),
        D,
        (ROWS,) * SITES,
        n_outputs=3 if classes == 3 else 1,
        row_norm=1.0,
        aggregation=aggregation,
    )
    rows = site(*hurtful(classes))
    for number, round, mechanism, public in conversation(protocol, ordinary(classes)):
        # A home of as many sites as rows: each row is a message of its own.
        with np.errstate(all="ignore"):
            home = protocol.start(rows, np.full(rows.n_tasks, -1))
            _, said = protocol.speak(home, public, Call(number, number), None)
        moved = furthest(round.bound, said.values)
        declared = Fraction(round.bound.sensitivity("l2", "replace-one"))
        assert moved <= declared**2, round.name
        # Indicators of classes move a mean and its square by √2 together, not by 2.
        assert moved > (declared * Fraction(8 if classes else 9, 10)) ** 2, round.name
        assert float(declared) == pytest.approx(2 * math.sqrt(2))
        assert mechanism.reach == float(declared)


@pytest.mark.parametrize("classes", [0, 2])
def test_no_pair_of_rows_moves_a_gradient_beyond_what_is_declared(classes):
    protocol = AsynchronousProtocol(
        LogisticLoss() if classes else SquaredLoss(),
        D,
        (ROWS,) * SITES,
        Design(1.0, 1.0),
        clip=0.3,
    )
    round = protocol.rounds()[0]
    rows, declared = site(*hurtful(classes)), Fraction(round.bound.sensitivity("l2", "replace-one"))
    home = protocol.start(rows, np.full(rows.n_tasks, -1))
    for size in (0.0, 1.0, 1e6, 1e200):
        models = np.broadcast_to(size * np.array([1.0, -1.0, 0.5, 2.0]), (rows.n_tasks, 1, D + 1))
        with np.errstate(all="ignore"):
            said = protocol.gradients(home, models, np.ones(rows.n_tasks, dtype=bool))
        assert furthest(round.bound, said.values) <= declared**2
    assert declared == Fraction(0.6)


def test_what_a_row_says_is_its_own_affair():
    """A neighbour's numbers change no bit of a row's message, whatever they are."""
    protocol = SharedMomentsProtocol(SquaredLoss(), D, (ROWS,) * SITES, row_norm=1.0)
    tasks = ordinary(0)
    for number, _, _, public in conversation(protocol, tasks):
        alone = tasks.take_tasks([0])
        X, y = alone.X.copy(), np.asarray(alone.y).copy()
        X[0], y[0] = 1.7e308, -1.7e308
        with np.errstate(all="ignore"):
            first, second = (
                protocol.speak(
                    protocol.start(rows, np.array([0])), public, Call(number, number), None
                )[1].values
                for rows in (alone, alone.replace(X=X, y=y))
            )
        assert np.array_equal(first[1:], second[1:])


@pytest.mark.parametrize("aggregation", ["untrusted", "trusted", "secure"])
def test_two_sites_at_one_place_and_places_that_do_not_exist_are_refused(aggregation):
    protocol = SharedMomentsProtocol(SquaredLoss(), D, (ROWS,) * SITES, aggregation=aggregation)
    two = ordinary(0).take_tasks([0, 1])
    for places in ([2, 2], [0, SITES]):
        with pytest.raises(InvalidInput, match="its own place"):
            protocol.start(two, np.array(places))
    assert len(protocol.start(two, np.array([-1, -1])).positions) == 2  # two that came late


@pytest.mark.parametrize(("min_honest", "n_sites"), [(1, 5), (3, 5), (5, 5), (None, 6)])
def test_as_many_shares_as_are_honest_are_as_much_noise_as_is_accounted(min_honest, n_sites):
    """Of secure sums: any ``min_honest`` sites' shares alone reach the variance of a curator's."""
    counts = (ROWS,) * n_sites
    once = SharedMomentsProtocol(SquaredLoss(), D, counts, aggregation="trusted")
    shared = replace(once, aggregation="secure", min_honest=min_honest)
    honest = min_honest or n_sites // 2 + 1
    calibrated = [
        Schedule.calibrate(one.rounds(), epsilon=1.0, delta=1e-5, n_tasks=n_sites)
        for one in (once, shared)
    ]
    for round, curator, share in zip(
        shared.rounds(), *(schedule.mechanisms for schedule in calibrated), strict=True
    ):
        draws = np.stack(
            [
                share.at_home(np.zeros((1, *round.shape)), SeededEntropy(seed))[0]
                for seed in range(400)
            ]
        )
        # Off the diagonal every entry has one variance; entries of a vector all do.
        entries = draws[:, 0, 1:] if draws.ndim == 3 else draws
        variance = float(np.mean(entries**2))
        needed = curator.deviation(round.shape) ** 2
        assert honest * variance == pytest.approx(needed, rel=0.1)
