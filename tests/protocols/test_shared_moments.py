"""Released moments: what rows say, what is read off the sums, what sites make of it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.linear_model import LogisticRegression

import tacit
from tacit.audit import replace_row, replay_estimator
from tacit.audit.replay import Staged, search
from tacit.engines import Batches, conduct
from tacit.errors import InvalidInput
from tacit.losses import LogisticLoss, SquaredLoss
from tacit.numerics.moment_prior import (
    Likely,
    Moments,
    _level,
    agreement,
    evidence_by_site,
    shared_models,
)
from tacit.privacy import Billboard
from tacit.privacy.bounds import MeansAndSquares, RowMessages
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.schedule import Call, Schedule
from tacit.privacy.unit import Adjacency, Norm
from tacit.protocols._moment_frame import Frame
from tacit.protocols.shared_moments import SharedMomentsProtocol, moments_bound
from tacit.tasks import TaskSet

AGGREGATIONS = ("untrusted", "trusted", "secure")


def sites(n_sites=8, n_rows=60, d=5, *, classes=False, apart=0.1, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_sites), n_rows)
    W = rng.standard_normal(d) + apart * rng.standard_normal((n_sites, d))
    X = rng.standard_normal((len(task), d))
    score = np.einsum("nd,nd->n", X, W[task])
    if classes:
        y = (rng.random(len(task)) < 1 / (1 + np.exp(-2 * score))).astype(float)
    else:
        y = (score + rng.standard_normal(len(task))) / 8
    return TaskSet.from_arrays(X, y, task)


def protocol_of(tasks, aggregation="untrusted", **options):
    settings = {"loss": SquaredLoss(), "row_norm": math.sqrt(tasks.n_features)} | options
    counts = tuple(int(n) for n in tasks.counts)
    return SharedMomentsProtocol(
        n_features=tasks.n_features, counts=counts, aggregation=aggregation, **settings
    )


def run(protocol, tasks, change=lambda release, call: release, epsilon=math.inf):
    """Return the public state of a run whose releases may be tampered with, and the home."""
    schedule = Schedule.calibrate(
        protocol.rounds(), epsilon=epsilon, delta=1e-5, n_tasks=len(protocol.counts)
    )
    public, home = protocol.opening(), protocol.start(tasks, np.arange(tasks.n_tasks))
    for number, (round, mechanism) in enumerate(
        zip(schedule.rounds, schedule.mechanisms, strict=True)
    ):
        call = Call(number, number)
        home, rows = protocol.speak(home, public, call, None)
        sums = round.bound.by_task(rows)
        value = sums if protocol.by_site else sums.sum(axis=0)
        release = mechanism.release(value, SeededEntropy(number)).value
        public = protocol.read(public, change(np.array(release), call), call, mechanism)
    return public, home


@pytest.mark.parametrize("aggregation", ["untrusted", "trusted"])
@pytest.mark.parametrize(("classes", "n_moments"), [(False, 2), (True, 2)])
def test_no_replaced_row_moves_a_sum_beyond_the_declaration(aggregation, classes, n_moments):
    tasks = sites(4, 6, 3, classes=classes)
    loss = LogisticLoss() if classes else SquaredLoss()
    protocol = protocol_of(tasks, aggregation, loss=loss, n_moments=n_moments)
    schedule = Schedule.calibrate(
        protocol.rounds(), epsilon=1.0, delta=1e-5, n_tasks=len(protocol.counts)
    )
    found = search(lambda _: Staged(protocol, schedule), tasks, binary=classes, n_steps=30)
    found.check()
    assert found.worst > 0.5
    assert all(one <= 2 * math.sqrt(2) * (1 + 1e-9) for one in found.declared)


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_an_estimator_builds_nothing_from_private_rows(aggregation):
    tasks = sites(4, 30, 3)
    estimator = tacit.SharedMomentsRegressor(epsilon=5.0, aggregation=aggregation)
    neighbour = replace_row(tasks, 7, np.full(3, 1e6), -1e6)
    result = replay_estimator(estimator, tasks, neighbour)
    result.check()
    assert result.worst > 0.1


def test_means_and_squares_move_by_two_roots_of_two_and_that_is_attained():
    bound = MeansAndSquares(1.0, 3)
    rng = np.random.default_rng(0)
    limit = bound.sensitivity(Norm.L2, Adjacency.REPLACE_ONE)
    rows = bound(rng.standard_normal((400, 5)) * 10.0 ** rng.uniform(-2, 2, (400, 1)))
    sums = np.stack([bound.aggregate(row[None]) for row in rows])
    apart = np.linalg.norm(sums[:, None] - sums[None], axis=2)
    assert apart.max() <= limit
    ends = np.stack(
        [bound.aggregate(bound(s * np.eye(1, 5) + s * np.eye(1, 5, 4))) for s in (1, -1)]
    )
    assert np.linalg.norm(ends[1] - ends[0]) == pytest.approx(2 * math.sqrt(2), rel=1e-3)
    assert limit == pytest.approx(2 * math.sqrt(2), rel=1e-9)
    assert np.linalg.norm(sums, axis=1).max() <= bound.sensitivity("l2", "zero-out")
    assert (
        bound.sensitivity("l1", "replace-one", dimension=5)
        >= np.abs(sums[:, None] - sums[None]).sum(axis=2).max()
    )


def test_the_intercepts_coordinate_is_inside_the_clip():
    frame = Frame.of_means(SquaredLoss(), 1.0, 1.0, (np.zeros(3), np.zeros(1)), (0.01, 0.01))
    said = frame.speak(np.full((1, 3), 100.0), np.array([[50.0]]))
    assert np.linalg.norm(said[0, :4]) <= 1 + 1e-12
    assert np.linalg.norm(said) <= moments_bound().radius + 1e-12


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_without_noise_the_released_model_is_the_common_one(aggregation):
    tasks = sites(20, 200, 5, apart=0.0)
    public, _ = run(protocol_of(tasks, aggregation, row_norm=8.0), tasks)
    coef, _ = public.frame.model(shared_models(public.everybody()).bayes[0])
    own = np.linalg.lstsq(tasks.X, np.asarray(tasks.y), rcond=None)[0]
    # Clipped rows and residuals bend it a little.
    assert coef[0] @ own > 0.995 * np.linalg.norm(coef[0]) * np.linalg.norm(own)
    assert np.linalg.norm(coef[0]) == pytest.approx(np.linalg.norm(own), rel=0.15)


def test_a_second_newton_step_comes_nearer_to_the_logistic_fit():
    tasks = sites(20, 300, 4, classes=True, apart=0.0)
    X, y = tasks.X, np.asarray(tasks.y)
    exact = LogisticRegression(C=1e6).fit(X, y).coef_[0]
    errors = []
    for n_moments in (1, 2):
        options = {"loss": LogisticLoss(), "n_moments": n_moments, "row_norm": 8.0}
        public, _ = run(protocol_of(tasks, "trusted", **options), tasks)
        coef, _ = public.frame.model(shared_models(public.everybody()).ridge[0])
        errors.append(np.linalg.norm(coef[0] - exact))
    assert errors[1] < 0.8 * errors[0]


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_what_a_site_is_told_does_not_contain_its_own_rows(aggregation):
    tasks = sites(3, 50, 4, apart=2.0)
    protocol = protocol_of(tasks, aggregation, n_moments=1)
    public, home = run(protocol, tasks)
    others = shared_models(protocol._others(home, public))
    # The sums of the first two alone, in the same frame.
    if protocol.by_site:
        rest = public.sites.weighted(public.weights).at(np.arange(2)).total()
    else:
        said = RowMessages(protocol._moments_of(home, public.frame), tasks.offsets)
        counts = tasks.counts[:2].astype(float)
        sums = moments_bound().by_task(said)[:2]
        rest = Moments.of_matrices(sums, 1, counts, counts**2, 0.0)
        rest = rest.weighted(np.full(2, public.weights[0])).total()
    np.testing.assert_allclose(others.bayes[2], shared_models(rest).bayes[0], rtol=1e-6, atol=1e-9)


def test_a_site_that_did_not_speak_reads_the_sums_of_all():
    tasks = sites(4, 50, 3)
    protocol = protocol_of(tasks)
    public, _ = run(protocol, tasks)
    late = protocol.start(tasks.take_tasks([0]), np.array([-1]))
    told = protocol._others(late, public)
    np.testing.assert_allclose(told.rows, public.everybody().rows)
    assert np.isfinite(protocol.finish(late, public)).all()


HOSTILE = {
    "huge": lambda release: 1e9 * np.ones_like(release),
    "not a number": lambda release: np.full_like(release, np.nan),
    "infinite": lambda release: np.full_like(release, -np.inf),
    "flipped": lambda release: -release,
    "constant": lambda release: np.full_like(release, 30.0),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_one_hostile_release_hardly_moves_what_the_others_are_told(kind):
    tasks = sites(12, 200, 4)
    protocol = protocol_of(tasks)

    def tampered(release, call):
        release[0] = HOSTILE[kind](release[0])
        return release

    clean, _ = run(protocol, tasks, epsilon=20.0)
    public, home = run(protocol, tasks, tampered, epsilon=20.0)
    first, second = (
        state.frame.model(shared_models(state.everybody()).bayes[0])[0] for state in (clean, public)
    )
    assert np.linalg.norm(second - first) < 0.2 * np.linalg.norm(first)
    assert np.isfinite(protocol.finish(home, public)).all()


def test_a_site_of_other_opinion_loses_its_vote_and_the_usual_ones_keep_theirs():
    tasks = sites(12, 200, 4)
    y = np.asarray(tasks.y).copy()
    y[tasks.task_of_row == 0] *= -3
    public, _ = run(protocol_of(tasks), tasks.replace(y=y), epsilon=20.0)
    votes = agreement(public.sites, shared_models(public.everybody()))
    assert votes[0] < 0.3
    assert np.median(votes[1:]) > 0.5


def test_more_rows_than_add_up_exactly_are_refused_where_all_are_added_up():
    with pytest.raises(InvalidInput, match="add up exactly"):
        SharedMomentsProtocol(SquaredLoss(), 3, (1 << 21, 5), aggregation="trusted")


def moments_of(sums, public):
    sites = public.sites
    return Moments.of_matrices(sums, 1, sites.count, sites.apart, float(sites.variance[0]))


def evidence_of(tasks, epsilon):
    protocol = protocol_of(tasks, "trusted", n_moments=1)
    public, _ = run(protocol, tasks, epsilon=epsilon)
    return float(public.models().gain[0])


def test_levels_are_no_evidence_for_common_slopes():
    rng = np.random.default_rng(0)
    tasks = sites(20, 100, 4)
    noise = rng.standard_normal(len(tasks.X)) / 8
    # Half of the sites far above the others: means centre it, their rows do not.
    level = noise + 0.3 * (tasks.task_of_row % 2) + 0.5 * (tasks.X[:, 0] > 9)
    assert evidence_of(tasks, 3.0) > 2.5
    assert evidence_of(tasks.replace(y=level), 3.0) < 0


@pytest.mark.parametrize(("epsilon", "least"), [(10.0, 3.0), (1.0, 1.0), (0.01, -0.1)])
def test_evidence_is_for_a_common_model_or_against_it_by_as_much_as_noise_lets_through(
    epsilon, least
):
    rng = np.random.default_rng(0)
    alike, unlike = sites(60, 40, 6), sites(60, 40, 6, apart=30.0)
    assert evidence_of(alike, epsilon) > least
    y = np.asarray(unlike.y) / np.asarray(unlike.y).std() * 0.2
    assert evidence_of(unlike.replace(y=y), epsilon) < (0.1 if epsilon < 1 else -1.0)
    labels = rng.permutation(np.asarray(alike.y))
    assert evidence_of(alike.replace(y=labels), epsilon) < (0.1 if epsilon < 1 else -1.0)


def by_site(tasks, epsilon, **options):
    protocol = protocol_of(tasks, n_moments=1, **options)
    public, _ = run(protocol, tasks, epsilon=epsilon)
    return public.gain(apart=True)


def test_sites_that_agree_speak_for_a_common_model_and_one_large_site_does_not():
    alike, unlike = sites(12, 80, 4), sites(12, 80, 4, apart=30.0)
    y = np.asarray(unlike.y) / np.asarray(unlike.y).std() * 0.2
    assert by_site(alike, 20.0)[-1] > 5
    assert by_site(unlike.replace(y=y), 20.0)[-1] < -2
    # Most of all rows at one site: its own model stands out of every sum, and is nobody else's.
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(12), [2000] + [40] * 11)
    X = rng.standard_normal((len(task), 4))
    W = rng.standard_normal((12, 4)) * 0.1
    large = TaskSet.from_arrays(X, np.einsum("nd,nd->n", X, W[task]), task)
    public, _ = run(protocol_of(large, n_moments=1), large, epsilon=20.0)
    assert public.gain(apart=True)[-1] < float(public.models().gain[0])
    assert public.gain(apart=True)[-1] < 1


def test_evidence_that_a_site_sees_leaves_its_own_numbers_out():
    tasks = sites(5, 60, 3)
    public, _ = run(protocol_of(tasks, n_moments=1), tasks, epsilon=30.0)
    seen = public.gain(apart=True)
    heard = np.ones(5)
    for site in range(5):
        others = heard.copy()
        others[site] = 0.0
        alone = evidence_by_site(
            public.sites, public.everybody(), public.models(), public.frame.likely, others
        )
        assert alone[-1] == pytest.approx(seen[site], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_evidence_by_site_is_the_ratio_of_two_gaussian_densities(n_outputs):
    rng = np.random.default_rng(0)
    p, q = 4, 3
    count = np.array([10.0, 20.0, 40.0, 5.0])
    rows = count[:, None, None] * np.diag([0.5, 0.2, 0.1])
    answers = rng.standard_normal((p, q, n_outputs)) * count[:, None, None] * 0.1
    moments = Moments(rows, answers, 0.3 * count, count, count, count**2, np.full(p, 2.0))
    whole, likely = moments.total(), Likely()
    models = shared_models(whole, likely)
    found = evidence_by_site(moments, whole, models, likely, np.ones(p))[-1]
    values, vectors = models.values[0], models.basis[0]
    seen = np.einsum("ji,pjk->pik", vectors, answers) / count[:, None, None]
    level = np.clip(_level(whole, likely)[0], 0, 1)
    prior = 1.4 * likely.share * level / values.sum() * values**2
    chance = models.noise[0] * values / count[:, None] + 2.0 / count[:, None] ** 2 + 1e-12

    def density(common, share):
        total = 0.0
        for i in range(q):
            size = share * prior[i]
            spread = np.diag((1 - common) * size + chance[:, i]) + common * size
            for k in range(n_outputs):
                total += multivariate_normal(np.zeros(p), spread).logpdf(seen[:, i, k])
        return total

    shares = np.geomspace(0.02, 4.0, 16)
    hyper = -0.5 * np.log(shares) ** 2
    together = [
        hyper[a] + density(common, share)
        for a, share in enumerate(shares)
        for common in (0.25, 0.5, 0.75, 0.95)
    ]
    single = [hyper[a] + density(0.0, share) for a, share in enumerate(shares)]
    expected = logsumexp(together) - np.log(4) - logsumexp(single)
    assert found == pytest.approx(expected, rel=1e-8)


def test_moments_of_what_the_first_model_left_speak_for_it_or_against_it():
    tasks = sites(20, 100, 4)
    public, _ = run(protocol_of(tasks, "trusted"), tasks, epsilon=3.0)
    assert public.evidence > 2.5
    assert float(public.models().gain[0]) > 2.5
    # The same frame, whose model nothing speaks for: its sums are those of rows that it misleads.
    rng = np.random.default_rng(0)
    other = tasks.replace(y=rng.permutation(np.asarray(tasks.y)))
    said = RowMessages(public.frame.speak(other.X, np.asarray(other.y)[:, None]), tasks.offsets)
    sums = moments_bound().by_task(said).sum(axis=0, keepdims=True)
    misled = replace(public, sites=replace(public.sites, **vars(moments_of(sums, public))))
    assert float(misled.models().gain[0]) < 0


def test_rare_labels_under_loud_noise_give_no_steep_model():
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(20), 30)
    tasks = TaskSet.from_arrays(rng.standard_normal((600, 8)), 1.0 * (rng.random(600) < 0.06), task)
    protocol = protocol_of(tasks, loss=LogisticLoss(), n_moments=1)
    public, _ = run(protocol, tasks, epsilon=1.0)
    models = public.models()
    for shared in (models.bayes[0], models.ridge[0]):
        coef, _ = public.frame.model(shared)
        assert np.std(tasks.X @ coef[0]) < 1.0


def test_a_model_of_clipped_rows_is_flatter_for_raw_ones():
    frame = Frame.of_means(SquaredLoss(), 2.0, 1.0, (np.zeros(4), np.zeros(1)), (0.8, 0.1))
    rows = sites(3, 200, 4)
    scale = np.array([0.5, 10.0, 1e300])[rows.task_of_row]
    kept = frame.kept(rows.replace(X=rows.X * scale[:, None]))
    assert kept[0] == 1.0
    assert 0.05 < kept[1] < 0.2
    assert kept[2] == 0.0


def test_priors_hold_less_where_rows_of_a_site_spread_less_than_rows_may():
    frame = Frame.of_means(SquaredLoss(), 2.0, 1.0, (np.zeros(4), np.zeros(1)), (0.8, 0.1))
    rows = sites(5, 200, 4)
    scale = np.array([1.0, 0.05, 0.025, 0.0, 1e300])[rows.task_of_row]
    far = rows.replace(X=rows.X * scale[:, None] + 100 * (rows.task_of_row < 4)[:, None])
    room = frame.room(far, intercept=True)
    assert room[0] == room[4] == 1.0
    assert room[1] / room[2] == pytest.approx(16, rel=0.3)  # the square of a spread, in squares
    assert room[1] < 0.01
    assert room[3] == 1e-6
    np.testing.assert_array_equal(frame.room(far, intercept=False), 1.0)
    one = far.take_tasks([1])
    assert frame.room(one, intercept=True)[0] == room[1]


def test_features_count_by_the_directions_they_are_likely_to_have():
    known = []
    for d in (3, 100):
        protocol = SharedMomentsProtocol(SquaredLoss(), d, (50,) * 16)
        schedule = Schedule.calibrate(protocol.rounds(), epsilon=1.0, delta=1e-5, n_tasks=16)
        known.append(protocol.information(schedule))
    assert known[0] / known[1] == pytest.approx(16.6 / 3.05, rel=0.01)


def test_information_counts_rows_once_at_sites_and_all_together_in_sums():
    tasks = sites(16, 50, 3)
    found = {}
    for aggregation in ("untrusted", "trusted"):
        protocol = protocol_of(tasks, aggregation)
        schedule = Schedule.calibrate(
            protocol.rounds(), epsilon=1.0, delta=1e-5, n_tasks=len(protocol.counts)
        )
        found[aggregation] = protocol.information(schedule)
    assert found["trusted"] == pytest.approx(4 * found["untrusted"])
    exact = Schedule.calibrate(protocol.rounds(), epsilon=math.inf, delta=0.0)
    assert replace(protocol, n_moments=2).information(exact) == math.inf


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("classes", [False, True])
def test_sites_say_and_learn_the_same_bits_in_one_stack_and_on_their_own(aggregation, classes):
    tasks = sites(5, 12, 3, classes=classes)
    loss = LogisticLoss() if classes else SquaredLoss()
    protocol = protocol_of(tasks, aggregation, loss=loss)
    schedule = Schedule.calibrate(
        protocol.rounds(), epsilon=50.0, delta=1e-5, n_tasks=len(protocol.counts)
    )
    found = []
    for max_rows in (None, 30, 1):
        entropy, billboard = SeededEntropy(3), Billboard()
        parties = Batches(protocol, tasks, entropy=entropy.child("homes"), max_rows=max_rows)
        outcome = conduct(protocol, schedule, parties, billboard, entropy=entropy.child("curator"))
        found.append((billboard.head, np.concatenate(list(parties.finish(outcome.public)))))
    for head, models in found[1:]:
        assert head == found[0][0]
        assert np.array_equal(models, found[0][1])
