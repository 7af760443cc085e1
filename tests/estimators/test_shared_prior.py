"""SharedPriorRegressor and SharedPriorClassifier, from the outside."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import tacit
from tacit import datasets
from tacit.errors import BudgetExceeded, InvalidInput, UnknownTask
from tacit.privacy import Ledger

PAPER_DELTA = 1 / (320 * np.log(320))


def _error(model, train, test):
    model.fit(train.X, train.y, tasks=train.task_of_row)
    predicted = model.predict(test.X, tasks=test.task_of_row)
    return np.mean((test.y - predicted) ** 2) / np.var(test.y)


@pytest.fixture(scope="module")
def low_rank():
    made = datasets.make_low_rank(random_state=0)
    alone = _error(tacit.SingleTaskRegressor(fit_intercept=False), made.train, made.test)
    return made.train, made.test, alone


def _private(epsilon, **options):
    options = {"delta": PAPER_DELTA, "fit_intercept": False, "random_state": 0} | options
    return tacit.SharedPriorRegressor(epsilon, **options)


def test_error_falls_from_single_task_learning_to_joint_learning_as_the_budget_grows(low_rank):
    train, test, alone = low_rank
    errors = [_error(_private(epsilon), train, test) for epsilon in (0.1, 1.0, 10.0)]
    assert errors[0] <= 1.02 * alone
    assert errors[1] <= 0.5 * alone
    assert errors[2] <= 0.22 * alone
    assert _error(_private(float("inf")), train, test) <= 0.2 * alone


@pytest.mark.parametrize("seed", range(3))
def test_without_budget_it_is_single_task_learning(low_rank, seed):
    train, test, alone = low_rank
    assert _error(_private(1e-6, random_state=seed), train, test) == pytest.approx(alone, rel=0.01)


def test_pure_privacy_helps_too_with_a_larger_budget(low_rank):
    train, test, alone = low_rank
    model = _private(30.0, delta=0)
    assert _error(model, train, test) <= 0.6 * alone
    assert model.privacy_.delta == 0
    assert model.privacy_.epsilon <= 30.0
    assert set(model.privacy_.mechanisms) == {"two-sided-wishart", "gamma-vector"}


def test_the_statement_and_the_billboard_say_what_was_spent(low_rank):
    train = low_rank[0]
    model = _private(1.0, random_state=None).fit(train.X, train.y, tasks=train.task_of_row)
    statement = model.privacy_
    assert statement.unit == "task"
    assert statement.definition == "joint differential privacy"
    assert statement.adjacency == "replace-one"
    assert 0.999 < statement.epsilon <= 1.0
    assert statement.sound
    assert not statement.seeded
    assert statement.n_releases == len(model.billboard_) == len(model.history_)
    shapes = [posting.value.shape for posting in model.billboard_]
    assert shapes[:3] == [(33,), (33,), (1, 30)]  # scale, length, the first score round
    assert shapes[-2:] == [(30, 30), (16,)]  # moment, evidence


def test_the_ledger_refuses_a_second_run_beyond_its_budget(low_rank):
    train = low_rank[0]
    ledger = Ledger(":memory:", epsilon=1.0, delta=1e-5)
    model = tacit.SharedPriorRegressor(0.9, delta=1e-5, ledger=ledger)
    model.fit(train.X, train.y, tasks=train.task_of_row)
    with pytest.raises(BudgetExceeded):
        model.fit(train.X, train.y, tasks=train.task_of_row)


def test_other_tasks_models_depend_on_a_task_only_through_the_releases():
    # With the same noise, replacing a task's rows by zeros shows in the others' models only as
    # far as it shows in the releases: at a negligible budget, not at all.
    made = datasets.make_low_rank(20, 12, 5, random_state=3).train
    target = made.y.copy()
    first = made.task_of_row == 0
    target[first] = 0.0
    fits = [
        tacit.SharedPriorRegressor(1e-6, random_state=1).fit(made.X, y, tasks=made.task_of_row)
        for y in (made.y, target)
    ]
    np.testing.assert_allclose(fits[0].coef_[1:], fits[1].coef_[1:], rtol=1e-9)
    assert np.abs(fits[0].coef_[0] - fits[1].coef_[0]).max() > 0.1


def test_unknown_tasks_are_answered_from_releases_only():
    rng = np.random.default_rng(4)
    labels = np.repeat(np.arange(300), 10)
    X = rng.normal(size=(3000, 3))
    y = X @ [2.0, -1.0, 0.5] + 20.0 + rng.normal(size=300)[labels] + 0.1 * rng.normal(size=3000)
    model = tacit.SharedPriorRegressor(10.0, unknown_task="shared", random_state=0)
    model.fit(X, y, tasks=labels)
    fresh = rng.normal(size=(200, 3))
    answered = model.predict(fresh, tasks=np.full(200, "new"))
    np.testing.assert_allclose(answered, fresh @ model.shared_coef_[0] + model.shared_intercept_[0])
    assert np.mean((answered - fresh @ [2.0, -1.0, 0.5] - 20.0) ** 2) < 1.5
    strict = tacit.SharedPriorRegressor(10.0, random_state=0).fit(X, y, tasks=labels)
    with pytest.raises(UnknownTask):
        strict.predict(fresh, tasks=np.full(200, "new"))


def test_a_public_clip_spends_everything_on_one_release(low_rank):
    train, test, alone = low_rank
    model = _private(1.0, clip=30.0)
    assert _error(model, train, test) <= 0.6 * alone
    assert len(model.billboard_) == 1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_classifier_gains_from_other_tasks(n_classes):
    rng = np.random.default_rng(5)
    labels = np.repeat(np.arange(200), 24)
    X = rng.normal(size=(4800, 6))
    common = 1.5 * rng.normal(size=(6, n_classes))
    scores = X @ common + rng.gumbel(size=(4800, n_classes))
    y = np.array(["a", "b", "c"])[scores.argmax(axis=1)]
    train = np.arange(4800) % 24 < 12
    known = {"tasks": labels[~train]}
    alone = tacit.SingleTaskClassifier().fit(X[train], y[train], tasks=labels[train])
    shared = tacit.SharedPriorClassifier(3.0, random_state=0)
    shared.fit(X[train], y[train], tasks=labels[train])
    gain = shared.score(X[~train], y[~train], **known) - alone.score(X[~train], y[~train], **known)
    assert gain > 0.02
    np.testing.assert_allclose(shared.predict_proba(X[:5], tasks=labels[:5]).sum(axis=1), 1.0)


def test_the_same_seed_gives_the_same_model_and_says_so(low_rank):
    train = low_rank[0]
    first, second = (
        _private(1.0, random_state=7).fit(train.X, train.y, tasks=train.task_of_row)
        for _ in range(2)
    )
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.privacy_.seeded


@pytest.mark.parametrize("name", ["SharedPrior", "MeanRegularized"])
@pytest.mark.parametrize(("n_tasks", "epsilon"), [(1, 1.0), (1, 1e6), (12, 0.5)])
def test_where_nothing_can_be_shared_nothing_is_spent(tmp_path, name, n_tasks, epsilon):
    made = datasets.make_low_rank(n_tasks, 20, 4, random_state=0).train
    ledger = Ledger(tmp_path / "ledger", epsilon=1.0, delta=1e-5)
    estimator = getattr(tacit, f"{name}Regressor")(epsilon, ledger=ledger)
    shared = estimator.fit(made.X, made.y, tasks=made.task_of_row)
    alone = tacit.SingleTaskRegressor().fit(made.X, made.y, tasks=made.task_of_row)
    np.testing.assert_array_equal(shared.coef_, alone.coef_)
    assert shared.privacy_ == alone.privacy_
    assert shared.privacy_.epsilon == 0
    assert len(shared.billboard_) == 0
    assert ledger.spent().epsilon == 0
    assert estimator.plan(n_tasks, 4).epsilon == 0
    shared.fit_task(made.X[:9], made.y[:9], name="late")
    assert np.isfinite(shared.coef_[-1]).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clip": -1.0}, "clip=-1.0"),
        ({"mechanism": "wishart"}, "mechanism='wishart'"),
        ({"mechanism": "gaussian", "delta": 0}, "has no pure ε"),
        ({"epsilon": 0.0}, "epsilon=0.0"),
    ],
)
def test_bad_parameters_are_named_with_a_remedy(options, message):
    with pytest.raises(InvalidInput, match=message):
        tacit.SharedPriorRegressor(**options).fit(np.eye(3), np.arange(3.0))


@pytest.mark.slow
def test_school_at_the_budgets_of_the_goals(data):
    school = data("school")
    X = np.array(school.X, dtype=float)
    X[:, 3:5] /= 100.0  # percentages as fractions
    tasks = tacit.TaskSet.from_arrays(X, np.asarray(school.y, dtype=float), school.tasks)
    errors = {1.0: [], 10.0: []}
    for draw in range(5):
        train, test = tasks.split(test_size=0.7, random_state=draw)
        for epsilon, found in errors.items():
            model = tacit.SharedPriorRegressor(epsilon, random_state=draw)
            found.append(_error(model, train, test))
    assert np.mean(errors[1.0]) <= 0.69
    assert np.mean(errors[10.0]) <= 0.67


@pytest.mark.slow
def test_few_tasks_never_lose_more_than_a_hair_on_landmine(data):
    landmine = data("landmine")
    tasks = tacit.TaskSet.from_arrays(
        np.asarray(landmine.X, dtype=float), np.asarray(landmine.y, dtype=float), landmine.tasks
    )
    train, test = tasks.split(test_size=0.7, random_state=0)

    def auc(model):
        model.fit(train.X, train.y, tasks=train.task_of_row)
        scores = model.decision_function(test.X, tasks=test.task_of_row)
        parts = [slice(*test.offsets[i : i + 2]) for i in range(test.n_tasks)]
        return np.mean([roc_auc_score(test.y[p], scores[p]) for p in parts])

    alone = auc(tacit.SingleTaskClassifier())
    for epsilon in (0.1, 1.0, 10.0, 30.0):
        assert auc(tacit.SharedPriorClassifier(epsilon, random_state=0)) >= alone - 0.005
