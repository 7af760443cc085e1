"""What the fourth review broke: gaps where rows are protected, runs that are taken up again."""

from __future__ import annotations

import hashlib
import json
import sqlite3

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent

import tacit
from tacit.engines import Checkpoint
from tacit.errors import LedgerError
from tacit.privacy import Ledger

GIVEN = ("--task", "party", "--target", "outcome", "--yes", "--quiet")


def _gaps(name, rows):
    """Leave P0 one value of x0: where gaps are filled with means, it is in every row."""
    if name != "P0":
        return rows
    cells = [row.split(",") for row in rows]
    return [rows[0], *(",".join([party, "", *rest]) for party, _, *rest in cells[1:])]


@pytest.mark.parametrize("method", ["shared-moments", "asynchronous"])
def test_where_rows_are_protected_no_row_is_filled_with_others(run, write_rows, tmp_path, method):
    """One cell moved a sum by 141.4 whose stated sensitivity to a row was 2.83."""
    given = ("fit", write_rows(change=_gaps), *GIVEN, "--method", method, "--out", "run")
    assert "--missing" in run(*given, code=2)
    assert not (tmp_path / "run").exists()
    run(*given, "--missing", "0")
    looked = ("compare", "data.csv", *GIVEN[:4], "--methods", method, "--splits", 1)
    assert "a mean of rows" in run(*looked, code=2)


def _said(folder) -> str:
    statement = json.loads((folder / "statement.json").read_text(encoding="utf-8"))
    return " ".join(statement["not_protected"])


def test_that_rows_left_out_change_a_public_number_is_stated(run, write_rows, tmp_path):
    data, drop = write_rows(target="class", sizes=(30, 30, 30)), ("--missing", "drop")
    Ledger("plenty.db", 90.0, 1e-3)
    rows = ("fit", data, *GIVEN, "--method", "shared-moments", "--set", "gate=false")
    source = ("transfer", "source", data, "--target", "outcome", "--features", "x0,x1")
    for name, command in {
        "kept": rows,
        "dropped": (*rows, *drop),
        "package": (*source, "--groups", "1", *drop),
        "target": ("transfer", "target", data, "--source", "package", *drop),
    }.items():
        run(*command, "--ledger", "plenty.db", "--out", name)
        stated = "whether a row has missing values" in _said(tmp_path / name)
        assert stated is (name != "kept"), name


def _copied(source, into):
    with sqlite3.connect(source) as held, sqlite3.connect(into) as other:
        held.backup(other)


def test_a_run_does_not_go_on_with_a_ledger_that_lacks_some_of_its_releases(tmp_path):
    """With the ledger of its first release put back a run of four was counted as one of two."""
    event, kept = GaussianDpEvent(10.0), Checkpoint.begin(tmp_path / "unfinished")
    path, early, late = (tmp_path / name for name in ("ledger.db", "early.db", "late.db"))
    Ledger(path, epsilon=1.0, delta=1e-5).close()

    def go_on(releases):
        with Ledger(path) as ledger:
            facts = {"unit": "task", "adjacency": "replace-one"}
            reserve = lambda run: ledger.reserve([event] * 4, **facts, run=run)  # noqa: E731
            with kept.held(ledger, reserve) as billboard:
                for number in range(releases):
                    billboard.post(np.zeros(2), event)
                    if number == 0 and not early.exists():
                        _copied(path, early)
                if len(billboard) < 4:
                    raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go_on(3)
    _copied(path, late)
    _copied(early, path)
    with pytest.raises(LedgerError, match="does not hold all releases"):
        go_on(1)
    _copied(late, path)  # it is not older than what was tried meanwhile
    go_on(1)
    with Ledger(path) as ledger:
        assert [record.n_charges for record in ledger.runs()] == [4]


@pytest.mark.parametrize("edited", ["config.toml", "data.sha256"])
def test_noise_that_was_drawn_for_some_rows_does_not_go_on_with_others(
    run, write_rows, tmp_path, stop_at_second_release, edited
):
    """Row noise is drawn once: with a second target it would have been the same for both."""
    data = write_rows()
    rows = ("--set", "epsilon_rows=1", "--set", "target_bound=3", "--features", "x0")
    with stop_at_second_release():
        run("fit", data, *GIVEN, "--method", "low-rank", *rows, "--out", "run", code=1)
    place = tmp_path / "run" / "unfinished" / edited
    before, text = place.read_text(encoding="utf-8"), data.read_text(encoding="utf-8")
    if edited == "config.toml":
        changed = before.replace('target = "outcome"', 'target = "x1"')
    else:
        data.write_text(text.replace("P0,", "P0,1", 1), encoding="utf-8")
        changed = hashlib.sha256(data.read_bytes()).hexdigest()
    assert changed != before
    place.write_text(changed, encoding="utf-8")
    assert "does not hold the run" in run("fit", "--resume", "run", code=4)
    place.write_text(before, encoding="utf-8")
    data.write_text(text, encoding="utf-8")
    run("fit", "--resume", "run")
    assert tacit.load("run").privacy_.holds
