"""Replay: with the noise frozen, only what was declared may move."""

import importlib

import numpy as np
import pytest

import tacit
from tacit.audit import canary_pairs, replace_row, replace_task, replay, replay_estimator, search
from tacit.audit.errata import PrintedNode, SingleReleaseNode, asynchronous_sensitivity, node_data
from tacit.audit.replay import Replayed, Staged, change_in, declared_sensitivity, staged_by
from tacit.errors import InvalidInput
from tacit.losses import SquaredLoss
from tacit.privacy.mechanisms import Exact, GammaVector, Gaussian, Laplace, TwoSidedWishart
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.schedule import Schedule, in_turn
from tacit.privacy.unit import Norm, Unit
from tacit.protocols._row_protection import RowProtection
from tacit.protocols.mean_regularized import MeanRegularizedProtocol

# Every estimator that runs a protocol, in each form that declares another sensitivity. Names that
# this build of tacit does not have are left out by `available`.
PRIVATE = [
    ("MeanRegularizedRegressor", {"epsilon": 1e3}),  # at ε = 1 so few tasks share nothing
    ("MeanRegularizedRegressor", {"n_rounds": 1}),
    ("MeanRegularizedRegressor", {"clip": 0.5, "n_rounds": 3}),
    ("MeanRegularizedRegressor", {"delta": 0.0, "clip": 2.0}),
    ("MeanRegularizedClassifier", {"epsilon": 1e3}),
    ("LowRankRegressor", {}),
    ("LowRankRegressor", {"epsilon": 1e3}),
    ("LowRankRegressor", {"n_rounds": 3, "clip": 1.0}),
    ("LowRankRegressor", {"delta": 0.0}),
    ("LowRankRegressor", {"update": "proximal", "n_rounds": 3}),
    ("LowRankRegressor", {"epsilon_rows": 1.0, "target_bound": 5.0}),
    ("LowRankClassifier", {}),
    ("GroupSparseRegressor", {}),
    ("GroupSparseRegressor", {"epsilon": 1e3}),
    ("GroupSparseRegressor", {"delta": 0.0, "n_rounds": 2}),
    ("GroupSparseClassifier", {}),
    ("LowRankSparseRegressor", {}),
    ("LowRankSparseClassifier", {}),
    ("TaskRelationshipRegressor", {"epsilon": 1e3}),
    ("TaskRelationshipRegressor", {"clip": 1.0}),
    ("TaskRelationshipRegressor", {"delta": 0.0, "clip": 1.0}),
    ("TaskRelationshipClassifier", {"epsilon": 1e3}),
    ("AveragedRegressor", {}),
    ("AveragedClassifier", {}),
    ("SharedPriorRegressor", {"epsilon": 1e3}),
    ("SharedPriorRegressor", {"epsilon": 1e4, "delta": 0.0}),
    ("SharedPriorRegressor", {"clip": 1.0}),
    ("SharedPriorClassifier", {"epsilon": 1e3}),
]


def available(name):
    return hasattr(importlib.import_module("tacit.estimators"), name)


CASES = [
    pytest.param(name, options, id=f"{name}({', '.join(f'{k}={v}' for k, v in options.items())})")
    for name, options in PRIVATE
    if available(name)
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_worst_case_neighbours_stay_within_the_declaration_of(name, options, tasks, labelled_tasks):
    data = labelled_tasks if name.endswith("Classifier") else tasks
    estimator = getattr(tacit, name)(**{"epsilon": 1.0, **options})
    results = [replay_estimator(estimator, one.first, one.second) for one in canary_pairs(data)]
    for result in results:
        result.check()
    # The check has teeth: some pair comes near the declared sensitivity.
    assert max(result.worst for result in results) > 0.6


@pytest.mark.parametrize(
    ("name", "options"), [case for case in CASES if case.values[0].endswith("Regressor")]
)
def test_random_neighbours_stay_within_the_declaration_of(name, options, tasks):
    rng = np.random.default_rng(1)
    n_rows = int(tasks.counts[3])
    X = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal((n_rows, tasks.n_features))
    neighbour = replace_task(tasks, 3, X, 100 * rng.standard_normal(n_rows))
    estimator = getattr(tacit, name)(**{"epsilon": 1.0, **options})
    replay_estimator(estimator, tasks, neighbour).check()


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_home_alone_says_what_it_says_among_the_others_in(name, options, tasks, labelled_tasks):
    data = labelled_tasks if name.endswith("Classifier") else tasks
    estimator = getattr(tacit, name)(**{"epsilon": 1.0, **options})
    for staged in staged_by(estimator, data, 0):
        among, alone = Replayed(staged, data), Replayed(staged, data, only=3)
        for call in in_turn(staged.schedule.rounds):
            said = among.said(call)
            np.testing.assert_array_equal(alone.said(call)[0], said[3])
            noise = SeededEntropy(0).child("call", call.number)
            release = among.released(among.aggregate(said, call), call, noise)
            among.hear(release, call)
            alone.hear(release, call)
        np.testing.assert_array_equal(alone.models()[0], among.models()[3])


@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_the_row_noise_of_both_protections_covers_any_one_row(delta, tasks):
    rows = RowProtection(1, row_norm=1.0, target_bound=2.0)
    gradients = rows.round(tasks.n_features)
    (noise,) = Schedule.calibrate([gradients], epsilon=1.0, delta=delta).mechanisms
    norm, reach = declared_sensitivity(noise)
    rng = np.random.default_rng(0)
    changes = []
    for _ in range(30):
        one, two = (
            replace_row(tasks, 5, 10.0 ** rng.uniform(-1, 2) * rng.standard_normal(4), answer)
            for answer in 10.0 ** rng.uniform(-1, 3) * np.array([1.0, -1.0])
        )
        said = [
            gradients.bound.by_task(rows.gradients((data,), SquaredLoss())) for data in (one, two)
        ]
        changes.append(change_in(norm, said[1] - said[0]))
    assert max(changes) <= reach
    assert max(changes) > 0.7 * reach


def test_every_estimator_that_runs_a_protocol_is_replayed():
    estimators = importlib.import_module("tacit.estimators")
    running = {
        name
        for name in estimators.__all__
        if isinstance(getattr(estimators, name), type)
        and issubclass(getattr(estimators, name), estimators.PrivateEstimator)
        # What objective perturbation is given are rows, not a sum: audited by its exact density.
        and getattr(estimators, name)._unit is Unit.TASK
    }
    assert running - {"PrivateEstimator"} <= {name for name, _ in PRIVATE}


def mean_protocol(tasks):
    protocol = MeanRegularizedProtocol(
        SquaredLoss(), tasks.n_tasks, tasks.n_features, n_turns=2, clip=1.0
    )
    return Staged(protocol, Schedule(protocol.rounds(), (Gaussian(2.0, 3.0),)))


def test_hill_climbing_finds_pairs_near_but_not_beyond_the_declaration(tasks):
    result = search(mean_protocol, tasks, n_steps=40)
    assert not result.violated
    assert result.worst > 0.95


def test_the_printed_asynchronous_noise_is_for_a_sensitivity_hundreds_of_times_too_small():
    result = asynchronous_sensitivity(sound=False, n_steps=1000)
    of_q = result.ratios[::2]
    assert of_q[0] <= 1
    assert of_q[9] > 3
    assert of_q[99] > 30
    assert of_q[999] > 100


def test_one_release_a_step_stays_within_its_sensitivity():
    result = asynchronous_sensitivity(sound=True, n_steps=1000)
    result.check()
    assert result.worst <= 1


@pytest.mark.parametrize("kind", [PrintedNode, SingleReleaseNode])
def test_hill_climbing_on_one_row_tells_the_printed_node_from_the_sound_one(kind):
    result = search(lambda _: kind(10, 20, 10).staged(), node_data(20), binary=True, n_steps=30)
    assert result.violated == (kind is PrintedNode)


def test_each_mechanism_is_measured_in_the_norm_it_declares():
    assert declared_sensitivity(Laplace(2.0, 1.0)) == (Norm.L1, 2.0)
    assert declared_sensitivity(GammaVector(2.0, 1.0)) == (Norm.L2, 2.0)
    assert declared_sensitivity(TwoSidedWishart(3.0, 1.0)) == (Norm.TRACE, 3.0)
    assert declared_sensitivity(Gaussian(4.0, 1.0)) == (Norm.L2, 4.0)
    with pytest.raises(InvalidInput, match="declares no sensitivity"):
        declared_sensitivity(Exact())
    change = np.diag([3.0, -4.0])
    assert [change_in(norm, change) for norm in (Norm.L1, Norm.TRACE, Norm.L2)] == [7, 7, 5]


def test_neighbours_must_differ_in_exactly_one_task_or_row(tasks):
    with pytest.raises(InvalidInput, match="in 0 tasks"):
        replay(mean_protocol, tasks, tasks)
    both = tasks.replace(y=-tasks.y)
    with pytest.raises(InvalidInput, match="in 8 tasks"):
        replay(mean_protocol, tasks, both)
    with pytest.raises(InvalidInput, match="same task names"):
        replay(mean_protocol, tasks, tasks.take_tasks(np.arange(7)))
    node = node_data(20)
    two_rows = replace_row(replace_row(node, 0, node.X[1], 1.0), 2, node.X[0], 0.0)
    with pytest.raises(InvalidInput, match="exactly one row"):
        replay(lambda _: SingleReleaseNode(2, 20, 10).staged(), node, two_rows)


def test_an_estimator_without_a_protocol_is_refused(tasks):
    changed = canary_pairs(tasks)[0]
    with pytest.raises(InvalidInput, match="ran 0 and 0 protocols"):
        replay_estimator(tacit.SingleTaskRegressor(), changed.first, changed.second)
