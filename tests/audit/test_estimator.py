"""Auditing whole fits: what the others see, and nothing of the canary's own."""

import dataclasses

import numpy as np
import pytest

import tacit
from tacit.audit import audit_at_worst, audit_estimator, audit_in_one_run, canary_pairs
from tacit.audit.canary import pulling, quiet
from tacit.audit.estimator import fit_on, seen_by_others
from tacit.audit.one_run import hide
from tacit.errors import InvalidInput
from tacit.privacy.mechanisms import Gaussian
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet


class Quiet(Gaussian):
    """A hundredth of the noise for the price of all of it."""

    name = "quiet"

    @property
    def scale(self):
        return super().scale / 100


class Leaking(tacit.MeanRegularizedRegressor):
    """Calibrates for epsilon, then adds a hundredth of the noise and claims epsilon still."""

    def _schedule(self, protocol, sizes):
        made = super()._schedule(protocol, sizes)
        quiet = tuple(Quiet(one.sensitivity, one.noise_multiplier) for one in made.mechanisms)
        return dataclasses.replace(made, mechanisms=quiet)


def test_a_sound_estimator_is_not_refuted_and_the_attack_bites(tasks):
    estimator = tacit.MeanRegularizedRegressor(epsilon=10.0, clip=1.0)
    result = audit_estimator(estimator, tasks, n_trials=400, random_state=0)
    assert not result.violated
    assert result.epsilon_lower > 0.5
    assert result.claimed_epsilon == pytest.approx(10.0)
    assert result.mu_lower is not None


def test_an_estimator_that_adds_too_little_noise_is_caught(tasks):
    result = audit_estimator(Leaking(epsilon=0.5, clip=1.0), tasks, n_trials=72, random_state=0)
    assert result.violated
    assert result.claimed_epsilon == pytest.approx(0.5)


def test_the_adversary_never_sees_the_canarys_own_model(tasks):
    model = fit_on(tacit.MeanRegularizedRegressor(n_rounds=1, epsilon=1.0), tasks, 0)
    *releases, others = seen_by_others(model, task=2)
    assert len(releases) == len(model.billboard_)
    assert others.shape == (tasks.n_tasks - 1, tasks.n_features + 1)
    assert not np.isin(model.coef_[2], others).any()
    np.testing.assert_array_equal(others[0, :-1], model.coef_[0])
    assert len(seen_by_others(model, task=None)[-1]) == tasks.n_tasks


def test_a_model_released_itself_is_audited_by_row(labelled_tasks):
    one = TaskSet.from_arrays(labelled_tasks.X[:30], labelled_tasks.y[:30])
    estimator = tacit.PrivateLogisticRegression(epsilon=5.0)
    result = audit_estimator(estimator, one, n_trials=150, random_state=0)
    assert not result.violated
    assert result.pair in ("one row answered both ways", "a row against one elsewhere")


def test_a_view_and_a_pair_of_ones_own_can_be_used(tasks):
    pair = canary_pairs(tasks, task=1)[1]
    result = audit_estimator(
        tacit.MeanRegularizedRegressor(n_rounds=1, epsilon=10.0),
        tasks,
        pair=(pair.first, pair.second),
        view=lambda model: model.billboard_.read(0),
        n_trials=80,
        random_state=0,
    )
    assert result.pair == "the given pair"
    assert not result.violated


def test_nothing_private_is_nothing_to_audit(tasks):
    with pytest.raises(InvalidInput, match="claims no privacy"):
        audit_estimator(tacit.PooledRegressor(), tasks, n_trials=10)


def test_single_task_models_tell_the_others_nothing(tasks):
    result = audit_estimator(tacit.SingleTaskRegressor(), tasks, n_trials=20, random_state=0)
    assert result.claimed_epsilon == 0
    assert not result.violated
    assert result.tightness == 1


def test_loud_canaries_reach_the_clip_and_quiet_ones_say_nothing(tasks, labelled_tasks):
    for data, binary in ((tasks, False), (labelled_tasks, True)):
        direction = np.eye(4)[1]
        loud = pulling(12, direction, row_norm=2.0, reach=1e3, binary=binary)
        silent = quiet(12, direction, row_norm=2.0, binary=binary)
        kind = tacit.SingleTaskClassifier if binary else tacit.SingleTaskRegressor
        both = kind().fit(
            np.concatenate([loud[0], silent[0]]),
            np.concatenate([loud[1], silent[1]]),
            tasks=np.repeat([0, 1], 12),
        )
        assert np.linalg.norm(both.coef_[0]) > 1
        assert abs(both.coef_[0] @ direction) == pytest.approx(np.linalg.norm(both.coef_[0]))
        assert np.linalg.norm(both.coef_[1]) < 1e-6
        assert len(canary_pairs(data, unit=Unit.ROW)) == 3


def test_a_canary_must_be_one_of_the_tasks(tasks):
    with pytest.raises(InvalidInput, match="task=8"):
        canary_pairs(tasks, task=8)
    with pytest.raises(InvalidInput, match="no targets"):
        canary_pairs(TaskSet.from_arrays(tasks.X, None, tasks.task_of_row))


def wide_tasks(n_tasks=120, n_features=60):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(n_tasks), 4)
    X = rng.standard_normal((len(task), n_features))
    return TaskSet.from_arrays(X, rng.standard_normal(len(task)), task)


def test_one_run_catches_too_little_noise_and_no_more():
    tasks = wide_tasks()
    leaking = audit_in_one_run(
        Leaking(epsilon=0.5, clip=1.0), tasks, confidence=0.99, random_state=0
    )
    assert leaking.method == "one-run"
    assert leaking.violated
    sound = audit_in_one_run(
        tacit.MeanRegularizedRegressor(epsilon=0.5, clip=1.0),
        tasks,
        confidence=0.99,
        random_state=0,
    )
    assert not sound.violated


def test_hidden_canaries_replace_the_first_tasks_only(tasks):
    directions = np.eye(4)[:2]
    hidden = hide(tasks, directions, np.array([True, False]))
    rest = slice(int(tasks.offsets[2]), None)
    np.testing.assert_array_equal(hidden.X[rest], tasks.X[rest])
    assert np.abs(hidden.y[: tasks.offsets[1]]).min() > 100
    assert not hidden.y[tasks.offsets[1] : tasks.offsets[2]].any()


@pytest.mark.parametrize("options", [{"n_canaries": 9}, {"n_guesses": 99}, {"n_canaries": 0}])
def test_impossible_one_run_audits_are_refused(options, tasks):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        audit_in_one_run(tacit.MeanRegularizedRegressor(n_rounds=1), tasks, **options)


def test_an_attacker_who_knows_the_data_sees_more_and_does_not_refute_a_sound_estimator(tasks):
    estimator = tacit.MeanRegularizedRegressor(epsilon=10.0, clip=1.0)
    two = [tasks.take_tasks([0, 1])]
    result = audit_at_worst(estimator, two, n_trials=800)
    assert not result.violated
    assert result.epsilon_lower > 5
    assert audit_at_worst(Leaking(epsilon=1.0, clip=1.0), two, n_trials=200).violated


def conversing_tasks(binary=False):
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(24), 6)
    X = rng.standard_normal((len(task), 2))
    y = X @ [1.0, -1.0] + 0.3 * rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, (y > 0) + 0.0 if binary else y, task)


def test_a_conversation_of_many_rounds_is_attacked_in_all_of_them():
    """The next messages follow from the releases, so their densities are known round by round."""
    estimator = tacit.SharedPriorRegressor(epsilon=8.0)
    result = audit_at_worst(estimator, [conversing_tasks()], n_trials=300)
    assert not result.violated
    assert result.epsilon_lower > 1.5


class LeakingLate(tacit.SharedPriorRegressor):
    """Spends a tenth of the noise in the last round of many, and claims epsilon still."""

    def _schedule(self, protocol, sizes):
        made = super()._schedule(protocol, sizes)
        last = made.mechanisms[-1]
        quiet = Quiet(last.sensitivity, last.noise_multiplier)
        return dataclasses.replace(made, mechanisms=(*made.mechanisms[:-1], quiet))


def test_one_leaking_round_of_many_is_found():
    assert audit_at_worst(LeakingLate(epsilon=8.0), [conversing_tasks()], n_trials=200).violated


def test_rows_behind_a_minimiser_are_attacked_by_its_density():
    signs = np.where(np.arange(300) % 2, 1.0, -1.0)
    rows = TaskSet.from_arrays(signs[:, None] * [1.0, 1e-3], (signs > 0) + 0.0, np.zeros(300))
    result = audit_at_worst(tacit.PrivateLogisticRegression(epsilon=8.0), [rows], n_trials=300)
    assert not result.violated
    assert result.pair == "two rows against the model from either side"
    assert result.epsilon_lower > 0.3


def test_an_attack_at_worst_needs_a_claim(tasks):
    with pytest.raises(InvalidInput, match="nothing to audit"):
        audit_at_worst(tacit.SingleTaskRegressor(), [tasks])
