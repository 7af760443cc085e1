import dataclasses
import math
import time

import numpy as np
import pytest
from dp_accounting import dp_event

from tacit import SharedPriorRegressor
from tacit.errors import InvalidInput
from tacit.privacy import Adjacency, Norm, SecondMoment, Unit, VectorClip, mechanism
from tacit.privacy.accounting import compose
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.plan import METHODS, plan

PRIVATE = sorted(set(METHODS) - {"pooled", "single-task", "transfer"})
ROUNDS = {"low-rank": 5, "low-rank-sparse": 5, "group-sparse": 5, "mean-regularized": 5}


@pytest.mark.parametrize("method", PRIVATE)
def test_the_planned_noise_costs_exactly_the_budget(method):
    rounds = ROUNDS.get(method, 1)
    planned = plan(method, 320, 30, 30, 1.0, 1e-6, rounds)
    events = [dp_event.GaussianDpEvent(r.noise_multiplier) for r in planned.releases] * rounds
    assert 1.0 - 1e-9 <= compose(events, delta=1e-6).epsilon <= 1.0
    for release in planned.releases:
        assert release.standard_deviation == pytest.approx(
            release.noise_multiplier * release.sensitivity
        )


def test_planned_sensitivities_are_those_of_the_bounds():
    clip, moment = VectorClip(2.0), SecondMoment(2.0)
    (mean,) = plan("averaged", 100, 5, clip=2.0).releases
    (second,) = plan("low-rank", 100, 5, clip=2.0).releases
    assert mean.sensitivity == pytest.approx(
        clip.sensitivity(Norm.L2, Adjacency.REPLACE_ONE), rel=1e-6
    )
    assert second.sensitivity == pytest.approx(
        moment.sensitivity(Norm.FROBENIUS, Adjacency.REPLACE_ONE), rel=1e-6
    )


@pytest.mark.parametrize("delta", [1e-6, 0.0])
def test_the_plan_of_a_shared_prior_is_what_the_estimator_does(delta):
    planned = plan("shared-prior", 60, 5, epsilon=2.0, delta=delta).releases
    rng = np.random.default_rng(0)
    model = SharedPriorRegressor(epsilon=2.0, delta=delta)
    model.fit(rng.normal(size=(240, 5)), rng.normal(size=240), tasks=np.repeat(range(60), 4))
    assert [release.mechanism for release in planned] == [h["mechanism"] for h in model.history_]
    for release, posting in zip(planned, model.billboard_, strict=True):
        size = posting.value.size
        side = posting.value.shape[0]
        assert release.n_numbers == (size if posting.value.ndim == 1 else side * (side + 1) // 2)
        if delta > 0:
            multiplier = posting.event.noise_multiplier
            assert release.noise_multiplier == pytest.approx(multiplier, rel=1e-9)
        assert release.sensitivity > 0


@pytest.mark.parametrize(
    ("method", "delta", "name", "shape"),
    [
        ("low-rank", 1e-6, "symmetric-gaussian", (12, 12)),
        ("group-sparse", 1e-6, "gaussian", (12,)),
        ("averaged", 0.0, "gamma-vector", (12,)),
        ("group-sparse", 0.0, "laplace", (12,)),
        ("low-rank", 0.0, "two-sided-wishart", (12, 12)),
    ],
)
def test_noise_to_signal_is_what_the_mechanism_does(method, delta, name, shape):
    m = 50
    planned = plan(method, m, 12, epsilon=2.0, delta=delta)
    (release,) = planned.releases
    assert release.mechanism == name
    parameters = {
        "symmetric-gaussian": {"noise_multiplier": release.noise_multiplier},
        "gaussian": {"noise_multiplier": release.noise_multiplier},
    }.get(name, {"epsilon": 2.0})
    key = {"laplace": "sensitivity_l1", "gamma-vector": "sensitivity_l2"}.get(
        name, "sensitivity_trace" if name == "two-sided-wishart" else "sensitivity"
    )
    noise = mechanism(name, **{key: release.sensitivity}, **parameters)
    entropy = SeededEntropy(1)
    norms = [np.linalg.norm(noise.release(np.zeros(shape), entropy).value) for _ in range(300)]
    # Root mean square of 300 norms; the signal of m messages of norm 1 in agreement is m.
    assert math.sqrt(np.mean(np.square(norms))) / m == pytest.approx(
        release.noise_to_signal, rel=0.1
    )


def test_bytes_and_memory_are_those_of_the_messages():
    planned = plan("low-rank", 1000, 50, n_rounds=10)
    assert planned.bytes_up == 50 * 8
    assert planned.bytes_down == 50 * 50 * 8
    assert planned.bytes_total == 1000 * 10 * (planned.bytes_up + planned.bytes_down)
    assert plan("mean-regularized", 10, 7, n_outputs=3, bytes_per_number=4).bytes_up == 84
    assert plan("pooled", 10, 7, 20).curator_memory == 10 * 20 * 8 * 8
    assert plan("single-task", 10, 7).bytes_total == 0


def test_only_kept_messages_make_memory_grow_with_tasks():
    for method in METHODS:
        few, many = (plan(method, m, 20, 30, 1.0).curator_memory for m in (10, 10**9))
        assert (many > few) is (method in ("pooled", "task-relationship"))


def test_a_billion_tasks_are_planned_at_once():
    began = time.perf_counter()
    for method in METHODS:
        text = plan(method, 10**9, 50, 30, 1.0).table()
        assert "1,000,000,000" in text
    assert time.perf_counter() - began < 30


def test_more_budget_means_less_noise_and_more_rounds_mean_more():
    def noise(**changes):
        return plan("low-rank", 100, 10, **changes).releases[0].standard_deviation

    assert noise(epsilon=2.0) < noise(epsilon=1.0)
    assert noise(delta=1e-5) < noise(delta=1e-8)
    assert noise(n_rounds=9) == pytest.approx(3 * noise(n_rounds=1))


def test_the_diagonal_needs_far_less_noise_than_the_matrix():
    matrix = plan("low-rank", 320, 30).releases[0].noise_to_signal
    diagonal = plan("group-sparse", 320, 30).releases[0].noise_to_signal
    assert diagonal < 0.3 * matrix


def test_the_unit_and_who_is_protected_are_stated():
    assert plan("transfer", 2, 10, 500).unit is Unit.ROW
    assert "nothing leaves it" in plan("single-task", 10, 7).table()
    assert "not private" in plan("pooled", 10, 7, 5).table()
    assert "not private" in plan("low-rank", 10, 7, epsilon=math.inf).table()
    assert plan("low-rank", 10, 7, epsilon=math.inf).releases == ()
    assert str(plan("averaged", 10, 7)) == plan("averaged", 10, 7).table()


def test_default_delta_is_far_below_one_over_m():
    assert plan("averaged", 10, 7).delta == 1e-5
    assert plan("averaged", 10**6, 7).delta == 1e-12
    assert plan("transfer", 2, 7, 10**4).delta == 1e-8


@pytest.mark.parametrize(
    "change",
    [
        {"method": "magic"},
        {"n_tasks": 0},
        {"n_features": -1},
        {"n_rows": 0},
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"delta": -1.0},
        {"delta": math.nan},
        {"delta": "small"},
        {"n_rounds": 0},
        {"n_rounds": 2.5},
        {"clip": 0.0},
        {"clip": math.inf},
        {"n_outputs": 0},
        {"bytes_per_number": 0},
        {"method": "averaged", "n_rounds": 2},
        {"method": "transfer"},
        {"method": "pooled"},
    ],
)
def test_bad_input_is_refused(change):
    with pytest.raises(InvalidInput):
        plan(**{"method": "low-rank", "n_tasks": 10, "n_features": 5, **change})


def test_a_plan_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan("averaged", 10, 7).epsilon = 0.1
