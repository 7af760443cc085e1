"""Small things that stood in users' way, through the public door."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.errors import DataNotFound, InvalidInput
from tacit.privacy import Statement

X = np.random.default_rng(0).standard_normal((60, 2))
LABELS = np.where(X[:, 0] > 0, "yes", "no")
TASKS = np.repeat(["a", "b", "c"], 20)


def _pandas(kind):
    pandas = pytest.importorskip("pandas")
    return pandas.Series(LABELS).astype(kind)


def _polars(kind):
    polars = pytest.importorskip("polars")
    return polars.Series(LABELS.tolist()).cast(getattr(polars, kind))


@pytest.mark.parametrize(
    "make",
    [
        lambda: LABELS,
        lambda: LABELS.astype(object),
        lambda: list(LABELS),
        lambda: _pandas(str),
        lambda: _pandas(object),
        lambda: _pandas("category"),
        lambda: _polars("String"),
        lambda: _polars("Categorical"),
    ],
    ids=["array", "objects", "list", "str", "object", "category", "polars", "polars category"],
)
def test_models_of_text_classes_are_saved_and_loaded(make, tmp_path):
    y = make()
    model = tacit.SharedPriorClassifier().fit(X, y, tasks=TASKS)
    model.save(tmp_path)
    again = tacit.load(tmp_path)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X, tasks=TASKS), model.predict(X, tasks=TASKS))
    assert again.score(X, y, tasks=TASKS) > 0.8


def test_a_huge_epsilon_is_called_what_it_is():
    for epsilon in (30.0, 1e6, 1e300):
        text = Statement("task", "differential privacy", "replace-one", epsilon, 1e-5, "gdp")
        assert "inf times" not in text.explain()
        assert "bounds nothing in practice" in text.explain()
    small = Statement("task", "differential privacy", "replace-one", 1.0, 1e-5, "gdp")
    assert "2.72 times as likely" in small.explain()


def test_public_importances_need_not_sum_to_one():
    y = (X[:, 0] > 0).astype(int)
    models = [
        tacit.FeatureSplitTransferClassifier(
            epsilon=1.0, importance=importance, n_groups=2, random_state=0
        )
        for importance in ([0.75, 0.25], [3.0, 1.0], [300, 100])
    ]
    packages = [model.fit_source(X, y) for model in models]
    fitted = [m.fit(X, y, source=p).coef_ for m, p in zip(models, packages, strict=True)]
    np.testing.assert_array_equal(fitted[0], fitted[1])
    np.testing.assert_array_equal(fitted[0], fitted[2])
    with pytest.raises(InvalidInput, match="some feature must matter"):
        tacit.FeatureSplitTransferClassifier(importance=[0.0, 0.0], n_groups=2).fit_source(X, y)


def test_errors_are_where_users_look_for_them():
    assert tacit.BudgetExceeded is tacit.privacy.BudgetExceeded is tacit.errors.BudgetExceeded
    for name in tacit.errors.__all__:
        assert getattr(tacit, name) is getattr(tacit.errors, name)
        assert name in tacit.__all__


def test_help_of_report_names_its_options():
    import inspect

    from tacit.report import write_report

    text = tacit.SharedPriorRegressor.report.__doc__ or ""
    for name in inspect.signature(write_report).parameters:
        if name != "model":
            assert name in text


def test_data_that_are_not_here_say_how_to_get_them(monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    monkeypatch.delenv("TACIT_DATA_URL", raising=False)
    with pytest.raises(DataNotFound, match=r"TACIT_DATA_URL.*rows are from bristol"):
        tacit.datasets.load_school()
    from typer.testing import CliRunner

    from tacit.cli._app import app

    listed = CliRunner().invoke(app, ["datasets", "list"])
    assert "school.npz, rows from bristol" in listed.stdout
    assert "set TACIT_DATA_URL" in listed.stdout


def test_an_unknown_task_gets_advice_that_works(tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from tacit.cli._app import app

    def call(*arguments):
        return CliRunner().invoke(app, list(arguments))

    monkeypatch.chdir(tmp_path)
    rows = [f"{task},{x:.3f},{2 * x:.3f}" for task, x in zip(TASKS, X[:, 0], strict=True)]
    (tmp_path / "data.csv").write_text("\n".join(["site,x,y", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("site,x\nelsewhere,0.5\n")
    (tmp_path / "gap.csv").write_text("site,x\nelsewhere,\n")
    fit = ("fit", "data.csv", "--task", "site", "--target", "y", "--yes")
    assert call(*fit, "--method", "single-task", "--out", "alone").exit_code == 0
    for asked in ((), ("--unknown-task", "shared")):
        refused = call("predict", "alone", "new.csv", *asked)
        assert refused.exit_code == 2
        assert "no shared model; learn its own model" in refused.stderr
        assert "tacit join" in refused.stderr
    shared = ("--method", "mean-regularized", "--clip", "5", "--unknown-task", "shared")
    assert call(*fit, *shared, "--out", "together").exit_code == 0
    advice = call("predict", "together", "new.csv")
    assert "say --unknown-task shared" in advice.stderr
    assert call("predict", "together", "new.csv", "--unknown-task", "shared").exit_code == 0
    gap = call("predict", "together", "gap.csv", "--unknown-task", "shared")
    assert "was not there at fit time and has no mean of it" in gap.stderr


def test_labels_of_several_types_are_refused_by_name():
    mixed = np.array([1 if label == "yes" else "no" for label in LABELS], dtype=object)
    with pytest.raises(InvalidInput, match=r"several types \(int, str\)"):
        tacit.SingleTaskClassifier().fit(X, mixed, tasks=TASKS)
    model = tacit.SingleTaskClassifier().fit(X, mixed.astype(str), tasks=TASKS)
    assert model.classes_.tolist() == ["1", "no"]
