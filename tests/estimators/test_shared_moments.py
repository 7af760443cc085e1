"""SharedMomentsRegressor and SharedMomentsClassifier, from the outside."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import tacit
from tacit.errors import BudgetExceeded, InvalidInput, UnknownTask
from tacit.methods import advise
from tacit.privacy import Ledger

OPTIONS = {"delta": 1e-5, "row_norm": 3.0, "random_state": 0}


def made(n_sites, n_rows, d=6, *, classes=False, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_sites), n_rows)
    W = rng.standard_normal(d) + 0.15 * rng.standard_normal((n_sites, d))
    X = rng.standard_normal((len(task), d))
    score = np.einsum("nd,nd->n", X, W[task]) + rng.standard_normal(n_sites)[task]
    if classes:
        return X, (rng.random(len(task)) < 1 / (1 + np.exp(-score))).astype(int), task
    return X, (score + 2.5 * rng.standard_normal(len(task))) / 8, task


@pytest.fixture(scope="module")
def hospitals():
    """Twenty sites of 30 rows to learn from, and many to judge by."""
    X, y, task = made(20, 330)
    train = np.tile(np.arange(330) < 30, 20)
    return (X[train], y[train], task[train]), (X[~train], y[~train], task[~train])


def error(model, data):
    train, test = data
    model.fit(*train[:2], tasks=train[2])
    return float(np.mean((model.predict(test[0], tasks=test[2]) - test[1]) ** 2) / test[1].var())


@pytest.fixture(scope="module")
def alone(hospitals):
    return error(tacit.SingleTaskRegressor(), hospitals)


@pytest.mark.parametrize(
    ("aggregation", "epsilon", "share"),
    [("untrusted", 10.0, 0.98), ("trusted", 1.0, 0.98), ("secure", 1.0, 0.98)],
)
def test_twenty_sites_gain_with_their_rows_protected(hospitals, alone, aggregation, epsilon, share):
    errors = []
    for seed in range(3):
        options = OPTIONS | {"random_state": seed}
        model = tacit.SharedMomentsRegressor(epsilon, aggregation=aggregation, **options)
        errors.append(error(model, hospitals))
        assert model.privacy_.epsilon <= epsilon
    assert np.mean(errors) < share * alone


@pytest.mark.parametrize("gate", [True, False])
@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 0.5])
def test_little_budget_does_no_harm(hospitals, alone, epsilon, gate):
    model = tacit.SharedMomentsRegressor(epsilon, gate=gate, **OPTIONS)
    assert error(model, hospitals) < 1.02 * alone


def unhelpful(kind, seed):
    """Return sites that have no model, or none of their raw rows, in common; 12 or 30 rows each."""
    rng = np.random.default_rng(seed)
    n_sites, d = 60, 6
    n_rows = 30 if kind == "rare labels" else 12
    task = np.repeat(np.arange(n_sites), n_rows + 40)
    X = rng.standard_normal((len(task), d))
    W = rng.standard_normal((n_sites, d))
    if kind == "directions":
        W = rng.standard_normal((n_sites, 2)) @ np.linalg.qr(rng.standard_normal((d, 2)))[0].T
    elif kind == "groups":
        W = rng.standard_normal((4, d))[rng.integers(4, size=n_sites)]
    elif kind == "unscaled":
        W = rng.standard_normal(d) + 0.25 * W
    score = np.einsum("nd,nd->n", X, W[task])
    if kind == "unscaled":
        X = X * 10 ** rng.uniform(-1, 1, d)
    if kind == "rare labels":
        y = 1 * (rng.random(len(task)) < 1 / (1 + np.exp(3.2 - score)))
    else:
        y = score + rng.standard_normal(len(task))
    train = np.tile(np.arange(n_rows + 40) < n_rows, n_sites)
    return (X[train], y[train], task[train]), (X[~train], y[~train], task[~train])


def loss_of(model, data):
    (X, y, task), test = data
    model.fit(X, y, tasks=task)
    if hasattr(model, "decision_function"):
        score = model.decision_function(test[0], tasks=test[2])
        return float(np.mean(np.logaddexp(0, score) - test[1] * score))
    return float(np.mean((model.predict(test[0], tasks=test[2]) - test[1]) ** 2))


@pytest.mark.parametrize("aggregation", ["untrusted", "trusted"])
@pytest.mark.parametrize("kind", ["nothing", "directions", "groups", "unscaled", "rare labels"])
def test_sites_of_few_rows_are_not_harmed(kind, aggregation):
    ratios = []
    for seed in range(3):
        data, options = unhelpful(kind, seed), {"aggregation": aggregation, "random_state": seed}
        if kind == "rare labels":
            shared = tacit.SharedMomentsClassifier(1.0, classes=(0, 1), **options)
            alone = tacit.SingleTaskClassifier(classes=(0, 1))
        else:
            shared = tacit.SharedMomentsRegressor(1.0, target_bound=6.0, **options)
            alone = tacit.SingleTaskRegressor()
        ratios.append(loss_of(shared, data) / loss_of(alone, data))
    assert np.mean(ratios) < 1.01


def drowned(seed, *, classes=False):
    """Return sites whose rows, of length 1, differ by two features that tell no answer apart.

    Two percentages are alike within a site and dominate a row's length; what tells answers are ten
    marks of 0 or 1, of which little is left beside them. 15 rows each, 40 with labels.
    """
    rng = np.random.default_rng(seed)
    n_sites, n_rows, n_test = 60, 40 if classes else 15, 60
    task = np.repeat(np.arange(n_sites), n_rows + n_test)
    percent = 50 + 20 * rng.standard_normal((n_sites, 2))[task]
    percent = np.clip(percent + 5 * rng.standard_normal(percent.shape), 0, 100)
    marks = (rng.random((len(task), 10)) < rng.uniform(0.05, 0.5, 10)).astype(float)
    W = rng.standard_normal(10) + rng.standard_normal((n_sites, 10))
    score = np.einsum("nd,nd->n", marks - marks.mean(axis=0), W[task])
    score /= score.std()
    if classes:
        y = 1 * (rng.random(len(task)) < 1 / (1 + np.exp(-4 * score)))
    else:
        y = 20 + 12 * score + 7 * rng.standard_normal(len(task))
    X = np.concatenate([percent, marks], axis=1)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    train = np.tile(np.arange(n_rows + n_test) < n_rows, n_sites)
    return (X[train], y[train], task[train]), (X[~train], y[~train], task[~train])


@pytest.mark.parametrize("aggregation", ["untrusted", "trusted"])
@pytest.mark.parametrize("classes", [False, True])
def test_sites_are_not_harmed_where_their_own_rows_hardly_differ_in_common_units(
    classes, aggregation
):
    ratios = []
    for seed in range(3):
        data, options = drowned(seed, classes=classes), {"aggregation": aggregation}
        if classes:
            shared = tacit.SharedMomentsClassifier(10.0, classes=(0, 1), random_state=0, **options)
            alone = tacit.SingleTaskClassifier(classes=(0, 1))
        else:
            shared = tacit.SharedMomentsRegressor(
                10.0, target_bound=200.0, random_state=0, **options
            )
            alone = tacit.SingleTaskRegressor()
        ratios.append(loss_of(shared, data) / loss_of(alone, data))
    assert np.mean(ratios) < 1.01


def test_a_closed_gate_spends_nothing_and_is_single_task_learning(hospitals, alone, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    model = tacit.SharedMomentsRegressor(0.01, ledger=ledger, **OPTIONS)
    assert error(model, hospitals) == pytest.approx(alone, rel=0.01)
    assert len(model.billboard_) == 0
    assert model.privacy_.epsilon == 0
    assert ledger.spent().epsilon == 0


def test_the_gate_knows_public_numbers_only(hospitals):
    (X, y, task), _ = hospitals
    first = tacit.SharedMomentsRegressor(0.5, **OPTIONS).fit(X, y, tasks=task)
    second = tacit.SharedMomentsRegressor(0.5, **OPTIONS).fit(-7 * X, y[::-1], tasks=task)
    assert len(first.billboard_) == len(second.billboard_)


def test_statement_and_ledger_speak_of_rows(hospitals, tmp_path):
    (X, y, task), _ = hospitals
    ledger = Ledger(tmp_path / "ledger.db", epsilon=3.0, delta=1e-5)
    options = OPTIONS | {"random_state": None, "ledger": ledger}
    model = tacit.SharedMomentsRegressor(3.0, **options).fit(X, y, tasks=task)
    assert model.privacy_.holds
    assert model.privacy_.unit == "row"
    assert model.privacy_.n_units == len(X)
    assert model.privacy_.curator == "untrusted"
    assert model.privacy_.definition == "joint differential privacy"
    assert model.privacy_.epsilon == pytest.approx(3.0, rel=1e-6)
    assert ledger.spent(unit="row").epsilon == pytest.approx(3.0, rel=1e-6)
    assert model.billboard_[0].value.shape == (20, 6 + 1 + 2)
    assert model.billboard_[1].value.shape == (20, 8, 8)
    with pytest.raises(BudgetExceeded):
        model.fit(X, y, tasks=task)


def test_who_adds_the_noise_is_stated(hospitals):
    (X, y, task), _ = hospitals
    said = {}
    for aggregation in ("untrusted", "trusted", "secure"):
        model = tacit.SharedMomentsRegressor(2.0, aggregation=aggregation, **OPTIONS)
        said[aggregation] = model.fit(X, y, tasks=task).privacy_
    assert [one.curator for one in said.values()] == ["untrusted", "trusted", "secure sums"]
    assert "secure sums" in said["secure"].explain()
    assert "server included" in said["untrusted"].explain()


def test_classes_are_told_apart_better_together():
    X, y, task = made(12, 340, classes=True)
    train = np.tile(np.arange(340) < 40, 12)
    scores = {}
    for name, model in {
        "alone": tacit.SingleTaskClassifier(classes=(0, 1)),
        "once": tacit.SharedMomentsClassifier(
            3.0, aggregation="trusted", classes=(0, 1), n_moments=1, **OPTIONS
        ),
        "twice": tacit.SharedMomentsClassifier(
            3.0, aggregation="trusted", classes=(0, 1), n_moments=2, **OPTIONS
        ),
    }.items():
        model.fit(X[train], y[train], tasks=task[train])
        found = model.decision_function(X[~train], tasks=task[~train])
        areas = [
            roc_auc_score(y[~train][task[~train] == t], found[task[~train] == t]) for t in range(12)
        ]
        scores[name] = np.mean(areas)
    assert scores["once"] > scores["alone"] + 0.01
    assert scores["twice"] > scores["alone"] + 0.01


def test_three_classes_share_one_set_of_moments():
    X, score, task = made(10, 80)
    y = np.digitize(score, [-0.1, 0.1])
    model = tacit.SharedMomentsClassifier(3.0, classes=(0, 1, 2), **OPTIONS)
    model.fit(X, y, tasks=task)
    assert model.coef_.shape == (10, 3, 6)
    assert model.billboard_[1].value.shape == (10, 6 + 1 + 3, 6 + 1 + 3)
    assert model.score(X, y, tasks=task) > 0.5


def test_unknown_sites_are_answered_by_the_released_model(hospitals):
    train, test = hospitals
    model = tacit.SharedMomentsRegressor(10.0, unknown_task="shared", **OPTIONS)
    model.fit(*train[:2], tasks=train[2])
    predicted = model.predict(test[0], tasks=np.full(len(test[1]), 99))
    assert np.mean((predicted - test[1]) ** 2) < test[1].var()
    strict = tacit.SharedMomentsRegressor(10.0, **OPTIONS).fit(*train[:2], tasks=train[2])
    with pytest.raises(UnknownTask):
        strict.predict(test[0][:1], tasks=[99])


def test_pure_privacy_is_offered(hospitals):
    (X, y, task), _ = hospitals
    model = tacit.SharedMomentsRegressor(30.0, delta=0.0, row_norm=3.0).fit(X, y, tasks=task)
    assert model.privacy_.delta == 0
    assert model.privacy_.epsilon <= 30.0 * (1 + 1e-9)
    assert "two-sided-wishart" in model.privacy_.mechanisms


@pytest.mark.parametrize("kind", ["flipped", "huge", "constant"])
def test_one_hostile_site_costs_the_others_nothing(hospitals, alone, kind):
    (X, y, task), test = hospitals
    X, y, bad = X.copy(), y.copy(), task == 3
    if kind == "flipped":
        y[bad] *= -1
    elif kind == "huge":
        X[bad], y[bad] = 1e6 * X[bad], -1e6 * y[bad]
    else:
        X[bad], y[bad] = 1.0, -1.0
    model = tacit.SharedMomentsRegressor(10.0, **OPTIONS).fit(X, y, tasks=task)
    kept = test[2] != 3
    left = tuple(part[kept] for part in test)
    single = tacit.SingleTaskRegressor().fit(X, y, tasks=task)
    errors = [
        np.mean((one.predict(left[0], tasks=left[2]) - left[1]) ** 2) for one in (model, single)
    ]
    assert errors[0] < 1.02 * errors[1]


def test_a_plan_needs_the_number_of_rows():
    model = tacit.SharedMomentsRegressor(1.0)
    with pytest.raises(InvalidInput, match="n_rows"):
        model.plan(20, 6)
    made = model.plan(20, 6, n_rows=4000)
    assert made.unit == "row"
    assert [release.name for release in made.releases] == ["means", "moments", "moments again"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"aggregation": "anybody"}, "aggregation"),
        ({"row_norm": -1.0}, "row_norm"),
        ({"target_bound": 0.0}, "target_bound"),
        ({"n_moments": 3}, "n_moments"),
        ({"mechanism": "gaussian", "delta": 0.0}, "mechanism"),
    ],
)
def test_bad_parameters_are_named(hospitals, options, match):
    (X, y, task), _ = hospitals
    with pytest.raises(InvalidInput, match=match):
        tacit.SharedMomentsRegressor(**options).fit(X, y, tasks=task)


def test_rows_of_many_features_are_advised_to_speak_by_gradients():
    few, many, none = (
        advise(20, d, protect="row", n_rows=n) for d, n in ((100, 20_000), (101, 20_000), (101, 40))
    )
    assert few.method == "shared-moments"
    assert many.method == "asynchronous"
    assert none.method == "single-task"
