"""Private cohorts of neural models: accounting, one door, taking up again, nobody harmed."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra neural")
optax = pytest.importorskip("optax", reason="needs the extra neural")

import tacit  # noqa: E402
from tacit.engines import Batches, conduct  # noqa: E402
from tacit.errors import InvalidInput, PrivacyLeak  # noqa: E402
from tacit.neural import (  # noqa: E402
    CohortProtocol,
    Ending,
    FixedRadius,
    LocalTraining,
    multinomial_logistic,
)
from tacit.neural._outputs import outputs_of  # noqa: E402
from tacit.privacy import Billboard, Ledger, SeededEntropy  # noqa: E402
from tacit.privacy.mechanisms import Gaussian, PoissonGaussian  # noqa: E402
from tacit.privacy.schedule import Everyone, FixedSize, Poisson, Schedule  # noqa: E402
from tacit.privacy.unit import Adjacency, Unit  # noqa: E402
from tacit.tasks import TaskSet  # noqa: E402

M, D, K, TURNS = 12, 5, 3, 4
TRAINING = LocalTraining(multinomial_logistic(D, K), batch_size=4)
COHORTS = (Everyone(), Poisson(0.5), FixedSize(5))


def arrays(seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(M), rng.integers(3, 9, M))
    X = rng.standard_normal((len(task), D))
    W = rng.standard_normal((D, K)) + 0.3 * rng.standard_normal((M, D, K))
    return X, np.einsum("nd,ndk->nk", X, W[task]).argmax(axis=1), task


def protocol_of(
    cohort=COHORTS[1], *, personal=True, ending=None, server=None, turns=TURNS, radius=None
):
    return CohortProtocol(
        TRAINING,
        M,
        turns,
        FixedRadius(1.0) if radius is None else radius,
        optax.sgd(1.0) if server is None else server,
        cohort=cohort,
        personal=personal,
        ending=Ending(ending, epochs=2),
    )


def run(protocol, tasks, *, billboard=None, homes=None, max_rows=None, epsilon=8.0):
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=epsilon, delta=1e-5, n_tasks=M)
    entropy = SeededEntropy(3)
    billboard = Billboard() if billboard is None else billboard
    parties = Batches(
        protocol, tasks, entropy=entropy.child("homes"), max_rows=max_rows, homes=homes
    )
    outcome = conduct(protocol, schedule, parties, billboard, entropy=entropy.child("curator"))
    return np.concatenate(list(parties.finish(outcome.public))), billboard, outcome


def tasks_of(seed=0, change=None):
    X, y, task = arrays(seed)
    if change is not None:
        X[task == change] = 7.0 - 3 * X[task == change]
    return TaskSet.from_arrays(X, y, task)


@pytest.mark.parametrize("cohort", COHORTS, ids=repr)
def test_planned_charged_and_stated_are_one(cohort):
    given = {"Everyone": "everyone", "Poisson": 0.5, "FixedSize": 5}[type(cohort).__name__]
    ledger = Ledger(":memory:", epsilon=2.0, delta=1e-5)
    model = tacit.PrivateFedAvgClassifier(
        2.0, delta=1e-5, n_rounds=TURNS, cohort=given, fine_tune=None, ledger=ledger
    )
    plan = model.plan(M, D, n_outputs=K)
    X, y, task = arrays()
    model.fit(X, y, tasks=task)
    stated = model.privacy_
    assert plan.adjacency == stated.adjacency
    assert stated.holds
    assert plan.releases[0].turns == stated.n_releases == len(model.history_) == TURNS
    assert {row["scale"] for row in model.history_} == {plan.releases[0].scale}
    assert ledger.spent().epsilon == pytest.approx(stated.epsilon, rel=1e-9)
    assert model.history_[-1]["epsilon"] == stated.epsilon <= 2.0
    by_round = [row["epsilon"] for row in model.history_]
    assert by_round == sorted(by_round)
    zero_out = isinstance(cohort, Poisson)
    assert stated.adjacency == (Adjacency.ZERO_OUT if zero_out else Adjacency.REPLACE_ONE)


@pytest.mark.parametrize(("rate", "turns"), [(0.1, 20), (0.5, 4)])
def test_epsilon_of_a_sampled_run_lies_between_the_two_ends_of_the_reference(rate, turns):
    from dp_accounting import dp_event
    from dp_accounting.pld import privacy_loss_distribution as pld

    protocol = protocol_of(Poisson(rate), turns=turns)
    schedule = Schedule.calibrate(protocol.rounds(), epsilon=1.0, delta=1e-5)
    event = schedule.mechanisms[0].event
    assert isinstance(event, dp_event.PoissonSampledDpEvent)
    ours = schedule.cost(Unit.TASK, 1e-5).epsilon

    def reference(*, pessimistic):
        one = pld.from_gaussian_mechanism(
            event.event.noise_multiplier,
            sampling_prob=event.sampling_probability,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-4,
        )
        return one.self_compose(turns).get_epsilon_for_delta(1e-5)

    assert reference(pessimistic=False) <= ours <= 1.005 * reference(pessimistic=True)
    assert ours <= 1.0


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
@pytest.mark.parametrize("cohort", [Everyone(), FixedSize(5)], ids=repr)
def test_unsampled_turns_cost_what_the_closed_form_says(cohort, epsilon):
    import mpmath

    delta = 1e-5
    schedule = Schedule.calibrate(protocol_of(cohort).rounds(), epsilon=epsilon, delta=delta)
    with mpmath.workdps(50):
        mu = mpmath.sqrt(TURNS) / mpmath.mpf(schedule.mechanisms[0].noise_multiplier)

        def spent(cost):
            low = mpmath.ncdf(-mu / 2 - cost / mu)
            return mpmath.ncdf(mu / 2 - cost / mu) - mpmath.exp(cost) * low

        exact = mpmath.findroot(lambda cost: spent(cost) - mpmath.mpf(delta), epsilon)
    assert schedule.cost(Unit.TASK, delta).epsilon == pytest.approx(float(exact), rel=1e-9)
    assert float(exact) == pytest.approx(epsilon, rel=1e-9)  # and the budget is used up
    assert schedule.mechanisms[0].reach == 2.0


def test_a_fixed_size_or_a_visible_cohort_is_never_amplified():
    rounds = protocol_of(FixedSize(5)).rounds()
    with pytest.raises(PrivacyLeak, match="accounted as a Poisson cohort"):
        Schedule(rounds, (PoissonGaussian(1.0, 1.0, 5 / M),), Adjacency.ZERO_OUT)
    everyone = Schedule.calibrate(protocol_of(Everyone()).rounds(), epsilon=1.0, delta=1e-5)
    fixed = Schedule.calibrate(rounds, epsilon=1.0, delta=1e-5, n_tasks=M)
    assert fixed.mechanisms[0].scale == everyone.mechanisms[0].scale
    sampled = protocol_of(Poisson(0.5)).rounds()
    with pytest.raises(PrivacyLeak):
        Schedule(sampled, (PoissonGaussian(1.0, 1.0, 0.25),), Adjacency.ZERO_OUT)
    with pytest.raises(PrivacyLeak, match="zero-out"):
        Schedule(sampled, (PoissonGaussian(2.0, 1.0, 0.5),), Adjacency.REPLACE_ONE)
    Schedule(sampled, (Gaussian(2.0, 1.0),), Adjacency.REPLACE_ONE)


def test_members_of_a_cohort_stand_nowhere_in_public():
    told = []
    drawn = []

    class Watched(CohortProtocol):
        def speak(self, home, public, call, joined):
            drawn.append(int(joined.sum()))
            told.append(public)
            return super().speak(home, public, call, joined)

    plain = protocol_of(Poisson(0.5))
    fields = {f.name: getattr(plain, f.name) for f in dataclasses.fields(plain)}
    _, board, outcome = run(Watched(**fields), tasks_of())
    assert len(set(drawn)) > 1  # sizes differ, so there would be something to tell
    names = {"number", "round", "task", "turn"}
    assert all(set(posting.call) == names and posting.call["task"] is None for posting in board)
    assert {key for row in outcome.history for key in row} == {
        "round",
        "name",
        "mechanism",
        "scale",
    }
    for public in (*told, outcome.public):
        assert {f.name for f in dataclasses.fields(public)} == {
            "value",
            "server",
            "radius",
            "noise",
            "reach",
        }
        assert public.value.shape == (plain.layout.size,)
    assert {posting.value.shape for posting in board} == {(plain.layout.size,)}


@pytest.mark.parametrize("ending", ["auto", None, "ewc"])
@pytest.mark.parametrize("personal", [True, False])
def test_others_keep_their_bits_when_releases_are_frozen(monkeypatch, personal, ending):
    seen, post = {}, Billboard.post

    def frozen(self, value, event, **facts):
        kept = seen.setdefault(facts["call"]["number"], np.array(value))
        return post(self, kept, event, **facts)

    monkeypatch.setattr(Billboard, "post", frozen)
    protocol = protocol_of(personal=personal, ending=ending)
    before, _, first = run(protocol, tasks_of())
    after, _, second = run(protocol, tasks_of(change=4))
    others = np.arange(M) != 4
    assert np.array_equal(first.public.value, second.public.value)
    assert np.array_equal(before[others], after[others])
    if (personal and ending is None) or ending == "ewc":
        assert not np.array_equal(before[4], after[4])


def test_one_task_moves_the_sum_by_the_clip_at_most():
    protocol = protocol_of(Everyone())
    public = protocol.opening()
    bound = protocol.rounds()[0].bound
    sums = []
    for change in (None, 4):
        home = protocol.start(tasks_of(change=change), np.arange(M))
        said = protocol.speak(home, public, _call(), None)[1]
        assert said.dtype == np.float32
        sums.append(bound.total(40 * said))
    assert 0 < np.linalg.norm(sums[0] - sums[1]) <= 2.0


def _call(number=0):
    from tacit.privacy.schedule import Call

    return Call(number, 0, turn=number)


@pytest.mark.parametrize(("max_rows", "ending"), [(1, None), (30, "auto")])
def test_batches_say_and_learn_the_same_bits_as_the_stack(max_rows, ending):
    protocol = protocol_of(ending=ending)
    models, board, _ = run(protocol, tasks_of())
    cut, other, _ = run(protocol, tasks_of(), max_rows=max_rows)
    assert other.head == board.head
    assert np.array_equal(cut, models)


@pytest.mark.parametrize("cohort", COHORTS, ids=repr)
@pytest.mark.parametrize("unposted", [False, True])
def test_a_killed_run_goes_on_with_the_same_bits(tmp_path, cohort, unposted):
    """The process dies in a turn, after homes spoke and before or after the release was posted."""
    protocol = protocol_of(cohort, server=optax.adam(0.5))
    models, board, _ = run(protocol, tasks_of())

    class Killed(Exception):
        pass

    for turn in range(TURNS):
        homes = tmp_path / f"{turn}"
        begun = Billboard()
        post = begun.post

        def dying(value, event, *, last=turn, to=post, **facts):
            if facts["call"]["turn"] == last and unposted:
                raise Killed
            posting = to(value, event, **facts)
            if facts["call"]["turn"] == last:
                raise Killed
            return posting

        begun.post = dying
        with pytest.raises(Killed):
            run(protocol, tasks_of(), billboard=begun, homes=homes)
        del begun.post
        assert len(begun) == turn + (not unposted)
        again, other, _ = run(protocol, tasks_of(), billboard=begun, homes=homes)
        assert other.head == board.head
        assert np.array_equal(again, models)


def test_without_its_checkpoint_a_killed_run_would_have_ended_elsewhere():
    protocol = protocol_of(Everyone())
    models, board, _ = run(protocol, tasks_of())
    begun = Billboard()
    for posting in list(board)[:2]:
        facts = {name: getattr(posting, name) for name in ("label", "unit", "call", "seeded")}
        begun.post(posting.value, posting.event, **facts)
    again, _, _ = run(protocol, tasks_of(), billboard=begun)
    assert not np.array_equal(again, models)


def classes_of(models, X, task):
    outputs = outputs_of(TRAINING.model, protocol_of().layout.tree(models), X, task)
    return outputs.argmax(axis=1)


@pytest.mark.parametrize("value", [1e30, -1e300])
def test_a_client_that_leaves_the_finite_numbers_harms_nobody(value):
    X, y, task = arrays()
    wild = X.copy()
    wild[task == 2] = value
    protocol = protocol_of(Everyone(), ending="auto")
    models, _, outcome = run(protocol, TaskSet.from_arrays(wild, y, task), epsilon=1e6)
    assert np.isfinite(models).all()
    assert np.isfinite(outcome.public.value).all()
    settled, _, _ = run(protocol, TaskSet.from_arrays(X, y, task), epsilon=1e6)
    assert (classes_of(models, X, task) == classes_of(settled, X, task))[task != 2].mean() > 0.9


def test_the_server_divides_by_the_expected_cohort_and_reads_releases_only():
    for cohort, divisor in zip(COHORTS, (M, 0.5 * M, 5), strict=True):
        protocol = protocol_of(cohort)
        public = replace(protocol.opening(), value=np.zeros(protocol.layout.size, np.float32))
        moved = protocol.read(public, np.full(protocol.layout.size, 3.0), _call(), Gaussian(1, 1))
        np.testing.assert_allclose(moved.value, 3.0 / divisor, rtol=1e-6)


def related(m=60, n=20, seed=0):
    """Return rows of tasks that are alike, and which of them are for training."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(m), 3 * n)
    X = rng.standard_normal((len(task), D))
    W = 2 * rng.standard_normal((D, K)) + 1.5 * rng.standard_normal((m, D, K))
    scores = np.einsum("nd,ndk->nk", X, W[task]) + rng.gumbel(size=(len(task), K))
    return X, scores.argmax(axis=1), task, np.arange(len(task)) % (3 * n) < n


def test_where_the_centre_is_noise_everybody_ends_as_if_alone():
    X, y, task = arrays()
    alone = [
        tacit.NeuralMeanRegularizedClassifier(epsilon, n_rounds=2).fit(X, y, tasks=task).models_
        for epsilon in (1e-3, 2e-3)
    ]
    np.testing.assert_array_equal(*alone)


def test_alike_tasks_gain_over_learning_alone_and_over_one_model_for_all():
    X, y, task, train = related()
    given = {"random_state": 0, "classes": (0, 1, 2)}

    def score(model):
        model.fit(X[train], y[train], tasks=task[train])
        return model.score(X[~train], y[~train], tasks=task[~train])

    personal = score(tacit.NeuralMeanRegularizedClassifier(4.0, **given))
    alone = score(tacit.NeuralMeanRegularizedClassifier(1e-3, **given))
    single = score(tacit.SingleTaskClassifier(classes=(0, 1, 2)))
    shared = score(tacit.PrivateFedAvgClassifier(4.0, fine_tune=None, **given))
    assert alone > single - 0.005
    assert personal > max(alone, single, shared) + 0.01


def images(seed=0, writers=8, each=24):
    """Bars in three directions on 8 × 8 pixels, each writer with a grey of its own."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(writers), each)
    kind = rng.integers(0, 3, len(task))
    pictures = (
        0.3 * rng.standard_normal((len(task), 8, 8))
        + 0.2 * rng.random(writers)[task][:, None, None]
    )
    place = rng.integers(0, 8, len(task))
    for picture, what, where in zip(pictures, kind, place, strict=True):
        if what == 0:
            picture[where] += 1.5
        elif what == 1:
            picture[:, where] += 1.5
        else:
            picture[np.arange(8), np.arange(8)] += 1.5
    return pictures.reshape(len(task), -1), np.array(["h", "v", "d"])[kind], task


@pytest.mark.parametrize("model", ["logistic", "mlp", "cnn", "cnn1d"])
def test_every_ready_model_learns_more_than_two_classes(model):
    X, y, task = images()
    fitted = tacit.NeuralMeanRegularizedClassifier(
        float("inf"), model=model, n_rounds=6, clip=5.0, fine_tune="vanilla", fine_tune_epochs=3
    ).fit(X, y, tasks=task)
    assert fitted.score(X, y, tasks=task) > 0.75
    chances = fitted.predict_proba(X, tasks=task)
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert list(fitted.classes_) == ["d", "h", "v"]
    assert np.array_equal(fitted.classes_[chances.argmax(axis=1)], fitted.predict(X, tasks=task))


def test_a_regressor_learns_numbers_and_two_classes_have_one_score():
    X, _, task = arrays()
    y = X @ np.arange(1.0, D + 1) / D
    number = tacit.NeuralMeanRegularizedRegressor(float("inf"), n_rounds=5, clip=5.0)
    assert number.fit(X, y, tasks=task).score(X, y, tasks=task) > 0.8
    two = tacit.PrivateFedProxClassifier(float("inf"), n_rounds=5, clip=5.0)
    two.fit(X, y > 0, tasks=task)
    assert two.decision_function(X, tasks=task).shape == (len(X),)
    assert two.predict_proba(X, tasks=task).shape == (len(X), 2)
    assert two.score(X, y > 0, tasks=task) > 0.8


def test_a_model_comes_back_from_its_folder_and_a_party_gets_its_own_only(tmp_path):
    X, y, task = arrays()
    model = tacit.NeuralMeanRegularizedClassifier(5.0, n_rounds=2, classes=(0, 1, 2))
    model.fit(X, y, tasks=task)
    model.save(tmp_path / "all")
    again = tacit.load(tmp_path / "all")
    chances = model.predict_proba(X, tasks=task)
    assert np.array_equal(again.predict_proba(X, tasks=task), chances)
    assert again.history_ == model.history_
    model.save(tmp_path / "own", task=3)
    own = tacit.load(tmp_path / "own")
    assert own.models_.shape == (1, model.models_.shape[1])
    mine = task == 3
    assert np.array_equal(own.predict_proba(X[mine], tasks=task[mine]), chances[mine])
    again.fit_task(X[mine], y[mine], name="late")
    assert again.predict(X[mine], tasks=["late"] * mine.sum()).shape == (mine.sum(),)


def test_functions_of_your_own_are_given_again_after_loading(tmp_path):
    X, y, task = arrays()
    network = multinomial_logistic(D, K)
    model = tacit.PrivateFedAvgClassifier(5.0, model=network, n_rounds=1, fine_tune=None)
    model.fit(X, y, tasks=task).save(tmp_path / "m")
    again = tacit.load(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())
    with pytest.raises(InvalidInput, match="set_params"):
        again.predict(X, tasks=task)
    again.set_params(model=network)
    assert np.array_equal(again.predict(X, tasks=task), model.predict(X, tasks=task))


@pytest.mark.parametrize(
    "wrong",
    [
        {"cohort": "some"},
        {"cohort": 1.5},
        {"cohort": 0},
        {"cohort": M + 1},
        {"cohort": True},
        {"model": "resnet"},
        {"model": "cnn"},
        {"server": "fancy"},
        {"fine_tune": "more"},
        {"clip": float("inf")},
        {"n_rounds": 0},
        {"learning_rate": 0.0},
    ],
    ids=repr,
)
def test_bad_parameters_are_named_and_change_nothing(wrong):
    X, y, task = arrays()
    model = tacit.PrivateFedAvgClassifier(**wrong)
    (name,) = wrong
    with pytest.raises(InvalidInput, match=name):
        model.fit(X, y, tasks=task)
    assert not hasattr(model, "models_")


def test_many_numbers_of_noise_are_not_heard_and_a_weak_centre_is():
    from tacit.neural import LocalTraining, multinomial_logistic

    protocol = replace(protocol_of(), training=LocalTraining(multinomial_logistic(49, 62)))
    size, weights = protocol.layout.size, np.ones(1)
    rng = np.random.default_rng(0)
    direction = rng.standard_normal(size)
    direction /= np.linalg.norm(direction)

    def heard(signal):
        """Return how often a centre is heard beside noise of squared norm ``size``."""
        found = 0
        for _ in range(200):
            value = rng.standard_normal(size) + np.sqrt(signal * size) * direction
            noise, reach = np.array([float(size)]), 10.0 * np.sqrt(size)
            public = replace(protocol.opening(), value=value.astype(np.float32), noise=noise)
            found += protocol.heard(replace(public, reach=reach), weights)
        return found / 200

    assert heard(0.0) < 0.06  # half a standard deviation alone lets three in ten pass
    assert heard(0.15) > 0.9
