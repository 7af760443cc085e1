"""Asynchronous estimators: no harm, honest statements, every option by its name."""

import numpy as np
import pytest

import tacit
from tacit.engines import Away, Clock, Delay
from tacit.errors import InvalidInput, PrivacyWarning
from tacit.privacy import Adjacency, Ledger
from tacit.privacy.unit import Unit

N_TASKS = 12


def data(seed=0, *, n_rows=60, d=6, common=1.0, apart=0.3, classes=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), n_rows)
    W = common * rng.standard_normal(d) + apart * rng.standard_normal((N_TASKS, d))

    def rows(tasks):
        X = rng.standard_normal((len(tasks), d))
        z = np.einsum("nd,nd->n", X, W[tasks]) / 6
        y = z + 0.3 * rng.standard_normal(len(tasks))
        return X, np.digitize(y, np.linspace(-0.3, 0.3, classes - 1)) if classes else y, tasks

    return rows(task), rows(np.repeat(np.arange(N_TASKS), 100))


def error(model, parts):
    (X, y, task), (X_test, y_test, task_test) = parts
    model.fit(X, y, tasks=task)
    return float(np.mean((model.predict(X_test, tasks=task_test) - y_test) ** 2))


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 10.0])
@pytest.mark.parametrize("common", [1.0, 0.0])
def test_default_does_no_harm_to_single_task_learning(common, epsilon):
    ratios = []
    for seed in range(3):
        parts = data(seed, common=common, apart=1.0 - 0.7 * common)
        alone = error(tacit.SingleTaskRegressor(), parts)
        model = tacit.AsynchronousRegressor(epsilon, random_state=seed)
        ratios.append(error(model, parts) / alone)
    assert np.mean(ratios) < 1.01


def test_many_rows_and_few_of_them_alone_make_it_pay():
    parts = data(1, n_rows=25, d=20, apart=0.1)
    alone = error(tacit.SingleTaskRegressor(), parts)
    free = error(tacit.AsynchronousRegressor(float("inf"), n_rounds=60), parts)
    assert free < 0.97 * alone
    summed = tacit.AsynchronousRegressor(10.0, aggregation="trusted", random_state=0)
    assert error(summed, parts) < 0.97 * alone


def test_the_statement_names_row_server_and_whole_run():
    (X, y, task), _ = data()
    model = tacit.AsynchronousRegressor(3.0).fit(X, y, tasks=task)
    stated = model.privacy_
    assert stated.holds
    assert (stated.unit, stated.curator) == (Unit.ROW, "untrusted")
    assert stated.n_releases == 20
    assert len(model.billboard_) == 20 * N_TASKS
    assert "when a task speaks" in str(stated)
    course = model._staged(model._sizes)[1].course(Unit.ROW, stated.delta)
    assert course[-1][1] == stated.epsilon
    assert course[0][0] == course[0][1] < 0.3 * stated.epsilon  # what a single step would claim
    assert [total for _, total in course] == sorted(total for _, total in course)


def test_pure_epsilon_takes_gamma_vectors_and_rows_that_toss_coins_are_amplified():
    (X, y, task), _ = data()
    pure = tacit.AsynchronousRegressor(3.0, delta=0.0).fit(X, y, tasks=task)
    assert pure.privacy_.mechanisms == ("gamma-vector",)
    assert pure.privacy_.delta == 0
    sampled = tacit.AsynchronousRegressor(3.0, sampling=0.25, n_rounds=4).fit(X, y, tasks=task)
    assert sampled.privacy_.adjacency is Adjacency.ZERO_OUT
    assert sampled.privacy_.mechanisms == ("poisson-gaussian",)
    assert 2.9 < sampled.privacy_.epsilon <= 3.0


@pytest.mark.parametrize("unit", ["row", "task"])
@pytest.mark.parametrize("aggregation", ["trusted", "secure"])
def test_a_trusted_server_adds_noise_once(aggregation, unit):
    (X, y, task), _ = data()
    options = {"aggregation": aggregation, "unit": unit, "n_rounds": 5, "gate": False}
    model = tacit.AsynchronousRegressor(3.0, **options).fit(X, y, tasks=task)
    assert len(model.billboard_) == 5
    assert model.privacy_.unit is Unit(unit)
    assert model.privacy_.curator == ("trusted" if aggregation == "trusted" else "secure sums")
    assert all(posting.value.shape == (1, 7) for posting in model.billboard_)


def test_the_printed_scheme_answers_to_its_full_name_and_claims_nothing():
    (X, y, task), _ = data()
    name = "asynchronous-per-iteration-published"
    model = tacit.AsynchronousRegressor(20.0, delta=0.0, mechanism=name, random_state=0)
    with pytest.warns(PrivacyWarning, match="q carries the data"):
        model.fit(X, y, tasks=task)
    assert not model.privacy_.sound
    assert not model.privacy_.holds
    scales = []
    for split in (0.2, 0.8):
        with pytest.warns(PrivacyWarning):
            changed = model.set_params(split=split).fit(X, y, tasks=task)
        scales.append(changed.history_[0]["scale"])
    assert scales[1] == pytest.approx(4 * scales[0])  # ε₂ = (1 − split) ε


def test_a_clock_changes_the_order_and_not_what_is_guaranteed():
    (X, y, task), _ = data()
    clock = Clock(Delay("heavy", 1.0), stragglers={0: 5.0}, away={3: Away(20.0)})
    usual = tacit.AsynchronousRegressor(3.0, random_state=0).fit(X, y, tasks=task)
    timed = tacit.AsynchronousRegressor(3.0, random_state=0, engine=clock).fit(X, y, tasks=task)
    assert timed.privacy_.epsilon == usual.privacy_.epsilon
    assert [row["task"] for row in timed.history_] != [row["task"] for row in usual.history_]
    again = tacit.AsynchronousRegressor(3.0, random_state=0, engine=clock).fit(X, y, tasks=task)
    assert again.billboard_.head == timed.billboard_.head
    together = Clock(synchronous=True)
    step = tacit.AsynchronousRegressor(3.0, random_state=0, engine=together).fit(X, y, tasks=task)
    assert len(step.billboard_) == 20
    assert step.privacy_.epsilon == usual.privacy_.epsilon


def test_stopping_early_is_read_off_releases_and_spends_everything(tmp_path):
    (X, y, task), _ = data()
    spent = []
    for tolerance in (0.0, 1e6):
        ledger = Ledger(tmp_path / f"{tolerance}.db", epsilon=5.0, delta=1e-3)
        model = tacit.AsynchronousRegressor(3.0, tolerance=tolerance, ledger=ledger)
        model.fit(X, y, tasks=task)
        assert model.privacy_.epsilon == pytest.approx(3.0)
        spent.append(ledger.spent().epsilon)
    assert len(model.billboard_) == N_TASKS + 19
    assert spent[0] == spent[1]


def test_classes_travel_in_one_release_a_turn():
    (X, y, task), (X_test, y_test, task_test) = data(classes=3)
    model = tacit.AsynchronousClassifier(20.0, classes=(0, 1, 2)).fit(X, y, tasks=task)
    assert model.billboard_[0].value.shape == (3, 7)
    assert model.score(X_test, y_test, tasks=task_test) > 0.5
    two = tacit.AsynchronousClassifier(20.0, classes=(0, 1)).fit(X, (y > 0).astype(int), tasks=task)
    assert two.billboard_[0].value.shape == (1, 7)


def test_a_task_nobody_has_seen_is_answered_from_releases():
    (X, y, task), _ = data()
    model = tacit.AsynchronousRegressor(30.0, unknown_task="shared").fit(X, y, tasks=task)
    assert np.isfinite(model.predict(X[:3], tasks=["new"] * 3)).all()


@pytest.mark.parametrize(
    ("parameter", "value", "words"),
    [
        ("shared", "trace", "shared"),
        ("own", "l1", "own"),
        ("relaxation", 2.0, "between 0 and 2"),
        ("sampling", 1.5, "sampling"),
        ("local_steps", 3, "must divide"),
        ("unit", "task", "use aggregation"),
        ("aggregation", "none", "aggregation"),
        ("mechanism", "laplace", "mechanism"),
        ("split", 1.0, "split"),
        ("step", -1.0, "step"),
    ],
)
def test_bad_parameters_are_refused_by_name(parameter, value, words):
    (X, y, task), _ = data()
    with pytest.raises(InvalidInput, match=words):
        tacit.AsynchronousRegressor(**{parameter: value}).fit(X, y, tasks=task)
