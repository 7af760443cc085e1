"""``tacit join``: a later party, from any folder that holds the releases."""

from __future__ import annotations

import numpy as np
import pytest

import tacit


@pytest.fixture
def late(tmp_path, lines):
    rows = ["age,severity,stay", *(line.partition(",")[2] for line in lines if line[:2] == "H3")]
    path = tmp_path / "late.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def test_a_later_party_gets_its_own_folder_and_nobody_else_notices(fit, run, table, late):
    assert fit("--method", "shared-prior").exit_code == 0
    before = {path.name: path.read_bytes() for path in table.parent.glob("run/*.*")}
    done = run("join", "run", "late.csv", "--name", "Elm", "--out", "elm")
    assert done.exit_code == 0, done.stderr
    assert before == {path.name: path.read_bytes() for path in table.parent.glob("run/*.*")}
    own = tacit.load("elm")
    assert own.task_names_ == ("Elm",)
    assert not (table.parent / "elm" / "ledger.db").exists()
    assert run("predict", "elm", "late.csv").exit_code == 0
    assert run("report", "elm", "--party", "Elm").exit_code == 0


def test_a_partys_exported_folder_is_enough(fit, run, table, late):
    assert fit("--method", "low-rank").exit_code == 0
    assert run("export", "run", "--party", "H1", "--out", "h1").exit_code == 0
    for folder in ("run", "h1"):
        done = run("join", folder, "late.csv", "--name", "Elm", "--out", f"elm-{folder}")
        assert done.exit_code == 0, done.stderr
    one, other = tacit.load("elm-run"), tacit.load("elm-h1")
    assert np.array_equal(one.coef_, other.coef_)


def test_who_cannot_join_is_told_why(fit, run, table, late):
    assert fit().exit_code == 0
    taken = run("join", "run", "late.csv", "--name", "H3", "--out", "own")
    assert taken.exit_code == 2
    assert "choose another name" in taken.stderr
    absent = run("join", "run", "data.csv", "--name", "Elm", "--out", "own")
    assert absent.exit_code == 2
    assert "no rows of that task" in absent.stderr
    assert run("join", "run", "late.csv", "--name", "Elm", "--out", "run").exit_code == 2
