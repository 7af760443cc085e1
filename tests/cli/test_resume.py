"""Fits that are killed go on: the same models, nothing released twice, nothing uncharged."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from dp_accounting.dp_event import GaussianDpEvent

import tacit
from tacit.errors import PrivacyLeak
from tacit.privacy import Billboard, Ledger

COLUMNS = ("--task", "hospital", "--target", "stay")
FIT = ("fit", "data.csv", *COLUMNS, "--yes", "--method", "low-rank")
ROUNDS = ("--rounds", "3")
# The process is killed at the n-th call of one function: before it, or after it.
KILLED = """
import os, signal, sys
import {module} as module
made, calls = module.{name}, 0
def struck(*given, **named):
    global calls
    calls += 1
    if calls == {n} and {before}:
        os.kill(os.getpid(), signal.SIGKILL)
    result = made(*given, **named)
    if calls == {n}:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
module.{name} = struck
from tacit.cli import main
main()
"""
WRITE, CHARGE = ("tacit.privacy.billboard", "_write"), ("tacit.privacy.billboard", "_charge")
INSTANTS = [
    (*CHARGE, 1, True),  # reserved, nothing charged
    (*WRITE, 1, True),  # charged, not written
    (*WRITE, 2, False),  # written, not read
    (*WRITE, 3, False),  # all released, not settled
    (*WRITE, 4, True),  # settled, the model not written
    ("tacit.cli.run.fitting", "_write", 1, False),  # all files made, none in place
    ("tacit.cli.run.folder", "os.rename", 4, False),  # some files in place
    ("tacit.cli.run.folder", "os.rename", 10, False),  # all of them
]


def _killed(folder, instant, *options, rounds=ROUNDS):
    module, name, n, before = instant
    code = KILLED.format(module=module, name=name, n=n, before=before)
    done = subprocess.run(
        [sys.executable, "-c", code, *FIT, *rounds, *options],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize("instant", INSTANTS, ids=lambda instant: f"{instant[1]}-{instant[2:]}")
def test_a_killed_fit_goes_on_to_the_same_model(fit, run, table, plenty, instant):
    assert run(*FIT, *ROUNDS, "--seed", "1", "--out", "whole").exit_code == 0
    _killed(table.parent, instant, "--seed", "1", "--out", "run")
    folder = table.parent / "run"
    key = folder / "unfinished" / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    before = list(Billboard.load(folder / "unfinished" / "releases"))
    resumed = run("fit", "--resume", "run")
    assert resumed.exit_code == 0, resumed.stderr
    one, other = tacit.load("whole"), tacit.load("run")
    assert np.array_equal(one.coef_, other.coef_)
    assert one.privacy_ == other.privacy_
    assert one.history_ == other.history_
    assert other.billboard_.head == one.billboard_.head
    for posting in before:
        assert other.billboard_[posting.number].hash == posting.hash
    assert not key.parent.exists()
    assert {path.name for path in Path("run").iterdir()} == {
        p.name for p in Path("whole").iterdir()
    }
    with Ledger("data.csv.ledger.db") as ledger:
        ledger.verify()
        assert [record.n_charges for record in ledger.runs()] == [3, 3]
        assert ledger.recover() == 0


@pytest.mark.parametrize("method", [("low-rank",), ("task-relationship", "--clip", "2")])
def test_secret_noise_is_repeated_after_a_charge_whose_release_was_lost(fit, run, table, method):
    _killed(table.parent, (*WRITE, 1, True), "--method", *method, rounds=())
    with Ledger("data.csv.ledger.db") as ledger:
        (charged,) = ledger._chain.entries("kind = 'charge'")
    assert run("fit", "--resume", "run").exit_code == 0
    model = tacit.load("run")
    assert model.privacy_.holds
    assert model.billboard_[0].hash == charged.body["mark"]


def test_other_bytes_for_a_charged_release_are_refused(fit, run, table):
    _killed(table.parent, (*WRITE, 1, True))
    key = table.parent / "run" / "unfinished" / "key"
    key.write_bytes(os.urandom(32))
    refused = run("fit", "--resume", "run")
    assert refused.exit_code == 4
    assert "other bytes" in refused.stderr
    assert not (table.parent / "run" / "manifest.json").exists()


def test_a_run_goes_on_only_with_its_data_and_its_settings(fit, run, table):
    _killed(table.parent, (*WRITE, 2, True))
    changed = run("fit", "--resume", "run", "--epsilon", "3")
    assert changed.exit_code == 2
    assert "leave out --epsilon" in changed.stderr
    text = table.read_text(encoding="utf-8")
    table.write_text(text + text.splitlines()[1] + "\n", encoding="utf-8")
    moved = run("fit", "--resume", "run")
    assert moved.exit_code == 2
    assert "has changed" in moved.stderr
    table.write_text(text, encoding="utf-8")
    assert "--resume run" in fit("--method", "low-rank").stderr
    assert run("fit", "--resume", "run").exit_code == 0
    assert run("fit", "--resume", "run").exit_code == 2


def test_a_run_that_was_settled_by_hand_does_not_go_on(fit, run, table):
    _killed(table.parent, (*WRITE, 2, True))
    with Ledger("data.csv.ledger.db") as ledger:
        assert ledger.recover() == 1
    refused = run("fit", "--resume", "run")
    assert refused.exit_code == 4
    assert "closed" in refused.stderr


def test_a_run_with_row_noise_goes_on(fit, run, table):
    rows = ("--set", "epsilon_rows=4", "--set", "target_bound=10")
    _killed(table.parent, (*WRITE, 2, True), *rows)
    assert run("fit", "--resume", "run").exit_code == 0
    assert len(tacit.load("run").billboard_) == 4


@pytest.mark.parametrize("seed", [(), ("--seed", "1")], ids=["secret", "seeded"])
@pytest.mark.parametrize("instant", [(*CHARGE, 1, True), (*WRITE, 1, True), (*WRITE, 2, True)])
def test_a_search_goes_on_to_the_run_that_it_would_have_published(run, table, instant, seed):
    search = ("--tune", "clip=1,2", "--epsilon", "3", *seed)
    _killed(table.parent, instant, *search, "--out", "run", rounds=())
    before = list(Billboard.load(table.parent / "run" / "unfinished" / "releases"))
    with Ledger("data.csv.ledger.db") as ledger:
        marks = [entry.body["mark"] for entry in ledger._chain.entries("kind = 'charge'")]
    resumed = run("fit", "--resume", "run")
    assert resumed.exit_code == 0, resumed.stderr
    model = tacit.load("run")
    assert [posting.hash for posting in model.billboard_][: len(marks)] == marks
    for posting in before:
        assert model.billboard_[posting.number].hash == posting.hash
    with Ledger("data.csv.ledger.db") as ledger:
        ledger.verify()
        assert ledger.spent().epsilon <= 3 * (1 + 1e-9)
        assert ledger.recover() == 0
    if seed:
        again = ("--new-ledger", "seeded, to be compared", "--out", "whole")
        assert run(*FIT, *search, *again).exit_code == 0
        assert np.array_equal(tacit.load("whole").coef_, model.coef_)
        assert tacit.load("whole").billboard_.head == model.billboard_.head


@pytest.mark.parametrize("aggregation", ["untrusted", "trusted"])
def test_a_run_that_protects_rows_goes_on(run, table, plenty, aggregation):
    moments = ("--epsilon", "9", "--set", "gate=false", "--set", f"aggregation={aggregation}")
    method = ("--method", "shared-moments", *moments, "--seed", "1")
    _killed(table.parent, (*WRITE, 2, True), *method, "--out", "run", rounds=())
    assert run("fit", "--resume", "run").exit_code == 0
    assert run(*FIT[:-2], *method, "--out", "whole").exit_code == 0
    one, other = tacit.load("whole"), tacit.load("run")
    assert np.array_equal(one.coef_, other.coef_)
    assert one.billboard_.head == other.billboard_.head
    assert one.privacy_ == other.privacy_


def test_a_shared_ledger_is_charged_once(fit, run, table):
    assert run("ledger", "create", "total.db", "--epsilon", "2", "--delta", "1e-4").exit_code == 0
    _killed(table.parent, (*WRITE, 2, True), "--ledger", "total.db")
    assert run("fit", "--resume", "run").exit_code == 0
    with Ledger("total.db") as ledger:
        assert [record.n_charges for record in ledger.runs()] == [3]
        assert ledger.spent().epsilon < 1.1


def test_a_refused_fit_leaves_nothing_to_go_on_with(fit, run, table):
    assert run("ledger", "create", "total.db", "--epsilon", "0.5", "--delta", "1e-4").exit_code == 0
    assert fit("--ledger", "total.db", "--clip", "2").exit_code == 3
    assert not (table.parent / "run").exists()
    assert run("fit", "--resume", "run").exit_code == 2


def test_releases_kept_one_by_one_are_a_chain(tmp_path):
    board = Billboard(folder=tmp_path)
    for number in range(3):
        board.post(np.full(2, number), GaussianDpEvent(3.0))
    assert Billboard.load(tmp_path).head == board.head
    (tmp_path / "00000001.npz").unlink()
    with pytest.raises(PrivacyLeak):
        Billboard.load(tmp_path)
