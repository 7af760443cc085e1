"""What a page says of rows that are handed in: measures, intervals, comparisons, who gains."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn import metrics

import tacit
from tacit.errors import InvalidInput
from tacit.report.evaluation import evaluate
from tacit.report.measures import Answers, Resampled, measured


@pytest.fixture(scope="module")
def crowd():
    made = tacit.datasets.make_low_rank(
        120, 12, 6, n_test_rows=8, similarity=0.9, signal=4.0, random_state=0
    )
    names = np.array([f"clinic {number}" for number in range(120)])
    return tuple((part.X, part.y, names[part.task_of_row]) for part in (made.train, made.test))


@pytest.fixture(scope="module")
def regressor(crowd):
    X, y, tasks = crowd[0]
    return tacit.SharedPriorRegressor(epsilon=4.0).fit(X, y, tasks=tasks)


@pytest.fixture(scope="module")
def classifier(crowd):
    X, y, tasks = crowd[0]
    model = tacit.SharedPriorClassifier(epsilon=8.0, classes=("no", "yes"))
    return model.fit(X, np.where(y > 0, "yes", "no"), tasks=tasks)


def _by_name(evaluation):
    return {measure.name: measure for measure in evaluation.measures}


def test_measures_of_a_regressor_are_those_of_scikit_learn_inside_their_intervals(crowd, regressor):
    X, y, tasks = crowd[1]
    found = _by_name(evaluate(regressor, X, y, tasks, {}, None))
    answers = regressor.predict(X, tasks=tasks)
    expected = {
        "RMSE": metrics.root_mean_squared_error(y, answers),
        "MAE": metrics.mean_absolute_error(y, answers),
        "R²": metrics.r2_score(y, answers),
    }
    for name, value in expected.items():
        assert found[name].values[0] == pytest.approx(value)
        assert found[name].low[0] < value < found[name].high[0]


def test_measures_of_a_classifier_are_those_of_scikit_learn(crowd, classifier):
    X, y, tasks = crowd[1]
    labels = np.where(y > 0, "yes", "no")
    evaluation = evaluate(classifier, X, labels, tasks, {}, None)
    found, shares = _by_name(evaluation), classifier.predict_proba(X, tasks=tasks)
    assert found["AUC"].values[0] == pytest.approx(metrics.roc_auc_score(labels, shares[:, 1]))
    assert found["Log loss"].values[0] == pytest.approx(metrics.log_loss(labels, shares))
    assert found["Wrong answers"].values[0] == pytest.approx(
        1 - metrics.accuracy_score(labels, classifier.predict(X, tasks=tasks))
    )
    label, rate = evaluation.base_rate
    assert rate == pytest.approx(max(np.mean(labels == "yes"), np.mean(labels == "no")))
    assert np.mean(labels == label) == rate


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    random, inside = np.random.default_rng(0), 0
    for _ in range(200):  # 40 tasks whose rows resemble each other; the true mean error is 1
        level = random.gamma(4, 0.25, size=40)
        index = np.repeat(np.arange(40), 10)
        gaps = np.sqrt(level[index])
        (_, mean_error, _), _ = measured(np.zeros(400), [Answers(gaps**2)], Resampled(index))
        inside += bool(mean_error.low[0] < 1 < mean_error.high[0])
    assert 175 <= inside <= 199  # of 200 at 95 %; few tasks make a bootstrap a little short


def test_probabilities_that_mean_what_they_say_have_a_small_calibration_error():
    random = np.random.default_rng(0)
    p = random.uniform(size=20_000)
    y = (random.uniform(size=20_000) < p).astype(int)
    index = np.arange(20_000) % 50

    def error(shares):
        answers = Answers((shares > 0.5).astype(int), np.column_stack([1 - shares, shares]))
        return {m.name: m for m in measured(y, [answers], Resampled(index))[0]}["Calibration error"]

    assert error(p).values[0] < 0.02
    assert error(np.clip(2 * p - 0.5, 0.01, 0.99)).values[0] > 0.1


def test_rows_alone_bring_the_comparison_with_single_task_and_pooled(read, crowd, regressor):
    X, y, tasks = crowd[1]
    page = read(regressor, X=X, y=y, tasks=tasks)
    assert "single-task (these rows)" in page.said
    assert "pooled (these rows)" in page.said
    assert "in folds" in page.said
    like = read(regressor, X=X, y=y, tasks=tasks, fitted_on=crowd[0])
    assert "(these rows)" not in like.said
    assert "pooled" in like.said
    assert "single-task" not in read(regressor, X=X, y=y, tasks=tasks, baselines={}).said


def test_baselines_of_folds_never_saw_the_row_they_answer(crowd):
    X, _, tasks = crowd[1]
    noise = np.random.default_rng(0).normal(size=len(X))
    model = tacit.SharedPriorRegressor(epsilon=float("inf")).fit(X, noise, tasks=tasks)
    found = _by_name(evaluate(model, X, noise, tasks, None, None))["R²"]
    assert found.values[1] < 0.05
    assert found.values[2] < 0.05


def test_the_page_begins_with_a_summary_of_worth_gain_protection_and_budget(
    read, crowd, regressor, tmp_path
):
    X, y, tasks = crowd[1]
    ledger = tacit.privacy.Ledger(tmp_path / "l.db", epsilon=6.0, delta=1e-5)
    model = tacit.SharedPriorRegressor(epsilon=4.0, ledger=ledger)
    model.fit(*crowd[0][:2], tasks=crowd[0][2])
    page = read(model, X=X, y=y, tasks=tasks, fitted_on=crowd[0], ledger=ledger)
    first = re.findall(r'<section id="(\w+)"', page.text)[0]
    assert first == "summary"
    brief = re.search(r'<dl class="brief">(.*?)</dl>', page.text, re.S)[1]
    for word in ("less error than single-task", "95 % interval", "gain", "ε = 4", "of 6"):
        assert word in brief, word


def test_a_partys_page_compares_with_its_own_rows_only(read, crowd, regressor):
    X, y, tasks = crowd[1]
    mine = tasks == "clinic 7"
    whole = read(regressor, X=X, y=y, tasks=tasks, party="clinic 7", fitted_on=crowd[0])
    own = read(
        regressor,
        X=X[mine],
        y=y[mine],
        tasks=tasks[mine],
        party="clinic 7",
        fitted_on=tuple(part[crowd[0][2] == "clinic 7"] for part in crowd[0]),
    )
    assert whole.text == own.text  # others' rows change nothing, to the byte
    assert "pooled" not in whole.said


def test_the_task_table_is_on_the_screen_and_folded_on_paper(read, crowd, regressor):
    X, y, tasks = crowd[1]
    page = read(regressor, X=X, y=y, tasks=tasks, fitted_on=crowd[0])
    folded = re.search(r'<div class="folded">(.*?)</table>', page.text, re.S)[1]
    assert "Folded on paper: 120 lines, one for each task" in folded
    assert "clinic 7" in folded
    paper = page.text[page.text.index("@media print") :]
    assert ".folded .scroll" in paper[: paper.index("prefers-reduced-motion")]


def test_rows_fitted_on_without_rows_to_test_on_are_refused(read, crowd, regressor):
    with pytest.raises(InvalidInput, match="fitted_on"):
        read(regressor, fitted_on=crowd[0])


def test_tasks_of_one_row_are_left_out_of_a_comparison_in_folds(read, crowd, regressor):
    X, y, tasks = crowd[1]
    keep = np.r_[np.flatnonzero(tasks == "clinic 0")[:1], np.flatnonzero(tasks != "clinic 0")]
    page = read(regressor, X=X[keep], y=y[keep], tasks=tasks[keep])
    assert "Left out: 1 row of tasks with one row" in page.said
