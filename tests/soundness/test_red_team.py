"""What a second attack on the merged code found: each was a way past a stated guarantee."""

import functools

import numpy as np
import pytest
from dp_accounting import dp_event

import tacit
from tacit.engines import Checkpoint
from tacit.errors import InvalidInput, LedgerError
from tacit.model_selection import GridSearch, cross_validate
from tacit.privacy import Ledger
from tacit.privacy.noise.entropy import KeyedEntropy
from tacit.privacy.unit import Unit
from tacit.tuning import PrivateSearch


def rows():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(80, 3)), np.repeat(np.arange(8), 10)
    return X, X[:, 0] + 0.1 * rng.normal(size=80), task


@pytest.mark.parametrize(
    "name",
    [n for n in tacit.ESTIMATORS if getattr(getattr(tacit, n), "_unit", None) is Unit.ROW],
)
def test_a_search_over_what_protects_rows_does_not_state_that_tasks_are_protected(name):
    X, y, task = rows()
    search = PrivateSearch(getattr(tacit, name)(), {"row_norm": [1.0]}, epsilon=1.0, delta=1e-5)
    with pytest.raises(InvalidInput, match="protects rows"):
        search.fit(X, y > 0 if name.endswith(("Classifier", "Regression")) else y, tasks=task)


@pytest.mark.parametrize("labels", [[0, 0], [1, 1.0, True], [0] * 50])
@pytest.mark.parametrize("kind", ["TransferClassifier", "FeatureSplitTransferClassifier"])
def test_a_source_named_twice_is_not_released_twice_for_one_charge(kind, labels):
    X, y, task = rows()
    ledger = Ledger(":memory:", epsilon=1.0, delta=0.0)
    model = getattr(tacit, kind)(epsilon=1.0, delta=0.0, ledger=ledger)
    with pytest.raises(InvalidInput, match="more than once"):
        model.fit(X, y > 0, tasks=task, source_task=labels)
    assert ledger.spent().epsilon == 0


@pytest.mark.parametrize("name", ["LowRankRegressor", "PrivateLogisticRegression"])
def test_a_key_is_no_random_state(name):
    X, y, task = rows()
    model = getattr(tacit, name)(random_state=KeyedEntropy(KeyedEntropy.new()))
    with pytest.raises(InvalidInput, match="repeats its noise"):
        model.fit(X, y > 0 if name.endswith("Regression") else y, tasks=task)


@pytest.mark.parametrize("more", [0, 1])
def test_whether_a_search_runs_does_not_tell_how_many_rows_a_task_has(more):
    """Everybody else has one row; whether the search ran told if one task had a second."""
    task = np.concatenate([np.arange(30), np.zeros(more, dtype=int)])
    X = np.random.default_rng(0).normal(size=(len(task), 2))
    ledger = Ledger(":memory:", epsilon=1.0, delta=1e-5)
    search = PrivateSearch(
        *(tacit.LowRankRegressor(), {"fit_intercept": [True, False]}),
        epsilon=1.0,
        delta=1e-5,
        mean_runs=1.5,
        ledger=ledger,
    )
    search.fit(X, X[:, 0], tasks=task)
    assert np.isfinite(search.best_score_)
    assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-2)


def _search(model, ledger):
    return PrivateSearch(model, {"fit_intercept": [True]}, delta=1e-5, ledger=ledger).fit


def _grid(model, ledger):
    return GridSearch(model, {"fit_intercept": [True]}, cv=2, ledger=ledger).fit


def _validation(model, ledger):
    return functools.partial(cross_validate, model, cv=2, ledger=ledger)


@pytest.mark.parametrize("as_path", [True, False])
@pytest.mark.parametrize("fits", [_search, _grid, _validation])
def test_the_ledger_that_an_estimator_brings_is_charged_or_refused(fits, as_path, tmp_path):
    X, y, task = rows()
    path = tmp_path / "study.db"
    with (
        Ledger(path, epsilon=1.0, delta=1e-5) as ledger,
        Ledger(tmp_path / "b.db", 9, 1e-5) as other,
    ):
        model = tacit.LowRankRegressor(delta=1e-5, ledger=path if as_path else ledger)
        for instead in (None, other):
            with pytest.raises(InvalidInput, match="would not be charged"):
                fits(model, instead)(X, y, tasks=task)
        assert ledger.spent().epsilon == other.spent().epsilon == 0
        model.set_params(epsilon=0.3)
        fits(model, str(path))(X, y, tasks=task)
        assert ledger.spent().epsilon > 0.3


@pytest.mark.parametrize("large", [1e8, 1e9, 2.0**40, 1e20])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", ["SharedPrior", "MeanRegularized", "SingleTask"])
def test_rows_of_one_direction_do_not_end_a_fit_with_intervals(name, intercept, large):
    """Rounding takes the prior out of such a task's posterior, whose matrix is singular then."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 12)
    X, y = rng.normal(size=(len(labels), 6)), rng.normal(size=len(labels))
    X[labels == 1] = large * 2.0 ** np.arange(6)
    private = {} if name == "SingleTask" else {"epsilon": 200.0, "random_state": 0}
    kind = getattr(tacit, f"{name}Regressor")
    model = kind(intervals=True, fit_intercept=intercept, **private).fit(X, y, tasks=labels)
    others = labels != 1
    _, deviation = model.predict(X[others], tasks=labels[others], return_std=True)
    assert np.isfinite(deviation).all()


def test_a_run_does_not_go_on_with_a_ledger_that_was_not_charged_for_its_releases(tmp_path):
    """It reserved anew there, and what had been released before stood in no ledger."""
    event = dp_event.GaussianDpEvent(10.0)
    kept = Checkpoint.begin(tmp_path / "unfinished")

    def reserve(ledger):
        facts = {"unit": "task", "adjacency": "replace-one"}
        return lambda run: ledger.reserve([event] * 2, **facts, run=run)

    def go_on(ledger, *, stop):
        with kept.held(ledger, reserve(ledger)) as billboard:
            billboard.post(np.zeros(2), event)
            if stop:
                raise KeyboardInterrupt

    first, second = (Ledger(tmp_path / name, epsilon=1.0, delta=1e-5) for name in ("a", "b"))
    with pytest.raises(KeyboardInterrupt):
        go_on(first, stop=True)
    with pytest.raises(LedgerError, match="does not hold the run"):
        go_on(second, stop=False)
    assert second.spent().epsilon == 0
    go_on(first, stop=False)
