"""No label can change the shape of a model, or stop a run, once the classes are declared."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import tacit
from tacit.tuning import PrivateSearch

CLASSIFIERS = [name for name in tacit.ESTIMATORS if hasattr(getattr(tacit, name), "predict_proba")]
STRANGERS = ["martian", 3.5, None, float("nan"), ("a", "b")]


def data(n_rows=20, n_tasks=4):
    random = np.random.default_rng(0)
    X = random.standard_normal((n_tasks * n_rows, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no").tolist(), np.repeat(np.arange(n_tasks), n_rows)


def test_every_classifier_can_be_told_its_classes():
    assert len(CLASSIFIERS) >= 12
    for name in CLASSIFIERS:
        model = getattr(tacit, name)(classes=("no", "yes"))
        assert model.get_params()["classes"] == ("no", "yes")
        assert clone(model).classes == ("no", "yes")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_replaced_label_changes_neither_shape_nor_success(name):
    X, y, tasks = data()
    for classes in (("no", "yes"), ("no", "yes", "other")):
        model = getattr(tacit, name)(classes=classes)
        shape = model.fit(X, y, tasks=tasks).coef_.shape
        for stranger in STRANGERS:
            model.fit(X, [stranger, *y[1:]], tasks=tasks)
            assert model.coef_.shape == shape
            assert model.classes_.tolist() == sorted(classes)
            assert model.n_strangers_ == 1
    one_class = getattr(tacit, name)(classes=("no", "yes")).fit(X, ["no"] * len(y), tasks=tasks)
    assert one_class.coef_.shape == (4, 3)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_statement_says_whether_the_classes_were_declared(name):
    X, y, tasks = data()
    read = getattr(tacit, name)().fit(X, y, tasks=tasks).privacy_
    declared = getattr(tacit, name)(classes=("no", "yes")).fit(X, y, tasks=tasks).privacy_
    if not read.private:
        return  # it says already that nothing is protected
    assert any("read off the data" in text for text in read.not_protected)
    assert not any("classes" in text for text in read.assumptions)
    assert any("classes are public" in text for text in declared.assumptions)
    assert not any("read off" in text for text in declared.not_protected)


def test_a_stranger_counts_as_the_class_declared_last():
    X, y, tasks = data()
    strange = ["?" if label == "yes" else label for label in y]
    told = tacit.SingleTaskClassifier(classes=("no", "yes"))
    assert_array_equal(
        told.fit(X, strange, tasks=tasks).coef_, clone(told).fit(X, y, tasks=tasks).coef_
    )
    turned = tacit.SingleTaskClassifier(classes=("yes", "no")).fit(X, strange, tasks=tasks)
    assert set(turned.predict(X, tasks=tasks)) == {"no"}
    assert told.score(X, strange, tasks=tasks) == told.score(X, y, tasks=tasks)


@pytest.mark.parametrize(
    "labels", [[0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [False, True, True, False], ["0", "1", "1", "0"]]
)
def test_labels_are_matched_by_value_and_then_by_text(labels):
    X = np.array([[-1.0], [1.0], [2.0], [-2.0]])
    for y in (labels, np.array(labels)):
        model = tacit.SingleTaskClassifier(classes=(0, 1)).fit(X, y)
        assert model.n_strangers_ == 0
        assert_array_equal(model.predict(X), [0, 1, 1, 0])


def test_one_word_among_numbers_leaves_the_numbers_what_they_are():
    X, y, tasks = data()
    numbers = [int(label == "yes") for label in y]
    model = tacit.SingleTaskClassifier(classes=(0, 1))
    alone = clone(model).fit(X, numbers, tasks=tasks).coef_
    for y in (["x", *numbers[1:]], np.array(["x", *numbers[1:]])):
        assert_array_equal(model.fit(X, y, tasks=tasks).coef_[1:], alone[1:])


@pytest.mark.parametrize(
    "classes", ["ab", ("a",), ("a", "a"), ("a", 1), {"a", "b"}, 3, (0.0, float("nan")), (("a",), 1)]
)
def test_classes_that_say_too_little_are_refused(classes):
    X, y, _ = data()
    model = tacit.SingleTaskClassifier(classes=classes)
    with pytest.raises(tacit.errors.InvalidInput, match="classes="):
        model.fit(X, y)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("name", ["TransferClassifier", "FeatureSplitTransferClassifier"])
def test_a_target_counts_strangers_as_the_source_does(name):
    X, y, _ = data()
    model = getattr(tacit, name)(classes=("no", "yes"))
    package = model.fit_source(X, ["?", *y[1:]])
    assert package.classes.tolist() == ["no", "yes"]
    assert any("classes are public" in text for text in package.statement.assumptions)
    model.fit(X, [None, *y[1:]], source=package)
    assert model.classes_.tolist() == ["no", "yes"]
    undeclared = getattr(tacit, name)()
    with pytest.raises(tacit.errors.InvalidInput, match="declare them with classes="):
        undeclared.fit(X, ["?", *y[1:]], source=package)
    undeclared.fit(X, y, source=package)
    assert any("another one is refused" in text for text in undeclared.privacy_.not_protected)
    with pytest.raises(tacit.errors.InvalidInput, match="declare the same"):
        getattr(tacit, name)(classes=("a", "b")).fit(X, y, source=package)


def test_a_search_keeps_the_declared_classes_and_says_so():
    X, y, tasks = data()
    search = PrivateSearch(
        tacit.MeanRegularizedClassifier(classes=("no", "yes", "other")), {"clip": [1.0, 2.0]}
    )
    search.fit(X, ["?", *y[1:]], tasks=tasks)
    assert search.best_estimator_.coef_.shape == (4, 3, 3)
    assert any("classes are public" in text for text in search.privacy_.assumptions)


def _first_label(word):
    def change(name, rows):
        cells = rows[0].split(",")
        return [",".join([*cells[:-1], word]), *rows[1:]] if name == "P0" else rows

    return change


@pytest.mark.parametrize("word", ["maybe", "1", "yes"])
def test_on_the_command_line_a_stranger_counts_as_the_last_class(
    tacit_command, write_rows, tmp_path, word
):
    path = write_rows(target="class", change=_first_label(word))
    given = ("--task", "party", "--target", "outcome", "--method", "mean-regularized", "--yes")
    tacit_command("fit", path, *given, "--classes", "no,yes", "--out", "run")
    model = tacit.load(tmp_path / "run")
    assert model.coef_.shape == (4, 2)
    assert model.classes_.tolist() == ["no", "yes"]
    statement = json.loads((tmp_path / "run" / "statement.json").read_text(encoding="utf-8"))
    assert not any("read off" in text for text in statement["not_protected"])
    tacit_command("report", "run", "--data", path, "--out", "scored.html", "--quiet")


def test_on_the_command_line_undeclared_classes_are_called_unprotected(
    tacit_command, write_rows, tmp_path
):
    given = ("--task", "party", "--target", "outcome", "--method", "mean-regularized", "--yes")
    tacit_command("fit", write_rows(target="class"), *given, "--out", "run")
    statement = json.loads((tmp_path / "run" / "statement.json").read_text(encoding="utf-8"))
    said = [text for text in statement["not_protected"] if "read off" in text]
    assert len(said) == 2  # the set of classes, and that the target is a class at all
    refused = tacit_command("fit", "data.csv", *given, "--classes", "no", "--out", "x", code=2)
    assert "--classes 'no'" in refused.stderr
