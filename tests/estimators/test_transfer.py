"""SimComb and feature-split transfer: learning, statements, files and refusals."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import tacit
from tacit.errors import BudgetExceeded, InvalidInput, PrivacyLeak
from tacit.estimators import SourcePackage
from tacit.estimators.feature_split import public_importance
from tacit.privacy import Ledger

METHODS = [tacit.TransferClassifier, tacit.FeatureSplitTransferClassifier]
INF = float("inf")
both = pytest.mark.parametrize("method", METHODS)


def _rows(n_rows, seed, turn=0.0, n_features=10):
    """Rows of a task whose true direction is ``turn`` away from the source's."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    direction = np.linspace(1, 0, n_features) + turn * np.linspace(0, 1, n_features)
    return X, (X @ direction > 0).astype(int)


@both
def test_twenty_target_rows_are_enough_to_profit_from_a_source(method):
    source, (X, y), (test, label) = _rows(3000, 0), _rows(20, 1, 0.2), _rows(2000, 2, 0.2)
    accuracies, alone = [], []
    for seed in range(5):
        model = method(2.0, random_state=seed)
        accuracies.append(model.fit(X, y, source=model.fit_source(*source)).score(test, label))
        direct = tacit.PrivateLogisticRegression(2.0, random_state=seed).fit(X, y)
        alone.append(direct.score(test, label))
    assert np.mean(accuracies) > 0.7
    assert np.mean(accuracies) > np.mean(alone) + 0.1


@both
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_source_and_target_state_their_own_budgets(method, delta):
    package = method(3.0, delta, random_state=0).fit_source(*_rows(400, 0))
    X, y = _rows(100, 1)
    model = method(0.5, delta, random_state=0).fit(X, y, source=package)
    assert package.statement.epsilon == pytest.approx(3.0)
    assert model.privacy_.epsilon == pytest.approx(0.5)
    assert model.privacy_.delta == delta
    assert model.privacy_.unit == "row"
    assert model.source_privacy_ == (package.statement,)
    assert len(model.billboard_) == 1


@both
def test_without_privacy_nothing_is_claimed(method):
    model = method(INF)
    package = model.fit_source(*_rows(500, 0))
    X, y = _rows(300, 1)
    assert model.fit(X, y, source=package).score(X, y) > 0.8
    assert package.statement.definition == model.privacy_.definition == "none"


@both
def test_one_call_learns_from_the_big_task_for_all_others(method):
    parts = [_rows(2000, 0), _rows(40, 1), _rows(60, 2)]
    X, y = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    hospital = np.repeat(["big", "small", "middle"], [2000, 40, 60])
    frame = pl.DataFrame(X, schema=[f"f{i}" for i in range(10)]).with_columns(
        hospital=pl.Series(hospital)
    )
    model = method(2.0, random_state=0).fit(frame, y, tasks="hospital", source_task="big")
    assert set(model.task_names_) == {"small", "middle"}
    assert model.privacy_.epsilon == pytest.approx(2.0)
    assert model.source_privacy_[0].epsilon == pytest.approx(2.0)
    targets = frame.filter(pl.col("hospital") != "big")
    assert model.score(targets, y[hospital != "big"], tasks="hospital") > 0.6
    assert model.predict_proba(targets, tasks="hospital").shape == (100, 2)


@both
def test_without_a_source_the_target_learns_from_its_own_rows(method):
    X, y = _rows(2000, 0)
    model = method(5.0, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.packages_ == ()


@both
def test_several_sources_are_taken_together(method):
    model = method(1.0, random_state=0)
    packages = [method(1.0, random_state=seed).fit_source(*_rows(400, seed)) for seed in range(4)]
    X, y = _rows(30, 9)
    test, label = _rows(2000, 10)
    together = model.fit(X, y, source=packages).score(test, label)
    assert len(model.packages_) == 4
    alone = [clone(model).fit(X, y, source=one).score(test, label) for one in packages]
    assert together > np.mean(alone)


@both
def test_more_than_two_classes_transfer_one_against_the_rest(method):
    X, _ = _rows(3000, 0)
    y = np.array(["a", "b", "c"], dtype=object)[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = method(20.0, random_state=0)
    model.fit(X[:300], y[:300], source=model.fit_source(X[300:], y[300:]))
    assert model.score(X[:300], y[:300]) > 0.5
    assert model.predict_proba(X[:5]).shape == (5, 3)


@both
def test_packages_and_models_survive_their_files(method, tmp_path):
    model = method(2.0, random_state=0)
    package = model.fit_source(*_rows(300, 0))
    package.save(tmp_path / "package")
    X, y = _rows(60, 1)
    expected = model.fit(X, y, source=package).predict_proba(X)
    again = method(2.0, random_state=0).fit(X, y, source=SourcePackage.load(tmp_path / "package"))
    np.testing.assert_array_equal(again.predict_proba(X), expected)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(tacit.load(tmp_path / "model").predict_proba(X), expected)


@both
def test_a_party_gets_a_file_with_its_own_model_only(method, tmp_path):
    X, y = _rows(500, 0)
    tasks = np.repeat(["s", "t", "u"], [300, 100, 100])
    model = method(2.0, random_state=0).fit(X, y, tasks=tasks, source_task="s")
    model.save(tmp_path / "own", task="t")
    own = tacit.load(tmp_path / "own")
    mine = tasks == "t"
    np.testing.assert_array_equal(
        own.predict_proba(X[mine]), model.predict_proba(X[mine], tasks=tasks[mine])
    )


@both
def test_seeded_source_and_target_do_not_share_their_noise(method):
    model = method(0.001, random_state=0, fit_intercept=False)
    X, y = _rows(200, 0)
    package = model.fit_source(X, y)
    model.fit(X, y, source=package)
    source = np.concatenate([m[0] for m in package.models])
    target = model.billboard_.read(0)[0, : source.size] if method is METHODS[1] else model.coef_[0]
    pull = target - np.dot(target, source) / np.dot(source, source) * source
    assert np.linalg.norm(pull) > 1e-3 * np.linalg.norm(target)


@both
def test_a_target_of_one_class_only_still_gets_a_model(method):
    model = method(1.0, random_state=0)
    package = model.fit_source(*_rows(300, 0))
    X, _ = _rows(20, 1)
    model.fit(X, np.ones(20, dtype=int), source=package)
    assert model.classes_.tolist() == [0, 1]


@both
def test_a_ledger_counts_source_and_target_apart_where_they_have_names(method, tmp_path):
    ledger = Ledger(tmp_path / "ledger.db", epsilon=1.0, delta=0.0)
    package = method(1.0, ledger=ledger, data="bank").fit_source(*_rows(100, 0))
    model = method(1.0, ledger=ledger, data="shop").fit(*_rows(50, 1), source=package)
    assert {line.data for line in ledger.lines()} == {"bank", "shop"}
    with pytest.raises(BudgetExceeded):
        model.fit(*_rows(50, 1), source=package)


@both
def test_wrong_label_coding_is_refused(method):
    model = method(random_state=0)
    package = model.fit_source(*_rows(100, 0))
    X, y = _rows(30, 1)
    with pytest.raises(InvalidInput, match=r"class 2 is not one of the source's \[0, 1\]"):
        model.fit(X, y + 1, source=package)


@both
def test_a_package_of_other_features_or_rows_is_refused(method):
    model = method(random_state=0)
    X, y = _rows(100, 0)
    package = model.fit_source(pd.DataFrame(X, columns=list("abcdefghij")), y)
    with pytest.raises(InvalidInput, match="10 features, X has 9"):
        model.fit(X[:, :9], y, source=package)
    with pytest.raises(InvalidInput, match="same columns"):
        model.fit(pd.DataFrame(X, columns=list("bacdefghij")), y, source=package)
    with pytest.raises(InvalidInput, match="row_norm"):
        method(row_norm=2.0).fit(X, y, source=package)


@both
def test_a_package_with_an_edited_statement_is_refused(method):
    model = method(5.0, random_state=0)
    X, y = _rows(100, 0)
    package = model.fit_source(X, y)
    better = dataclasses.replace(package.statement, epsilon=0.1, seeded=False)
    with pytest.raises(PrivacyLeak, match="changed"):
        model.fit(X, y, source=dataclasses.replace(package, statement=better))


def test_packages_of_other_groups_are_refused():
    X, y = _rows(100, 0)
    package = tacit.FeatureSplitTransferClassifier(n_groups=3).fit_source(X, y)
    for model in (
        tacit.TransferClassifier(),
        tacit.FeatureSplitTransferClassifier(n_groups=4),
        tacit.FeatureSplitTransferClassifier(n_groups=3, split="random"),
    ):
        with pytest.raises(InvalidInput, match="feature groups that differ"):
            model.fit(X, y, source=package)


def test_fewer_target_rows_than_groups_are_refused():
    model = tacit.FeatureSplitTransferClassifier(n_groups=5)
    package = model.fit_source(*_rows(100, 0))
    X, y = _rows(4, 1)
    with pytest.raises(InvalidInput, match="4 rows for 5 groups"):
        model.fit(X, y, source=package)


@pytest.mark.parametrize(
    ("importance", "message"),
    [
        (np.zeros(10), "sums to 0"),
        (np.full(9, 1 / 9), "shape"),
        (np.append(np.full(8, 0.25), [-0.5, -0.5]), "at least 0"),
        (np.append(np.full(8, 0.125), [0.0, 0.0]), "importance 0"),
    ],
)
def test_bad_importances_are_refused(importance, message):
    with pytest.raises(InvalidInput, match=message):
        tacit.FeatureSplitTransferClassifier(importance=importance).fit_source(*_rows(50, 0))


def test_a_refused_fit_leaves_the_model_as_it_was():
    model = tacit.TransferClassifier(random_state=0)
    X, y = _rows(50, 0)
    package = model.fit_source(X, y)
    model.fit(X, y, source=package)
    before = model.coef_.copy()
    with pytest.raises(InvalidInput, match="not both"):
        model.fit(X, y, source=package, tasks=np.zeros(50), source_task=0.0)
    with pytest.raises(InvalidInput, match="not one of the tasks"):
        model.fit(X, y, tasks=np.zeros(50), source_task="elsewhere")
    with pytest.raises(InvalidInput, match="leave at least one"):
        model.fit(X, y, tasks=np.zeros(50), source_task=0.0)
    with pytest.raises(InvalidInput, match="needs tasks="):
        model.fit(X, y, source_task="a")
    with pytest.raises(InvalidInput, match="must be a SourcePackage"):
        model.fit(X, y, source=["package"])
    np.testing.assert_array_equal(model.coef_, before)


def test_eta_outside_the_unit_interval_is_refused():
    with pytest.raises(InvalidInput, match="must be at most 1"):
        tacit.TransferClassifier(eta=1.5).fit_source(*_rows(20, 0))


def test_public_importance_is_the_share_of_variance():
    X = np.array([[0.0, 0.0], [2.0, 4.0]])
    np.testing.assert_allclose(public_importance(X), [0.2, 0.8])
    with pytest.raises(InvalidInput, match="public rows"):
        public_importance(np.ones((3, 2)))


def test_rows_beyond_the_norm_are_counted_at_the_target():
    X, y = _rows(40, 0)
    X /= 100
    X[:5] *= 1e4
    model = tacit.FeatureSplitTransferClassifier(rows="clip", random_state=0)
    model.fit(X, y, source=model.fit_source(X, y))
    assert model.n_clipped_rows_ == 5
