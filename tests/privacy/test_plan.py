import dataclasses
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import dp_event

import tacit
from tacit import plan
from tacit.errors import InvalidInput
from tacit.methods import estimator_class, methods
from tacit.privacy import Adjacency, Norm, SecondMoment, Unit, VectorClip, mechanism
from tacit.privacy.accounting import compose
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.plan import least_epsilon

# Methods that protect whole tasks; shared moments protects rows and needs their number.
OF_ROWS = ("shared-moments", "asynchronous")
PRIVATE = sorted(set(methods()) - {"pooled", "single-task", *OF_ROWS})
TASKS = [method for method in methods() if method not in OF_ROWS]
ROUNDS = {"low-rank": 5, "low-rank-sparse": 5, "group-sparse": 5, "mean-regularized": 5}
SETTINGS = [
    *((method, {}) for method in PRIVATE),
    *((method, {"delta": 0.0}) for method in PRIVATE),
    ("shared-prior", {"unknown_task": "shared"}),
    ("shared-prior", {"clip": 2.0}),
    ("task-relationship", {"clip": 1.0}),
    ("mean-regularized", {"clip": 2.0, "n_rounds": 3}),
    ("averaged", {"clip": 2.0}),
    ("low-rank", {"update": "proximal", "n_rounds": 4}),
    ("group-sparse", {"update": "proximal", "n_rounds": 3, "clip": 1.0}),
    ("low-rank", {"epsilon_rows": 5.0, "target_bound": 3.0}),
]


def _rounds(method):
    return {"n_rounds": ROUNDS[method]} if method in ROUNDS else {}


@pytest.mark.parametrize("method", PRIVATE)
def test_the_planned_noise_costs_exactly_the_budget(method):
    planned = plan(method, 320, 30, epsilon=1.0, delta=1e-6, **_rounds(method))
    events = [
        dp_event.GaussianDpEvent(release.noise_multiplier)
        for release in planned.releases
        for _ in range(release.turns)
    ]
    hierarchical = method in ("shared-prior", "task-relationship")
    assert len(events) == (25 if hierarchical else ROUNDS.get(method, 1))
    assert 1.0 - 1e-6 <= compose(events, delta=1e-6).epsilon <= 1.0 + 1e-9


@pytest.mark.parametrize(("method", "settings"), SETTINGS)
def test_planned_released_and_stated_are_one(method, settings):
    random = np.random.default_rng(0)
    X, tasks = random.normal(size=(240, 5)), np.repeat(range(60), 4)
    planned = plan(method, 60, 5, n_rows=240, epsilon=2.0, **settings)
    model = estimator_class(method, "regression")(epsilon=2.0, **settings)
    model.fit(X, X[:, 0], tasks=tasks)
    told = [(r.name, r.mechanism, r.scale) for r in planned.releases for _ in range(r.turns)]
    assert told == [(row["name"], row["mechanism"], row["scale"]) for row in model.history_]
    assert model.privacy_.n_releases == sum(
        release.turns for release in planned.releases if release.unit is Unit.TASK
    )
    for name, posting in zip((row[0] for row in told), model.billboard_, strict=True):
        release = next(release for release in planned.releases if release.name == name)
        if posting.value.size:
            side = posting.value.shape[0]
            square = posting.value.ndim == 2 and posting.value.shape == (side, side)
            matrix = square and "gaussian" not in release.mechanism.split("-")[:1]
            per_task = method == "task-relationship"
            size = posting.value.size // (60 if per_task else 1)
            assert release.n_numbers == (side * (side + 1) // 2 if matrix else size)
    assert planned.delta == model.privacy_.delta


def test_the_printed_release_counts_that_were_wrong_are_right():
    proximal = plan("low-rank", 139, 27, update="proximal", n_rounds=4)
    scales = [release.scale for release in proximal.releases]
    assert len(scales) == 4
    assert scales == sorted(scales, reverse=True)
    assert len({round(scale, 6) for scale in scales}) == 4
    assert len(plan("shared-prior", 139, 27, clip=2.0, unknown_task="shared").releases) == 2
    assert plan("averaged", 139, 27, clip=1.0).releases[0].n_numbers == 28


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
    (release,) = plan(method, m, 12, epsilon=2.0, delta=delta).releases
    assert release.mechanism == name
    parameters = {
        "symmetric-gaussian": {"noise_multiplier": release.scale / release.sensitivity},
        "gaussian": {"noise_multiplier": release.scale / release.sensitivity},
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
    assert planned.bytes_up == 10 * 50 * 8
    assert planned.bytes_down == 10 * 50 * 50 * 8
    assert planned.bytes_total == 1000 * (planned.bytes_up + planned.bytes_down)
    assert plan("mean-regularized", 10, 7, n_outputs=3, n_rounds=1).bytes_up == 3 * 7 * 8
    assert plan("pooled", 10, 7, n_rows=200).curator_memory == 200 * 8 * 8
    assert plan("single-task", 10, 7).bytes_total == 0


def test_only_kept_messages_make_memory_grow_with_tasks():
    # From some 10⁵ tasks on: below, louder noise asks for fewer numbers.
    for method in TASKS:
        few, many = (plan(method, m, 20, n_rows=30 * m).curator_memory for m in (10**6, 10**9))
        assert (many > few) is (method == "pooled")
    few, many = (plan("task-relationship", m, 20, clip=1.0).curator_memory for m in (10, 10**6))
    assert many > few


def test_a_billion_tasks_are_planned_at_once():
    began = time.perf_counter()
    for method in TASKS:
        assert "1,000,000,000" in plan(method, 10**9, 50, n_rows=3 * 10**10).table()
    assert time.perf_counter() - began < 30


def test_more_budget_means_less_noise_and_more_rounds_mean_more():
    def noise(**changes):
        return plan("low-rank", 100, 10, **({"n_rounds": 1} | changes)).releases[0].scale

    assert noise(epsilon=2.0) < noise(epsilon=1.0)
    assert noise(delta=1e-5) < noise(delta=1e-8)
    assert noise(n_rounds=9) == pytest.approx(3 * noise(n_rounds=1))


def test_the_diagonal_needs_far_less_noise_than_the_matrix():
    matrix = plan("low-rank", 320, 30, n_rounds=1).releases[0].noise_to_signal
    diagonal = plan("group-sparse", 320, 30, n_rounds=1).releases[0].noise_to_signal
    assert diagonal < 0.3 * matrix


def test_the_unit_and_who_is_protected_are_stated():
    both = plan("low-rank", 10, 7, n_rows=100, epsilon_rows=1.0, target_bound=1.0)
    assert [release.unit for release in both.releases] == [Unit.ROW, Unit.TASK]
    assert plan("task-relationship", 10, 7, clip=1.0).trust == "untrusted"
    assert "nothing leaves it" in plan("single-task", 10, 7).table()
    assert "not private" in plan("pooled", 10, 7, n_rows=50).table()
    assert "not private" in plan("low-rank", 10, 7, epsilon=math.inf).table()
    assert str(plan("averaged", 10, 7)) == plan("averaged", 10, 7).table()


def test_default_delta_is_far_below_one_over_m():
    assert plan("averaged", 10, 7).delta == 1e-5
    assert plan("averaged", 10**6, 7).delta == 1e-12


def test_a_plan_by_name_is_the_estimators_own():
    model = tacit.LowRankClassifier(epsilon=0.5, n_rounds=2)
    assert model.plan(30, 4, n_outputs=3) == plan(
        "low-rank", 30, 4, n_outputs=3, epsilon=0.5, n_rounds=2
    )


@pytest.mark.parametrize(
    "change",
    [
        {"method": "magic"},
        {"n_tasks": 0},
        {"n_features": -1},
        {"method": "pooled", "n_rows": 0},
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
        {"colour": "red"},
        {"method": "averaged", "n_rounds": 2},
        {"method": "pooled"},
    ],
)
def test_bad_input_is_refused(change):
    with pytest.raises(InvalidInput):
        plan(**{"method": "low-rank", "n_tasks": 10, "n_features": 5, **change})


def test_a_plan_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan("averaged", 10, 7).epsilon = 0.1


def test_no_method_is_known_by_name_to_the_plan():
    text = (Path(tacit.__file__).parent / "privacy" / "plan.py").read_text(encoding="utf-8")
    assert not re.findall(r"low.rank|shared.prior|BORDER|octave|0\.35", text)


def test_the_table_of_the_scale_page_is_the_plans():
    text = (Path(__file__).parents[2] / "docs" / "scale.md").read_text(encoding="utf-8")
    for power, name in zip("⁴⁴⁴⁶⁶⁹⁹", ("m", "l", "t", "m", "l", "m", "l"), strict=True):
        method = {"m": "mean-regularized", "l": "low-rank", "t": "task-relationship"}[name]
        clip = {"clip": 1.0} if name == "t" else {}
        planned = plan(method, 10 ** "⁰¹²³⁴⁵⁶⁷⁸⁹".index(power), 50, epsilon=1.0, **clip)
        lines = dict(line.rsplit("  ", 1) for line in planned.table().splitlines())
        lines = {key.strip(): value for key, value in lines.items()}
        cells = [lines[key] for key in ("up, one task", "down, one task", "network, whole run")]
        label = f"{method}, with a clip" if clip else method
        begins = f"| 10{power} | {label} | {' | '.join(cells)} | {lines['curator memory']} | "
        row = next(line for line in text.splitlines() if line.startswith(begins))
        assert f"| {planned.noise_to_signal:.2g} |" in row


def test_the_least_budget_is_where_something_stands_out():
    def at(epsilon):
        return plan("mean-regularized", 50, 8, epsilon=epsilon)

    least = least_epsilon(at)
    assert at(least).drowned <= 1 < at(least / 1.1).drowned
    assert least_epsilon(lambda epsilon: plan("single-task", 50, 8)) is None


@pytest.mark.parametrize(
    ("n_tasks", "word"), [(10**5, "nothing"), (10**7, "exact sums"), (2, "is released")]
)
def test_a_plan_says_what_breaks_first(n_tasks, word):
    planned = plan("low-rank", n_tasks, 20, epsilon=1.0)
    assert word in planned.breaks_first
    assert planned.breaks_first in planned.table()


def test_the_sum_that_a_plan_calls_too_large_is_refused():
    most = plan("low-rank", 10**4, 20).most_tasks
    assert most == SecondMoment.most_messages
    with pytest.raises(InvalidInput, match="add up exactly"):
        SecondMoment(1.0).check_count(most + 1)


def test_curator_time_grows_with_tasks_and_reaches_hours_at_a_billion():
    seconds = [plan("low-rank", 10**k, 50).curator_seconds for k in (5, 7, 9)]
    assert 50 < seconds[1] / seconds[0] <= 100
    assert 3600 < seconds[2] < 10 * 86_400
