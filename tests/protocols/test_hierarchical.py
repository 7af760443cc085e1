"""The hierarchical protocol: what leaves a task is bounded, what comes back is used well."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.local_fit import local_fit
from tacit.privacy.mechanisms import Gaussian
from tacit.privacy.schedule import Schedule, in_turn
from tacit.privacy.unit import Adjacency, Norm
from tacit.protocols.hierarchical import HierarchicalProtocol, Loudness
from tacit.tasks import TaskSet

from .by_hand import lead, started

HOSTILE = [1e308, -1e200, 1e60, 1e-300]  # NaN and infinity are refused at the door


def _tasks(m=30, n=8, d=5, *, seed=0, classes=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), n)
    X = rng.normal(size=(m * n, d)) + 2.0
    common = rng.normal(size=(d, max(classes, 1)))
    scores = X @ common + 0.3 * rng.normal(size=(m * n, common.shape[1]))
    y = scores.argmax(axis=1).astype(float) if classes > 1 else scores[:, 0] + 7.0
    if classes == 1:
        y = (y > np.median(y)).astype(float)
    return TaskSet.from_arrays(X, y, task)


def _protocol(tasks, **options):
    options = {"loss": SquaredLoss()} | options
    return HierarchicalProtocol(n_tasks=tasks.n_tasks, n_features=tasks.n_features, **options)


def _spoken(protocol, tasks):
    """Return bounded messages by call and the public state each was said under, without noise."""
    home, public, said = started(protocol, tasks), protocol.opening(), []
    for call in in_turn(protocol.rounds()):
        home, messages = protocol.speak(home, public, call, None)
        bound = protocol.rounds()[call.round].bound
        said.append((call, public, bound(messages)))
        value = bound.aggregate(said[-1][2])
        noise = Gaussian(protocol.rounds()[call.round].sensitivity("l2", "replace-one"), 0.01)
        public = protocol.read(public, value, call, _matrix_law(noise, value))
    return said, public


def _matrix_law(noise, value):
    from tacit.privacy.mechanisms import SymmetricGaussian

    square = value.ndim == 2 and value.shape[0] == value.shape[1]
    return SymmetricGaussian(noise.sensitivity, noise.noise_multiplier) if square else noise


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([1e-6, 1.0, 1e3, 1e12]), st.booleans())
def test_replacing_a_task_moves_no_sum_beyond_its_declared_sensitivity(seed, size, logistic):
    loss = LogisticLoss() if logistic else SquaredLoss()
    tasks = _tasks(6, 4, 4, classes=int(logistic))
    protocol = _protocol(tasks, loss=loss)
    rng = np.random.default_rng(seed)
    X, y = np.array(tasks.X), np.array(tasks.y)
    X[:4] = size * rng.normal(size=(4, 4))
    y[:4] = rng.integers(0, 2, 4) if logistic else size * rng.normal(size=4)
    other = tasks.replace(X=X, y=y)
    for call, public, first in _spoken(protocol, tasks)[0]:
        round = protocol.rounds()[call.round]
        _, said = protocol.speak(started(protocol, other), public, call, None)
        second = round.bound(said)
        np.testing.assert_array_equal(first[1:], second[1:])
        moved = round.bound.aggregate(second) - round.bound.aggregate(first)
        norm = Norm.FROBENIUS if round.bound.kind == "matrix" else Norm.L2
        assert np.linalg.norm(moved) <= round.sensitivity(norm, Adjacency.REPLACE_ONE)


@pytest.mark.parametrize("value", HOSTILE)
@pytest.mark.parametrize("loss", [SquaredLoss(), LogisticLoss()], ids=lambda loss: loss.name)
def test_hostile_rows_stop_nobody_and_change_nobody_elses_bits(value, loss):
    tasks = _tasks(8, 6, 4, classes=int(loss.name != "squared"))
    protocol = _protocol(tasks, loss=loss)
    said, public = _spoken(protocol, tasks)
    X = np.array(tasks.X)
    X[:6, 1] = value
    y = np.array(tasks.y)
    if loss.name == "squared":
        y[:3] = value
    hostile = tasks.replace(X=X, y=y)
    with np.errstate(all="ignore"):
        home = started(protocol, hostile)
        for call, heard, messages in said:
            _, found = protocol.speak(home, heard, call, None)
            bounded = protocol.rounds()[call.round].bound(found)
            assert np.isfinite(bounded).all()
            np.testing.assert_array_equal(bounded[1:], messages[1:])
        models = protocol.finish(home, public)
    calm = protocol.finish(started(protocol, tasks), public)
    np.testing.assert_array_equal(models[1:], calm[1:])


def test_a_task_on_its_own_machine_finds_the_bits_that_it_finds_in_company():
    tasks = _tasks(9, 7, 4)
    protocol = _protocol(tasks)
    said, public = _spoken(protocol, tasks)
    one = tasks.take_tasks([4])
    home = protocol.start(one, np.array([4]))
    for call, heard, messages in said:
        _, found = protocol.speak(home, heard, call, None)
        np.testing.assert_array_equal(protocol.rounds()[call.round].bound(found)[0], messages[4])
    together = protocol.finish(started(protocol, tasks), public)
    np.testing.assert_array_equal(protocol.finish(home, public)[0], together[4])


def _differing(m, n, d, *, common=1.0, labels=False, seed=0):
    """Return tasks of unit normal rows, whose models have a mean as long as they differ, or none.

    And their models (m, d).
    """
    rng = np.random.default_rng(seed)
    task, X = np.repeat(np.arange(m), n), rng.normal(size=(m * n, d))
    models = (common * rng.normal(size=d) + rng.normal(size=(m, d))) * 2 / np.sqrt(d)
    z = (X * models[task]).sum(axis=1)
    told = rng.uniform(size=m * n) < 1 / (1 + np.exp(-z))
    y = told.astype(float) if labels else z + 0.5 * rng.normal(size=m * n)
    return TaskSet.from_arrays(X, y, task), models


@pytest.mark.parametrize("labels", [False, True])
def test_a_task_compares_and_predicts_with_the_mean_of_the_others(labels):
    """Nearly: the mean that they find by themselves, without it, is less than half as far away."""
    tasks, _ = _differing(6, 30, 4, labels=labels)
    loss = LogisticLoss() if labels else SquaredLoss()
    protocol = _protocol(tasks, loss=loss, pattern="mean")
    public = _spoken(protocol, tasks)[1]
    home = started(protocol, tasks).under(public.frame, loss)
    shared = protocol._of_others(home, public)[0][0]
    read = public.frame.model(public.mean)[0]
    used = public.frame.model(shared.means[0] + shared.apart[:, 0])[0]
    left, before = [], []
    for i in range(6):
        others = tasks.take_tasks(np.delete(np.arange(6), i))
        without = _spoken(_protocol(others, loss=loss, pattern="mean"), others)[1]
        mean = without.frame.model(without.mean)[0][0]
        left.append(np.linalg.norm(used[i] - mean))
        before.append(np.linalg.norm(read[0] - mean))
    assert np.mean(left) < 0.5 * np.mean(before)


def test_who_came_when_all_was_said_has_nothing_to_take_out():
    tasks = _tasks(9, 7, 4)
    protocol = _protocol(tasks)
    public = _spoken(protocol, tasks)[1]
    for place, spoke in ((4, True), (-1, False)):
        home = protocol.start(tasks.take_tasks([4]), np.array([place]))
        shared = protocol._of_others(home.under(public.frame, SquaredLoss()), public)[0][0]
        assert shared.apart.any() == spoke


def test_a_few_unrelated_tasks_do_not_agree_to_share():
    """Each of three finds its own model in the mean of all, a third of it."""
    rng, worse = np.random.default_rng(11), []
    for seed in range(5):
        tasks, models = _differing(3, 40, 20, common=0.0, labels=True, seed=seed)
        fresh, far = np.repeat(np.arange(3), 500), rng.normal(size=(1500, 20))
        chance = 1 / (1 + np.exp(-(far * models[fresh]).sum(axis=1)))
        protocol = _protocol(tasks, loss=LogisticLoss())
        home, public = started(protocol, tasks), _spoken(protocol, tasks)[1]
        own = np.column_stack([home.own[0].coef, home.own[0].intercept])
        losses = []
        for found in (own, protocol.finish(home, public)[:, 0]):
            told = (far * found[fresh, :-1]).sum(axis=1) + found[fresh, -1]
            losses.append(np.mean(np.logaddexp(0, told) - told * chance))
        worse.append(losses[1] / losses[0] - 1)
    assert np.mean(worse) < 0.01


def test_noise_alone_closes_the_conversation_and_everybody_keeps_the_own_fit():
    tasks = _tasks()
    protocol = _protocol(tasks)
    rng = np.random.default_rng(1)
    rounds = protocol.rounds()
    mechanisms = [Gaussian(1e6, 1.0) for _ in rounds]
    noise = [1e6 * rng.normal(size=rounds[call.round].shape) for call in in_turn(rounds)]
    home, public = lead(protocol, tasks, mechanisms=mechanisms, noise=noise)
    assert public.closed
    assert public.model is None
    own = local_fit(tasks, SquaredLoss())
    models = protocol.finish(home, public)[:, 0]
    np.testing.assert_array_equal(models, np.column_stack([own.coef, own.intercept]))
    last = in_turn(rounds)[-1]
    assert not protocol.speak(home, public, last, None)[1].any()


def test_a_common_model_and_its_level_are_found_without_noise_whatever_the_units():
    for unit, offset in ((1.0, 0.0), (1e-3, 0.002), (500.0, -900.0)):
        tasks = _tasks(60, 10, 5)
        scaled = tasks.replace(X=np.asarray(tasks.X) * unit + offset, y=1e2 * np.asarray(tasks.y))
        protocol = _protocol(scaled)
        home, public = lead(protocol, scaled)
        pooled = np.column_stack([scaled.X, np.ones(scaled.n_rows)])
        best = np.linalg.lstsq(pooled, np.asarray(scaled.y), rcond=None)[0]
        coef, intercept = public.model
        found = scaled.X @ coef[0] + intercept[0]
        assert np.std(found - pooled @ best) < 0.02 * np.std(pooled @ best)
        assert np.isfinite(protocol.finish(home, public)).all()


def test_all_classes_are_one_message():
    tasks = _tasks(25, 12, 4, classes=3)
    protocol = _protocol(tasks, loss=LogisticLoss(), n_outputs=3)
    said, public = _spoken(protocol, tasks)
    for call, _, messages in said:
        round = protocol.rounds()[call.round]
        assert messages.shape == (25, *round.sent)
        lengths = np.linalg.norm(messages.reshape(25, -1), axis=1)
        assert (lengths <= round.bound.radius).all()
    assert public.model[0].shape == (3, 4)
    assert protocol.finish(started(protocol, tasks), public).shape == (25, 3, 5)


def test_the_schedule_follows_from_public_quantities_and_costs_what_it_says():
    tasks = _tasks(400, 4, 5)
    loud = _protocol(tasks, loudness=Loudness(2 / (0.3 * 400)))
    quiet = _protocol(tasks, loudness=Loudness(2 / (4.0 * 400)))
    assert [r.name for r in loud.rounds()] == [
        "scale", "centre", "magnitude", "level", "length", "scores", "moment", "evidence"
    ]  # fmt: skip
    louder = _protocol(tasks, loudness=Loudness(2 / (0.1 * 400)))
    assert "centre" not in {r.name for r in louder.rounds()}
    assert (louder.rounds()[0].shape, loud.rounds()[0].shape) == ((33,), (33 + 5,))
    assert quiet._comparisons.limit > loud._comparisons.limit
    schedule = Schedule.calibrate(loud.rounds(), epsilon=1.0, delta=1e-6)
    assert schedule.cost("task", 1e-6).epsilon <= 1.0
    shares = {r.name: r.share for r in loud.rounds()}
    assert shares["scores"] == pytest.approx(1.2 / np.sqrt(loud.plan.n_scores))
    no_mean = dataclasses.replace(loud, pattern="mean")
    assert "moment" not in [r.name for r in no_mean.rounds()]
    assert _protocol(tasks, loudness=Loudness(2 / (0.01 * 400))).rounds() == ()


def test_pure_rounds_divide_the_budget_linearly():
    tasks = _tasks(2000, 1, 4)
    protocol = _protocol(tasks, loudness=Loudness(2 / (10.0 * 2000), pure=True))
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=10.0, delta=0.0)
    assert {m.name for m in schedule.mechanisms} == {"gamma-vector", "two-sided-wishart"}
    assert schedule.cost("task", 0.0).epsilon <= 10.0 * (1 + 1e-9)
    assert sum(r.turns * r.share for r in protocol.rounds()) == pytest.approx(
        sum(share for _, share in protocol.plan.shares)
    )


@pytest.mark.parametrize("n_tasks", [6, 40])
def test_shapes_chosen_by_few_tasks_need_more_evidence(n_tasks):
    """As much is taken off a shape's weight as its numbers raise the evidence of a task."""
    tasks = _tasks(n_tasks, 6, 5)
    protocol = _protocol(tasks)
    call, before, _ = _spoken(protocol, tasks)[0][-1]
    assert protocol.rounds()[call.round].name == "evidence"
    quiet = dataclasses.replace(
        before, shapes=(None, np.eye(5)), parents=(0, 0), free=(0, 10), log_weights=None
    )
    noise = Gaussian(protocol.rounds()[call.round].sensitivity("l2", "replace-one"), 1e-9)
    nothing = np.zeros(protocol.rounds()[call.round].shape)
    found = protocol.read(quiet, nothing, call, noise).log_weights
    size = protocol._candidates(quiet, 0)[0].n_strengths
    np.testing.assert_allclose(found[size : 2 * size] - found[:size], -10 / n_tasks, atol=1e-9)


def test_whoever_learns_alone_is_compared_at_the_common_level():
    """Else rare labels, which say that the level is low, would speak for shared slopes."""
    tasks = _tasks(classes=1)
    rare = tasks.replace(y=(np.arange(tasks.n_rows) % 8 == 0).astype(float))
    protocol = _protocol(rare, loss=LogisticLoss())
    _, public = _spoken(protocol, rare)
    assert public.mean[0, -1] < -1
    shared, alone = protocol._candidates(public, 0)
    assert alone.means[0, -1] == shared.means[0, -1] == public.mean[0, -1]
    assert not alone.means[0, :-1].any()
