"""The shared prior's protocol: what leaves a task is bounded, what comes back is used well."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tacit import datasets
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.privacy.mechanisms import Exact, Gaussian, Laplace, SymmetricGaussian, TwoSidedWishart
from tacit.privacy.schedule import Call
from tacit.protocols._ballots import OCTAVES, ballots, read_ballot, signed_ballots
from tacit.protocols._bordered_moment import BORDER, border, moment_bound, read_prior
from tacit.protocols.shared_prior import SharedPriorProtocol, ballot_bound
from tacit.tasks import TaskSet

from .by_hand import bounded, lead, started

ROUGH = st.floats(-1e6, 1e6, allow_nan=False)


def _protocol(tasks, *, loss=None, **options):
    return SharedPriorProtocol(
        loss=loss or SquaredLoss(),
        n_tasks=tasks.n_tasks,
        n_features=tasks.n_features,
        **{"clip": 30.0, **options},
    )


@given(arrays.arrays(np.float64, (5, 2, 4), elements=ROUGH), st.sampled_from([0.5, 30.0]))
def test_replacing_a_task_moves_the_moment_by_no_more_than_its_sensitivity(models, clip):
    tasks = TaskSet.from_arrays(np.ones((5, 4)), np.ones(5), np.arange(5))
    moment = _protocol(tasks, n_outputs=2, clip=clip).rounds()[0]
    models = border(models)
    for other in (np.zeros((2, 4)), -models[0, ..., :4], models[1, ::-1, :4]):
        neighbour = models.copy()
        neighbour[0, ..., :4] = other
        one, two = (moment.bound.aggregate(moment.bound(sent)) for sent in (models, neighbour))
        assert np.linalg.norm(one - two) <= moment.sensitivity("frobenius", "replace-one")
        trace_norm = np.abs(np.linalg.eigvalsh(one - two)).sum()
        assert trace_norm <= moment.sensitivity("trace", "replace-one")


def test_the_sensitivity_of_the_bordered_moment_is_attained():
    # Directions at cosine −B² are the worst pair: the bound is tight, no budget is given away.
    cosine = -(BORDER**2)
    pair = np.array([[[1.0, 0.0]], [[cosine, np.sqrt(1 - cosine**2)]]])
    first, second = (np.einsum("kd,ke->de", v, v) for v in border(pair))
    expected = np.sqrt(2) * (1 + BORDER**2)
    assert np.linalg.norm(first - second) == pytest.approx(expected, rel=1e-12)
    assert moment_bound().sensitivity("frobenius", "replace-one") == pytest.approx(
        expected, rel=2e-6
    )


@given(arrays.arrays(np.float64, 6, elements=st.floats(-1e30, 1e30, allow_nan=False)))
def test_a_ballot_is_one_vote_at_most_and_its_change_is_bounded(values):
    votes = ballots(values)
    assert (votes >= 0).all()
    assert (votes.sum(axis=1) <= 1 + 1e-12).all()
    bounded = ballot_bound()(np.sqrt(votes))
    moved = ballot_bound().aggregate(bounded[:1]) - ballot_bound().aggregate(bounded[1:2])
    assert np.linalg.norm(moved) <= ballot_bound().sensitivity("l2", "replace-one")
    assert np.abs(moved).sum() <= ballot_bound().sensitivity("l1", "replace-one")


def test_signed_ballots_of_all_classes_together_are_one_vote():
    values = np.array([[3.0, -0.2, 0.0], [1e9, -1e-9, 5.0]])
    votes = signed_ballots(values) / 3
    assert votes.shape == (2, 3, 2, OCTAVES.size)
    assert (votes.reshape(2, -1).sum(axis=1) <= 1 + 1e-12).all()
    assert votes[0, 0, 1].sum() == 0
    assert votes[0, 1, 0].sum() == 0


@pytest.mark.parametrize("number", [1e-3, 0.7, 20.0, 3000.0])
def test_the_ballot_finds_a_number_that_tasks_agree_on_whatever_its_unit(number):
    rng = np.random.default_rng(0)
    values = number * np.exp(0.3 * rng.normal(size=400))
    counts = ballots(values).sum(axis=0)
    noisy = counts + 10 * rng.normal(size=counts.size)
    assert read_ballot(noisy, Gaussian(1.0, 10.0)) == pytest.approx(number, rel=0.15)


def test_a_ballot_without_agreement_finds_nothing():
    rng = np.random.default_rng(1)
    noise = 50 * rng.normal(size=(200, OCTAVES.size))
    found = [read_ballot(counts, Gaussian(1.0, 50.0)) is not None for counts in noise]
    assert np.mean(found) < 0.15
    assert read_ballot(np.zeros(OCTAVES.size), Exact()) is None
    assert read_ballot(np.zeros(OCTAVES.size), Laplace(2.0, 1.0)) is None


def test_opting_out_is_invisible_and_harmless():
    # A task with a constant target sends the zero model and abstains; shapes stay public.
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    y = np.where(labels == 0, 4.0, X @ [1.0, 2.0, 0.0])
    tasks = TaskSet.from_arrays(X, y, labels)
    protocol = _protocol(tasks)
    _, sent = bounded(protocol, started(protocol, tasks), protocol.opening(), Call(0, 0))
    assert sent.shape == (6, 1, 4)
    np.testing.assert_array_equal(sent[0, 0, :3], 0.0)
    models = protocol.finish(*lead(protocol, tasks))
    assert np.isfinite(models).all()
    np.testing.assert_allclose(models[0, 0], [0, 0, 0, 4], atol=0.05)


def test_a_single_task_on_its_own_machine_gets_the_model_it_gets_in_the_stack():
    tasks = datasets.make_low_rank(12, 20, 6, random_state=0).train
    protocol = _protocol(tasks)
    home, public = lead(protocol, tasks)
    together = protocol.finish(home, public)
    alone = protocol.start(tasks.take_tasks([7]), np.array([-1]))
    np.testing.assert_array_equal(protocol.finish(alone, public)[0], together[7])


@pytest.mark.parametrize("wishart", [False, True])
def test_the_mean_direction_and_the_subspace_come_back_from_the_noisy_moment(wishart):
    rng = np.random.default_rng(3)
    m, d = 4000, 8
    models = np.zeros((m, 1, d))
    models[:, 0, :2] = rng.normal(size=(m, 2)) * [0.2, 1.0] + [2.0, 0.0]
    limit = moment_bound()
    unit = models / np.linalg.norm(models, axis=2, keepdims=True)
    total = limit.aggregate(limit(border(unit)))
    mechanism = (
        TwoSidedWishart(limit.sensitivity("trace", "replace-one"), 1.0)
        if wishart
        else SymmetricGaussian(limit.sensitivity("frobenius", "replace-one"), 4.0)
    )
    from tacit.privacy.noise.perturb import entropy_from

    noisy = mechanism.release(total, entropy_from(5)).value
    prior = read_prior(noisy, mechanism, n_tasks=m, n_outputs=1)
    assert prior.mean is not None
    assert prior.mean[0, 0] > 0.98 * np.linalg.norm(prior.mean)
    assert prior.shape.vectors is not None
    leading = prior.shape.vectors[:, prior.shape.excess > 0]
    assert leading.shape[1] == 2
    assert np.linalg.norm(leading[:2]) ** 2 == pytest.approx(2.0, abs=0.05)


def test_noise_alone_gives_no_candidates_so_that_each_task_keeps_its_own_fit():
    tasks = datasets.make_low_rank(40, 10, 5, random_state=1).train
    protocol = _protocol(tasks)
    rng = np.random.default_rng(4)
    square = rng.normal(size=(6, 6))
    noise = (1e6 * (square + square.T) / 2,)
    home, public = lead(protocol, tasks, mechanisms=(SymmetricGaussian(1.0, 1e6),), noise=noise)
    assert public.candidates(0) == []
    own = protocol.finish(started(protocol, tasks), protocol.opening())
    np.testing.assert_allclose(protocol.finish(home, public), own, rtol=1e-9)


def test_a_public_clip_needs_one_release_and_several_classes_are_one_message():
    rng = np.random.default_rng(6)
    labels = np.repeat(np.arange(30), 12)
    X = rng.normal(size=(360, 4))
    y = (X @ rng.normal(size=(4, 3))).argmax(axis=1).astype(float)
    tasks = TaskSet.from_arrays(X, y, labels)
    protocol = _protocol(tasks, loss=LogisticLoss(), n_outputs=3, clip=5.0)
    assert len(protocol.rounds()) == 1
    _, message = bounded(protocol, started(protocol, tasks), protocol.opening(), Call(0, 0))
    assert message.shape == (30, 3, 7)
    assert (np.linalg.norm(message[..., :4].reshape(30, -1), axis=1) <= 1).all()
    assert (np.linalg.norm(message.reshape(30, -1), axis=1) <= moment_bound().radius).all()
    home, public = lead(protocol, tasks)
    sent = np.stack([fit.coef for fit in home.own], axis=1)
    lengths = np.linalg.norm(sent.reshape(30, -1), axis=1)
    clipped = sent * np.minimum(1, 5.0 / lengths)[:, None, None]
    mean = clipped.mean(axis=0)
    assert public.mean is not None
    cosine = (public.mean * mean).sum() / np.linalg.norm(public.mean) / np.linalg.norm(mean)
    assert cosine > 0.999
    assert np.linalg.norm(public.mean) == pytest.approx(np.linalg.norm(mean), rel=0.05)
