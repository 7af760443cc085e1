"""Budgets, folders and accidents: the ledger never forgets, nothing else is half-written."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.privacy import Ledger


def refused(result, code, text):
    assert isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code == code, (result.exit_code, result.stderr)
    assert text in result.stderr, result.stderr
    assert "Traceback" not in result.stderr


def spent(path):
    with Ledger(path) as ledger:
        ledger.verify()
        return ledger.spent().epsilon


def listing(folder):
    return sorted(path.name for path in Path(folder).iterdir())


# The budget


def test_a_spent_budget_refuses_before_anything_is_computed(fit, run, table, tmp_path):
    created = run("ledger", "create", "total.db", "--epsilon", "1.2", "--delta", "1e-5")
    assert created.exit_code == 0
    assert fit("--ledger", "total.db").exit_code == 0
    assert spent("total.db") == pytest.approx(1.0, rel=1e-3)
    before = Path("total.db").read_bytes()
    refused(fit("--ledger", "total.db", "--out", "again"), 3, "total.db")
    refused(fit("--ledger", "total.db", "--out", "again", "--dry-run"), 3, "asked for ε")
    assert Path("total.db").read_bytes() == before
    assert not Path("again").exists()
    assert listing(tmp_path) == ["data.csv", "run", "total.db"]


def test_a_dry_run_leaves_a_ledger_as_it_was(fit, run, table):
    run("ledger", "create", "total.db", "--epsilon", "3", "--delta", "1e-4")
    before = Path("total.db").read_bytes()
    result = fit("--ledger", "total.db", "--dry-run", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["statement"]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert Path("total.db").read_bytes() == before
    assert not Path("run").exists()


def test_a_shared_ledger_is_charged_and_no_own_one_is_made(fit, run, table):
    run("ledger", "create", "total.db", "--epsilon", "3", "--delta", "1e-4")
    assert fit("--ledger", "total.db").exit_code == 0
    assert not Path("data.csv.ledger.db").exists()
    assert spent("total.db") > 0.5


def test_a_run_without_privacy_says_so_and_has_no_ledger(fit, table):
    result = fit("--epsilon", "inf")
    assert result.exit_code == 0
    assert "NOT private" in result.stderr
    assert not Path("data.csv.ledger.db").exists()
    assert not tacit.load("run").privacy_.private


def test_a_seed_marks_the_run_as_not_private(fit, table):
    assert "NOT private" in fit("--seed", "1").stderr
    assert tacit.load("run").privacy_.seeded


def test_a_choice_by_tuning_is_paid_for_with_the_same_budget(fit, table):
    result = fit("--tune", "clip=2,20", "--json")
    assert result.exit_code == 0, result.stderr
    body = json.loads(result.stdout)
    assert body["chosen"]["clip"] in (2, 20)
    assert "repeat-and-select" in body["statement"]["mechanisms"]
    assert body["statement"]["epsilon"] <= 1.0
    assert tacit.load("run").clip == body["chosen"]["clip"]
    assert spent("data.csv.ledger.db") == pytest.approx(1.0, rel=1e-3)


# Folders


def test_a_folder_in_use_is_refused_and_left_alone(fit, table):
    Path("run").mkdir()
    Path("run/precious.txt").write_text("mine", encoding="utf-8")
    refused(fit(), 2, "not empty")
    assert listing("run") == ["precious.txt"]


def test_force_replaces_the_files_and_keeps_foreign_ones(fit, table):
    assert fit("--method", "pooled").exit_code == 0
    Path("run/precious.txt").write_text("mine", encoding="utf-8")
    assert fit("--method", "single-task", "--force").exit_code == 0
    assert type(tacit.load("run")).__name__ == "SingleTaskRegressor"
    assert Path("run/precious.txt").read_text(encoding="utf-8") == "mine"
    assert len(list(Path("run").glob("arrays-*.npz"))) == 1


def test_force_replaces_no_ledger_so_the_second_run_is_refused(fit, table):
    assert fit().exit_code == 0
    kept = {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()}
    refused(fit("--force"), 3, "nothing is left for another fit")
    assert {path: path.read_bytes() for path in Path("run").rglob("*") if path.is_file()} == kept


def test_a_file_in_place_of_the_folder_is_refused(fit, table, tmp_path):
    Path("run").write_text("a file", encoding="utf-8")
    refused(fit(), 4, "a file stands where a folder is needed")
    refused(fit("--out", "run/deeper"), 4, "run")
    assert listing(tmp_path) == ["data.csv", "run"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_a_place_that_cannot_be_written_is_found_before_the_budget(fit, table, monkeypatch, code):
    def refuse(self, *_, **__):
        raise OSError(code, os.strerror(code), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    refused(fit(), 4, "run")
    monkeypatch.undo()
    assert not (table.parent / "run").exists()


def full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("place", ["tacit.models.write_whole", "tacit.cli.run.fitting.write_page"])
def test_a_full_disk_leaves_the_ledger_and_what_it_takes_to_go_on(
    fit, run, table, monkeypatch, place
):
    with monkeypatch.context() as patched:
        patched.setattr(place, full)
        result = fit()
    refused(result, 4, "the disk is full")
    assert "stays recorded in data.csv.ledger.db" in result.stderr
    assert listing(table.parent) == ["data.csv", "data.csv.ledger.db", "run"]
    assert listing("run") == ["unfinished"]
    assert spent("data.csv.ledger.db") == pytest.approx(1.0, rel=1e-6)
    refused(fit(), 2, "--resume run")
    assert run("fit", "--resume", "run").exit_code == 0
    assert spent("data.csv.ledger.db") == pytest.approx(1.0, rel=1e-6)
    assert "unfinished" not in listing("run")


def test_a_disk_that_is_full_before_anything_is_spent_leaves_nothing(fit, table, monkeypatch):
    monkeypatch.setattr("tacit.cli.run.folder.write_whole", full)
    refused(fit(), 4, "the disk is full")
    assert listing(table.parent) == ["data.csv"]


def test_an_interrupted_fit_ends_with_130_and_keeps_what_was_charged(fit, table, monkeypatch):
    from tacit.protocols.model_protected import ModelProtectedProtocol

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(ModelProtectedProtocol, "read", interrupted)
    refused(fit(), 130, "interrupted")
    assert listing("run") == ["unfinished"]
    assert spent("data.csv.ledger.db") == pytest.approx(1.0, rel=1e-6)


def test_a_fit_that_fails_before_any_release_leaves_no_ledger(fit, table, monkeypatch):
    from tacit.estimators import LowRankRegressor

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LowRankRegressor, "_learn", interrupted)
    refused(fit(), 130, "interrupted")
    assert listing(table.parent) == ["data.csv"]


def test_two_runs_cannot_write_to_one_folder(fit, table):
    fcntl = pytest.importorskip("fcntl")
    Path("run").mkdir()
    other = os.open("run", os.O_RDONLY)
    try:
        fcntl.flock(other, fcntl.LOCK_EX)
        refused(fit(), 4, "another run is writing")
    finally:
        os.close(other)
    assert fit().exit_code == 0


# Damage


def test_an_edited_model_folder_is_refused(fit, run, table):
    assert fit().exit_code == 0
    manifest = Path("run/manifest.json")
    text = manifest.read_text(encoding="utf-8")
    manifest.write_text(text.replace('"H0"', '"H9"'), encoding="utf-8")
    refused(run("predict", "run", "data.csv"), 4, "changed after it was saved")
    manifest.write_text("{", encoding="utf-8")
    refused(run("report", "run"), 4, "damaged")
    manifest.unlink()
    refused(run("predict", "run", "data.csv"), 4, "holds no model")
    refused(run("predict", "nowhere", "data.csv"), 4, "nowhere: no such file or folder")


def test_parts_of_two_runs_do_not_mix(fit, run, table, lines, plenty):
    assert fit().exit_code == 0
    table.write_text("\n".join(lines[:-8]), encoding="utf-8")
    assert fit("--out", "other").exit_code == 0
    for old in Path("run/intake").iterdir():
        old.unlink()
    for part in Path("other/intake").iterdir():
        (Path("run/intake") / part.name).write_bytes(part.read_bytes())
    refused(run("predict", "run", "data.csv"), 4, "since the run was sealed")
    Path("run/seal.json").unlink()
    refused(run("predict", "run", "data.csv"), 4, "different runs")


def test_a_foreign_ledger_is_refused(fit, run, table):
    Path("text.db").write_text("not a database at all", encoding="utf-8")
    refused(fit("--ledger", "text.db"), 4, "text.db")
    with sqlite3.connect("foreign.db") as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    refused(fit("--ledger", "foreign.db"), 4, "not a tacit ledger")
    refused(fit("--ledger", "foreign.db", "--dry-run"), 4, "not a tacit ledger")
    refused(run("ledger", "show", "nowhere.db"), 4, "no such ledger")
    refused(run("ledger", "create", "text.db", "--epsilon", "1"), 2, "exists already")
    refused(run("ledger", "create", "new.db", "--epsilon", "-1"), 2, "epsilon")
    assert not Path("run").exists()
    assert not Path("new.db").exists()


def test_an_edited_ledger_is_found(fit, run, table):
    assert fit().exit_code == 0
    with sqlite3.connect("data.csv.ledger.db") as connection:
        connection.execute("DELETE FROM entries WHERE kind = 'charge'")
    connection.close()
    refused(run("ledger", "verify", "run"), 4, "edited or removed")
    refused(run("ledger", "export", "run", "--out", "l.json"), 4, "edited or removed")
    assert not Path("l.json").exists()


# Predictions


def test_an_unknown_task_is_refused_or_answered_by_the_shared_model(fit, run, table, tmp_path):
    given = ("--method", "mean-regularized", "--clip", "5", "--unknown-task", "shared")
    assert fit(*given).exit_code == 0
    (tmp_path / "new.csv").write_text("hospital,age,severity\nNew,50,1\nH1,50,1\n", "utf-8")
    refused(run("predict", "run", "new.csv", "--out", "a.csv"), 2, "'New' was not there")
    assert not Path("a.csv").exists()
    answered = run("predict", "run", "new.csv", "--unknown-task", "shared", "--json")
    model = tacit.load("run")
    expected = model.shared_coef_[0] @ [50, 1] + model.shared_intercept_[0]
    assert json.loads(answered.stdout)["predictions"]["prediction"][0] == pytest.approx(expected)
    assert fit("--out", "own", "--method", "single-task").exit_code == 0
    refused(run("predict", "own", "new.csv", "--unknown-task", "shared"), 2, "no shared model")
    refused(run("predict", "run", "new.csv", "--unknown-task", "guess"), 2, "error or shared")


def test_predictions_are_written_whole_or_not_at_all(fit, run, table, monkeypatch):
    assert fit("--method", "single-task").exit_code == 0
    Path("answers.csv").write_text("old", encoding="utf-8")
    refused(run("predict", "run", "data.csv", "--out", "answers.xlsx"), 2, "must end in")
    refused(run("predict", "run", "data.csv", "--out", "no/where.csv"), 4, "no such file")
    refused(run("predict", "run", "data.csv", "--out", "run.csv/x.csv"), 4, "run.csv")

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    refused(run("predict", "run", "data.csv", "--out", "answers.csv"), 4, "disk is full")
    assert Path("answers.csv").read_text(encoding="utf-8") == "old"
    monkeypatch.undo()
    assert listing(table.parent) == ["answers.csv", "data.csv", "run"]


def test_missing_features_and_parties_are_named(fit, run, table, tmp_path):
    assert fit("--method", "single-task").exit_code == 0
    (tmp_path / "new.csv").write_text("hospital,age\nH1,50\n", encoding="utf-8")
    refused(run("predict", "run", "new.csv"), 2, "'severity'")
    refused(run("predict", "run", "data.csv", "--party", "Mars"), 2, "--party 'Mars'")
    refused(run("export", "run", "--party", "Mars", "--out", "own"), 2, "--party 'Mars'")
    refused(run("report", "run", "--party", "Mars"), 2, "--party 'Mars'")
    refused(run("predict", "run", "data.csv", "--keep", "colour"), 2, "--keep 'colour'")
    assert not Path("own").exists()


def test_predictions_of_classes_have_probabilities(run, table, lines, tmp_path):
    words = [",".join([*line.split(",")[:3], "ab"[row % 2]]) for row, line in enumerate(lines)]
    table.write_text("\n".join([lines[0], *words[1:]]), encoding="utf-8")
    given = ("--task", "hospital", "--target", "stay", "--method", "single-task")
    assert run("fit", table, *given).exit_code == 0
    for name in ("p.csv", "p.tsv", "p.jsonl", "p.parquet"):
        assert run("predict", "run", table, "--keep", "age", "--out", name).exit_code == 0
    record = json.loads(Path("p.jsonl").read_text(encoding="utf-8").splitlines()[0])
    assert list(record) == ["age", "hospital", "prediction", "probability_a", "probability_b"]
    assert record["probability_a"] + record["probability_b"] == pytest.approx(1.0)
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet("p.parquet")
    np.testing.assert_allclose(frame["probability_a"], pandas.read_csv("p.csv")["probability_a"])
