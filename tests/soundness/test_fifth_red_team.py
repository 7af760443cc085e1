"""What the fifth review broke: how another party's file says that one's own rows are read."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.cli.run import fitting
from tacit.cli.table.features import Feature, Intake
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.federation.consent import consent, described
from tacit.federation.rows import rows_of
from tacit.federation.terms import Terms
from tacit.transfer.package import SourcePackage

RANGES = ("--range", "a=-1:1", "--range", "b=-1:1")


def _clinic(path: str, n_rows: int = 60) -> None:
    draw = np.random.default_rng(0).uniform(-1, 1, size=(n_rows, 2))
    rows = [f"{a:.6f},{b:.6f},{int(a > 0)}" for a, b in draw]
    Path(path).write_text("\n".join(["a,b,ill", *rows]) + "\n", encoding="utf-8")


def _package(run, hostile: dict[str, object]) -> None:
    """Make a package, and let it say ``hostile`` things of how columns are read."""
    _clinic("source.csv")
    made = ("transfer", "source", "source.csv", "--target", "ill", *RANGES, "--classes", "0,1")
    run(*made, "--groups", "1", "--epsilon", "4", "--out", "package")
    package = SourcePackage.load("package")
    intake = {**package.about["intake"], **hostile}
    about = {**package.about, "intake": intake}
    _write(dataclasses.replace(package, about=about, digest=""))


def _write(package: SourcePackage) -> None:
    shutil.rmtree("package")
    package.save("package")


@pytest.mark.parametrize("rule", ["task-mean", "drop", 0.0])
def test_a_package_does_not_say_what_becomes_of_the_targets_gaps(run, rule):
    """With the source's task-mean one row of 300 was told right 50 times of 50 at ε = 1."""
    _package(run, {"missing": rule})
    gaps = "\n".join(["a,b,ill", "0.5,0,1", *[",0,1", ",0,0"] * 20])
    Path("ward.csv").write_text(gaps + "\n", encoding="utf-8")
    learn = ("transfer", "target", "ward.csv", "--source", "package", "--out", "run")
    assert "is missing" in run(*learn, code=2)
    assert "a mean of rows" in run(*learn, "--missing", "task-mean", code=2)
    assert not Path("run").exists()
    run(*learn, "--missing", "0")
    intake = Intake.from_json(tacit.models.read("run/intake")[1]["intake"])
    assert intake.missing == 0.0


def test_a_package_does_not_say_which_of_the_targets_cells_are_missing(run):
    """Words that mean missing, and rows left out for them, would be an exact count of a cell."""
    _package(run, {"missing": "drop", "marks": ["0.731"]})
    rows = [f"{a},0,{int(a > 0)}" for a in (0.731, -0.5, 0.25, -0.125) * 10]
    Path("ward.csv").write_text("\n".join(["a,b,ill", *rows]) + "\n", encoding="utf-8")
    run("transfer", "target", "ward.csv", "--source", "package", "--out", "run")
    stated = json.loads(Path("run/statement.json").read_text(encoding="utf-8"))
    assert stated["n_units"] == 40
    assert not any("missing values" in said for said in stated["not_protected"])


def test_how_a_package_reads_columns_is_under_its_digest(run):
    """Whoever carries it could have widened a range, or named another target."""
    _package(run, {})
    package = SourcePackage.load("package")
    about = {**package.about, "intake": {**package.about["intake"], "target": "b"}}
    _write(dataclasses.replace(package, about=about, digest=""))
    _clinic("ward.csv")
    learn = ("transfer", "target", "ward.csv", "--source", "package", "--digest", package.digest)
    assert "were changed" in run(*learn, code=4)
    with pytest.raises(PrivacyLeak, match="were changed"):
        dataclasses.replace(package, about=about).save("other")


@pytest.mark.parametrize("rule", ["mean", "Task-mean", "", True, float("nan"), float("inf")])
def test_a_rule_for_missing_values_that_is_not_known_is_refused(rule):
    with pytest.raises(InvalidInput, match="missing="):
        Intake("task", "y", (Feature("a"),), rule)


def _terms(method: str, rule: str, marks: tuple[str, ...] = (), **settings: float) -> Terms:
    features = [dataclasses.asdict(Feature(c, None, (-1.0, 1.0), None, "clip")) for c in "ab"]
    intake = {"task": "t", "target": "y", "features": features, "missing": rule, "marks": marks}
    given = {"epsilon": 1.0, "target_bound": 5.0, **settings}
    return Terms(method, "regression", ("a", "b"), ("s1", "s2", "s3"), given, intake=intake)


@pytest.mark.parametrize("rule", ["task-mean", "mean"])
@pytest.mark.parametrize(
    ("method", "settings"), [("shared-moments", {}), ("low-rank", {"epsilon_rows": 1.0})]
)
def test_no_terms_fill_gaps_with_means_where_rows_are_protected(tmp_path, rule, method, settings):
    """One replaced row changed 100 of 100 rows, of which one was stated to be protected."""
    path = tmp_path / "s1.csv"
    path.write_text("a,b,y\n1,0,1\n" + ",0,1\n" * 99, encoding="utf-8")
    read = rows_of(path, "s1")
    with pytest.raises(InvalidInput, match=r"a mean of rows|missing="):
        read(_terms(method, rule, **settings))
    X, _ = read(_terms(method, "drop", **settings))
    assert len(X) == 1
    assert len(read(_terms("low-rank", "task-mean"))[0]) == 100  # tasks are protected, not rows


def test_rows_left_out_are_stated_and_a_site_is_told_of_them():
    made = _terms("low-rank", "drop", epsilon_rows=1.0).estimator
    assert any("missing values" in said for said in made._not_protected)
    assert _terms("low-rank", "drop").estimator._not_protected == ()
    told = described(consent(_terms("low-rank", "drop", ("0.731",))), "s1")
    assert "where a cell is empty, or has '0.731', its row is left out" in told
    assert "0.0 is put there" in described(consent(_terms("low-rank", 0.0)), "s1")


def test_a_file_of_two_formats_is_not_read_as_the_other_after_a_crash(run, stop_at_second_release):
    """One file may be a table as csv and another one as tsv."""
    draw = np.random.default_rng(1).standard_normal((40, 3)).round(3).tolist()
    lines = [f"P{n % 4},{x},{y},\tP{n % 4}\t{z}\t{x}" for n, (x, y, z) in enumerate(draw)]
    both = "\n".join(["party,x,outcome,\tparty\tx\toutcome", *lines]) + "\n"
    for suffix in ("csv", "tsv"):
        Path(f"rows.{suffix}").write_text(both, encoding="utf-8")
    given = ("--task", "party", "--target", "outcome", "--features", "x", "--yes")
    with stop_at_second_release():
        rounds = ("--method", "low-rank", "--rounds", "4")
        run("fit", "rows.csv", *given, *rounds, "--out", "run", code=1)
    config = Path("run/unfinished/config.toml")
    before = config.read_text(encoding="utf-8")
    config.write_text(before.replace('rows.csv"', 'rows.tsv"'), encoding="utf-8")
    assert "does not hold the run" in run("fit", "--resume", "run", code=4)
    config.write_text(before, encoding="utf-8")
    run("fit", "--resume", "run")


def test_a_file_that_is_replaced_while_it_is_read_is_refused(run, write_rows, monkeypatch):
    """The run would have been known by the second file, and its releases be of the first."""
    data = write_rows()
    kept = fitting._keep

    def swapped(*given):
        data.write_text(data.read_text(encoding="utf-8").replace("P0,", "P0,1", 1), "utf-8")
        kept(*given)

    monkeypatch.setattr(fitting, "_keep", swapped)
    given = ("fit", data, "--task", "party", "--target", "outcome", "--method", "low-rank", "--yes")
    assert "has changed since it was read" in run(*given, "--out", "run", code=2)
    assert not Path("run").exists()
