"""The transfer family on the seam: what is planned is charged, stated, and what solves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tacit
from tacit.engines import Batches, conduct, fold
from tacit.errors import BudgetExceeded, InvalidInput, PrivacyLeak
from tacit.privacy import Billboard, Ledger
from tacit.privacy.bounds import RowClip
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.objective import ObjectivePerturbation
from tacit.privacy.schedule import AtTask, Curator, Round, Schedule
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet
from tacit.transfer.design import Design
from tacit.transfer.learning import Budget, Learner
from tacit.transfer.protocol import TransferProtocol

METHODS = (
    tacit.PrivateLogisticRegression,
    tacit.TransferClassifier,
    tacit.FeatureSplitTransferClassifier,
)
DESIGN = Design(((0, 2), (1, 3)), (0.4, 0.6), 1.0, "clip", 0.3)
every = pytest.mark.parametrize("method", METHODS)
deltas = pytest.mark.parametrize("delta", [0.0, 1e-6, "auto"])


def _tasks(sizes=(30, 41, 22), n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((sum(sizes), 4))
    y = np.digitize(X[:, 0], np.linspace(-0.5, 0.5, n_classes - 1))
    return X, y, np.repeat(np.arange(len(sizes)), sizes)


@every
@deltas
@pytest.mark.parametrize("n_classes", [2, 3])
def test_planned_events_are_charged_and_stated(method, delta, n_classes, monkeypatch):
    X, y, tasks = _tasks(n_classes=n_classes)
    charged = []
    charge = tacit.privacy.ledger.Reservation.charge
    monkeypatch.setattr(
        tacit.privacy.ledger.Reservation,
        "charge",
        lambda self, event, **facts: (charged.append(event), charge(self, event, **facts))[1],
    )
    model = method(0.7, delta, classes=tuple(range(n_classes)))
    n_outputs = 1 if n_classes == 2 else n_classes
    plan = model.plan(n_tasks=3, n_features=4, n_outputs=n_outputs, n_rows=len(X))
    ledger = Ledger(":memory:", epsilon=0.7, delta=0.01)
    model.set_params(ledger=ledger).fit(X, y, tasks=tasks)
    (posting,) = model.billboard_
    assert charged == [posting.event]
    assert posting.unit is plan.unit is model.privacy_.unit is Unit.ROW
    assert (plan.epsilon, plan.delta) == (0.7, model.privacy_.delta)
    assert model.privacy_.epsilon == pytest.approx(0.7)
    assert model.privacy_.epsilon <= 0.7
    assert plan.trust == model.privacy_.curator == "untrusted"
    (release,) = plan.releases
    assert release.n_numbers == posting.value[0].size
    assert release.scale == model.history_[0]["scale"]
    assert model.privacy_.mechanisms == (release.mechanism,) == ("objective-perturbation",)
    with pytest.raises(BudgetExceeded):
        model.fit(X, y, tasks=tasks)


@every
def test_the_object_that_is_charged_is_the_object_that_solves(method, monkeypatch):
    """Noise is cut out of the solver: the scheduled mechanism is the only one that is asked."""
    X, y, tasks = _tasks()
    model = method(1.0, random_state=0)
    solved = []

    def solve(self, problems, entropy):
        solved.append(self)
        return [np.zeros(len(problem.centre)) for problem in problems]

    monkeypatch.setattr(ObjectivePerturbation, "solve", solve)
    model.fit(X, y, tasks=tasks)
    (posting,) = model.billboard_
    assert len(solved) == 3 * (2 if method is METHODS[2] else 1)
    assert all(mechanism.event == posting.event for mechanism in solved)


@every
def test_a_plan_needs_no_rows_and_says_how_loud_the_noise_is(method):
    near = method(1.0).plan(n_tasks=1, n_features=20, n_rows=1000)
    far = method(1.0).plan(n_tasks=1, n_features=20, n_rows=10_000)
    assert near.noise_to_signal == pytest.approx(10 * far.noise_to_signal)
    assert near.bytes_up == 8 * near.releases[0].n_numbers
    with pytest.raises(InvalidInput, match="n_rows=None"):
        method(1.0, "auto").plan(n_tasks=1, n_features=20)
    assert method(float("inf")).plan(n_tasks=1, n_features=20).noise_to_signal == 0


@every
def test_the_noise_to_signal_of_a_plan_is_what_the_noise_does(method):
    """One row a task moves the gradient by R at most; b is drawn in the open here."""
    protocol = method(2.0)._protocol(tacit.estimators._private.Sizes(1, 4, 1, 100))
    mechanism = getattr(protocol.mechanism, "levels", (protocol.mechanism,))[0]
    sizes, rng = mechanism.dimensions, np.random.default_rng(0)
    squares = [
        (rng.gamma(size, scale, 20_000) ** 2).mean()
        for size, scale in zip(sizes, mechanism.scales, strict=True)
    ]
    assert mechanism.noise_norm((sum(sizes),)) == pytest.approx(np.sqrt(sum(squares)), rel=0.03)


def _protocol(**options):
    return TransferProtocol(Learner(DESIGN, Budget(1.0, 1e-6), 2), **options)


@pytest.mark.parametrize("stacked", [False, True])
def test_one_task_a_machine_says_what_the_stack_says(stacked):
    X, y, tasks = _tasks()
    task_set = TaskSet.from_arrays(X, y, tasks)
    protocol = _protocol(stacked=stacked)

    def released(max_rows):
        parties = Batches(protocol, task_set, entropy=SeededEntropy(3), max_rows=max_rows)
        billboard = Billboard()
        outcome = conduct(
            protocol, protocol.schedule(), parties, billboard, entropy=SeededEntropy(4)
        )
        np.testing.assert_array_equal(
            fold(protocol, protocol.schedule(), billboard), outcome.public
        )
        return np.concatenate(list(parties.finish(outcome.public)))

    np.testing.assert_array_equal(released(None), released(1))


def test_some_of_the_tasks_say_what_they_say_among_all():
    X, y, tasks = _tasks()
    protocol = _protocol()
    home = protocol.start(TaskSet.from_arrays(X, y, tasks), np.arange(3))
    (round,), call = protocol.rounds(), None
    _, everybody = protocol.speak(home, protocol.opening(), call, None)
    _, some = protocol.speak(home, protocol.opening(), call, np.array([False, True, True]))
    all_problems, problems = round.bound.by_task(everybody), round.bound.by_task(some)
    assert len(problems) == 2
    for one, other in zip(all_problems[1:], problems, strict=True):
        for first, second in zip(one, other, strict=True):
            np.testing.assert_array_equal(first.rows, second.rows)
            np.testing.assert_array_equal(first.labels, second.labels)


def test_a_party_that_released_nothing_gets_nobody_elses_model():
    X, y, _ = _tasks()
    protocol = _protocol()
    home = protocol.start(TaskSet.from_arrays(X, y), np.array([-1]))
    with pytest.raises(InvalidInput, match="has no model"):
        protocol.finish(home, np.zeros((3, *protocol.rounds()[0].shape)))


@pytest.mark.parametrize("stacked", [False, True])
def test_noise_for_shorter_rows_than_the_round_bounds_is_refused(stacked):
    protocol = _protocol(stacked=stacked)
    longer = dataclasses.replace(DESIGN, row_norm=1.5).bound
    rounds = (dataclasses.replace(protocol.rounds()[0], bound=longer),)
    with pytest.raises(PrivacyLeak, match="covers changes up to"):
        Schedule(rounds, (protocol.mechanism,))


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize(
    ("change", "adjacency", "message"),
    [
        ({"noise": Curator()}, Adjacency.REPLACE_ONE, "protects rows where they are learned"),
        ({"unit": Unit.TASK}, Adjacency.REPLACE_ONE, "protects rows where they are learned"),
        ({"bound": RowClip(0.5)}, Adjacency.REPLACE_ONE, "a bound of rows"),
        ({}, Adjacency.ADD_OR_REMOVE, "number of rows as public"),
    ],
)
def test_a_round_that_the_proof_does_not_cover_is_refused(stacked, change, adjacency, message):
    protocol = _protocol(stacked=stacked)
    rounds = (dataclasses.replace(protocol.rounds()[0], **change),)
    with pytest.raises(PrivacyLeak, match=message):
        Schedule(rounds, (protocol.mechanism,), adjacency)


def test_a_mechanism_made_for_a_round_covers_it():
    round = Round("models", DESIGN.bound, (6,), unit=Unit.ROW, noise=AtTask())
    for kind in (ObjectivePerturbation, type(_protocol(stacked=True).mechanism)):
        mechanism = kind.of_round(round, 0.5, Adjacency.REPLACE_ONE)
        mechanism.check(round, Adjacency.REPLACE_ONE)
        assert mechanism.event.epsilon == 0.5


@pytest.mark.parametrize("method", METHODS[1:])
@pytest.mark.parametrize("delta", [0.0, "auto"])
def test_sources_and_targets_of_one_call_are_charged_once_and_together(method, delta):
    X, y, tasks = _tasks()
    ledger = Ledger(":memory:", epsilon=1.0, delta=1e-4)
    model = method(1.0, delta, ledger=ledger).fit(X, y, tasks=tasks, source_task=[0])
    (line,) = ledger.lines()
    assert line.spent.epsilon == pytest.approx(1.0)
    assert line.spent.delta >= max(model.privacy_.delta, model.source_privacy_[0].delta) * 0.999
    before = model.coef_.copy()
    with pytest.raises(BudgetExceeded):
        model.fit(X, y, tasks=tasks, source_task=[0])
    np.testing.assert_array_equal(model.coef_, before)
