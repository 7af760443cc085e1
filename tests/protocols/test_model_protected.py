"""Model-protected protocols: what leaves a task, and what the map makes of noise."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput, PrivacyWarning
from tacit.estimators._private import Sizes
from tacit.losses import SquaredLoss
from tacit.privacy import Ledger
from tacit.privacy.accounting import gaussian_epsilon
from tacit.privacy.mechanisms import SymmetricGaussian
from tacit.privacy.noise.perturb import SeededEntropy
from tacit.privacy.schedule import Call, Schedule, in_turn
from tacit.protocols._row_protection import RowProtection
from tacit.protocols._shrinkage import Shape
from tacit.protocols.model_protected import ModelProtectedProtocol, Moment, moment_bound
from tacit.protocols.proximal_protected import ProximalProtocol, SharedMap
from tacit.protocols.task_relationship import denoised_models
from tacit.tasks import TaskSet

from .by_hand import started

NAMES = ("LowRank", "GroupSparse", "LowRankSparse", "TaskRelationship")


@pytest.fixture(scope="module")
def split():
    """Two groups of tasks, few relevant features: low-rank and group-sparse at once."""
    rng = np.random.default_rng(0)
    m, n, d = 400, 28, 12
    labels = np.repeat(np.arange(m), n)
    centres = np.zeros((2, d))
    centres[:, :3] = rng.normal(size=(2, 3))
    W = 4 * centres[np.arange(m) % 2] + 0.1 * rng.normal(size=(m, d)) * (np.arange(d) < 3)
    X = rng.normal(size=(m * n, d))
    y = np.einsum("nd,nd->n", X, W[labels]) + 3 * rng.normal(size=m * n) + 2
    return TaskSet.from_arrays(X, y, labels).split(0.5, random_state=0)


def _error(model, split):
    train, test = split
    model.fit(train.X, train.y, tasks=train.task_of_row)
    return float(np.mean((model.predict(test.X, tasks=test.task_of_row) - test.y) ** 2))


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("LowRank", {}),
        ("LowRank", {"update": "proximal", "epsilon": 10.0}),
        ("LowRank", {"delta": 0.0, "epsilon": 20.0}),
        ("LowRank", {"clip": 3.0, "epsilon": 10.0}),
        ("GroupSparse", {}),
        ("GroupSparse", {"delta": 0.0, "epsilon": 3.0}),
        ("LowRankSparse", {}),
        ("LowRankSparse", {"shared": "group-sparse", "own": "tasks"}),
        ("TaskRelationship", {"epsilon": 30.0}),
    ],
)
def test_sharing_in_private_beats_learning_alone(split, name, parameters):
    alone = _error(tacit.SingleTaskRegressor(), split)
    model = getattr(tacit, f"{name}Regressor")(random_state=0, **parameters)
    assert _error(model, split) < 0.95 * alone
    assert model.privacy_.epsilon <= model.epsilon


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("delta", ["auto", 0.0])
def test_without_budget_it_is_single_task_learning(split, name, delta):
    alone = _error(tacit.SingleTaskRegressor(), split)
    model = getattr(tacit, f"{name}Regressor")(epsilon=1e-6, delta=delta, random_state=0)
    assert _error(model, split) == pytest.approx(alone, rel=0.01)


@pytest.mark.parametrize("name", ["LowRank", "GroupSparse"])
def test_gradient_rounds_without_budget_are_single_task_learning(split, name):
    alone = _error(tacit.SingleTaskRegressor(), split)
    model = getattr(tacit, f"{name}Regressor")(epsilon=1e-6, update="proximal", random_state=0)
    assert _error(model, split) == pytest.approx(alone, rel=0.01)


def test_rounds_compose_to_the_budget_and_the_ledger_refuses_a_second_run(split, tmp_path):
    train, _ = split
    ledger = Ledger(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    model = tacit.LowRankRegressor(
        1.0, delta=1e-5, update="proximal", n_rounds=4, allocation=0.5, ledger=ledger
    )
    model.fit(train.X, train.y, tasks=train.task_of_row)
    assert model.privacy_.holds
    assert len(model.billboard_) == 4
    scales = np.array([row["scale"] for row in model.history_])
    np.testing.assert_allclose(scales[0] / scales, np.arange(1, 5) ** 0.5, rtol=1e-6)
    mu = np.sqrt(np.sum((np.sqrt(2) / scales) ** 2))
    assert gaussian_epsilon(mu, 1e-5) == pytest.approx(1.0, rel=1e-3)
    with pytest.raises(tacit.errors.BudgetExceeded):
        model.fit(train.X, train.y, tasks=train.task_of_row)


def test_strong_convexity_gives_later_rounds_more_budget():
    model = tacit.LowRankRegressor(
        1.0, delta=1e-5, update="proximal", n_rounds=3, strong_convexity=0.1
    )
    shares = model._shares(Sizes(100, 5, 1))
    rate = 0.1 / 1.1
    np.testing.assert_allclose(shares[1] / shares[0], (1 - rate**0.5) ** -0.2)
    model.set_params(accelerated=False)
    shares = model._shares(Sizes(100, 5, 1))
    np.testing.assert_allclose(shares[1] / shares[0], (1 - rate) ** -0.4)


def test_replacing_a_task_moves_the_aggregate_by_no_more_than_its_sensitivity(split):
    train, _ = split
    protocol = ModelProtectedProtocol(SquaredLoss(), train.n_tasks, train.n_features)
    (moment,) = protocol.rounds()
    _, messages = protocol.speak(started(protocol, train), protocol.opening(), Call(0, 0), None)
    before = moment.bound.aggregate(moment.bound(messages))
    allowed = moment.sensitivity("frobenius", "replace-one")
    assert allowed == pytest.approx(np.sqrt(2), rel=1e-6)
    for row in (1e9 * np.eye(12)[:1], np.zeros((1, 12)), -messages[0]):
        changed = messages.copy()
        changed[0] = row
        after = moment.bound.aggregate(moment.bound(changed))
        assert np.linalg.norm(after - before) <= allowed


def test_the_outputs_of_a_task_are_bounded_as_one_message():
    bounded = moment_bound(None, diagonal=False)(np.ones((5, 3, 4)))
    norms = np.linalg.norm(bounded, axis=(1, 2))
    assert (norms <= 1).all()
    assert (norms >= 1 - 1e-4).all()  # messages are cut to a public grid, towards zero


def test_averaging_releases_weighs_them_by_precision():
    moment = Moment()
    for value, scale in ((1.0, 1.0), (3.0, 0.5)):
        law = SymmetricGaussian(1.0, scale)
        moment = moment.plus(value * np.eye(2), law, n_tasks=10, trace=None)
    np.testing.assert_allclose(moment.total / moment.precision, (1 + 12) / 5 * np.eye(2))
    assert moment.precision**-0.5 == pytest.approx(5**-0.5)


def test_the_map_of_a_flat_shape_is_the_identity():
    W = np.arange(6.0).reshape(2, 3)
    np.testing.assert_allclose(SharedMap.of_shape(Shape(np.zeros(3), 2.0), 0.5)(W), W)


def test_soft_threshold_with_shift_tends_to_the_identity_as_noise_grows():
    rng = np.random.default_rng(0)
    W = rng.normal(size=(4, 6))
    noise = SymmetricGaussian(1.0, 1e8)
    fall = noise.fall(6, n_rounds=1)
    for seed in range(50):
        release = noise.release(np.zeros((6, 6)), SeededEntropy(seed)).value
        shared = SharedMap.soft_threshold(release, 0.1, fall)
        np.testing.assert_allclose(shared(W), W, rtol=1e-3, atol=1e-4)


def test_published_noise_warns_and_its_statement_claims_nothing(split):
    train, _ = split
    model = tacit.LowRankRegressor(
        1.0, mechanism="wishart-published", update="proximal", clip=5.0, n_rounds=2, alpha=0.5
    )
    with pytest.warns(PrivacyWarning, match="support"):
        model.fit(train.X, train.y, tasks=train.task_of_row)
    assert not model.privacy_.sound
    assert not model.privacy_.holds


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        ({"mechanism": "laplace"}, "mechanism='laplace'"),
        ({"mechanism": "wishart-published"}, "update"),
        ({"shrinkage": "soft-threshold"}, "proximal"),
        ({"epsilon_rows": 1.0}, "target_bound"),
        ({"epsilon_rows": 1.0, "target_bound": 1.0, "clip": 2.0}, "clip"),
        ({"mechanism": "gaussian", "delta": 0.0}, "mechanism='gaussian'.*delta"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"n_rounds": 0}, "n_rounds=0"),
        ({"strong_convexity": float("nan")}, "strong_convexity"),
    ],
)
def test_bad_parameters_are_refused_by_name(split, parameters, text):
    train, _ = split
    with pytest.raises(InvalidInput, match=text):
        tacit.LowRankRegressor(**parameters).fit(train.X, train.y, tasks=train.task_of_row)


def test_row_messages_move_by_no_more_than_the_row_sensitivity():
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(3), 5)
    X, y = 9 * rng.normal(size=(15, 4)), 9 * rng.normal(size=15)
    other_X, other_y = X.copy(), y.copy()
    other_X[7], other_y[7] = -1e6 * X[7], 1e6
    rows = RowProtection(1, row_norm=1.0, target_bound=2.0)
    gradients = rows.round(4)
    one, two = (
        gradients.bound.by_task(
            rows.gradients((TaskSet.from_arrays(*data, labels),), SquaredLoss())
        )
        for data in ((X, y), (other_X, other_y))
    )
    assert np.linalg.norm(one[1] - two[1]) <= gradients.sensitivity("l2", "replace-one")
    np.testing.assert_array_equal(one[[0, 2]], two[[0, 2]])
    (quiet,) = Schedule.calibrate([gradients], epsilon=1e9, delta=0.0).mechanisms
    assert quiet.scale == pytest.approx(4.0 / 1e9, rel=1e-5)


def test_both_protections_are_charged_and_stated(split, tmp_path):
    train, _ = split
    ledger = Ledger(tmp_path / "ledger.db", epsilon=5.0, delta=1e-4)
    model = tacit.LowRankRegressor(
        1.0, epsilon_rows=2.0, row_norm=5.0, target_bound=30.0, ledger=ledger
    )
    model.fit(train.X, train.y, tasks=train.task_of_row)
    assert {line.unit for line in ledger.lines()} == {"task", "row"}
    assert model.row_privacy_.epsilon == 2.0
    assert model.row_privacy_.unit == "row"
    assert any("every single row" in text for text in model.privacy_.assumptions)


def test_noise_alone_leaves_no_relationships():
    rng = np.random.default_rng(2)
    kept = [len(denoised_models(3.0 * rng.standard_normal((200, 12)), 3.0)[1]) for _ in range(30)]
    assert np.mean(np.array(kept) > 0) < 0.1


def test_strong_relationships_are_recovered():
    rng = np.random.default_rng(3)
    truth = np.outer(np.sign(rng.normal(size=200)), np.ones(12))
    left, values, right = denoised_models(truth + rng.standard_normal((200, 12)), 1.0)
    assert len(values) == 1
    assert np.linalg.norm(left * values @ right - truth) < 0.4 * np.linalg.norm(truth)


def test_decomposed_rounds_keep_the_own_part_at_home(split):
    train, _ = split
    protocol = ProximalProtocol(
        SquaredLoss(),
        train.n_tasks,
        train.n_features,
        shares=(1.0,) * 3,
        sparse="entries",
        sparse_strength=0.01,
    )
    noise = SymmetricGaussian(np.sqrt(2), 0.01)
    home, public = started(protocol, train), protocol.opening()
    (_, moment, _) = protocol.rounds()
    for call in in_turn(protocol.rounds()):
        home, sent = protocol.speak(home, public, call, None)
        np.testing.assert_array_equal(sent, home.proposed)
        public = protocol.read(public, moment.bound.aggregate(moment.bound(sent)), call, noise)
    assert np.abs(home.own).max() > 0
    models = protocol.finish(home, public)[:, 0, :-1]
    home, _ = protocol.speak(home, public, Call(3, 2), None)
    np.testing.assert_allclose(models, (home.mapped + home.own_mapped)[:, 0])
