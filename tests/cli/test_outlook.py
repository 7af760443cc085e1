"""A fit that can help nobody says so before it spends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from tacit.cli.run.outlook import outlook

FIT = ("fit", "data.csv", "--task", "hospital", "--target", "stay")


def test_too_few_parties_are_told_what_would_help_and_nothing_is_spent(run, table):
    refused = run(*FIT)
    assert refused.exit_code == 2
    assert "6 parties at ε = 1: nothing will be shared" in refused.stderr
    assert "ε ≥ " in refused.stderr
    assert "say --yes" in refused.stderr
    drowned = run(*FIT, "--method", "low-rank")
    assert "times as large as all messages together could be" in drowned.stderr
    assert [path.name for path in table.parent.iterdir()] == ["data.csv"]
    assert run(*FIT, "--yes", "--quiet").exit_code == 0


def test_the_epsilon_it_names_does_help(run, table):
    told = run(*FIT, "--method", "low-rank").stderr
    enough = float(told.split("ε ≥ ")[1].split(" ")[0])
    assert enough > 1
    assert run(*FIT, "--method", "low-rank", "--epsilon", enough).exit_code == 0


def test_a_dry_run_shows_the_ratio_and_asks_nothing(run, table):
    dry = run(*FIT, "--method", "low-rank", "--dry-run", "--json")
    assert dry.exit_code == 0
    body = json.loads(dry.stdout)
    assert body["noise_to_signal"] > 1
    assert "teaches nobody anything" in body["cannot_help"]
    shown = run(*FIT, "--method", "low-rank", "--dry-run")
    assert "noise to signal" in shown.stdout
    assert "teaches nobody anything" in shown.stderr


def test_few_sites_with_many_rows_are_pointed_to_protecting_rows():
    model = tacit.SharedPriorRegressor()
    found = outlook(model, model.plan(4, 5, n_rows=4000), 1)
    assert "--method shared-moments" in found
    few = outlook(model, model.plan(4, 5, n_rows=12), 1)
    assert "shared-moments" not in few


@pytest.mark.parametrize(("n_tasks", "epsilon"), [(400, 1.0), (6, float("inf"))])
def test_runs_that_may_help_are_not_talked_out_of_it(n_tasks, epsilon):
    model = tacit.SharedPriorRegressor(epsilon=epsilon)
    assert outlook(model, model.plan(n_tasks, 5, n_rows=10 * n_tasks), 1) is None


def test_learning_alone_is_never_asked_about(run, table):
    for method in ("single-task", "pooled"):
        assert run(*FIT, "--method", method, "--out", method).exit_code == 0


@pytest.mark.parametrize(("answer", "code"), [("n", 2), ("y", 0)])
def test_a_terminal_is_asked(table, answer, code):
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", "from tacit.cli import main; main()", *FIT]
    process = subprocess.Popen(
        command, cwd=table.parent, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    seen = b""
    while b"Fit all the same?" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, answer.encode() + b"\n")
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the process is gone
            break
        if not part:
            break
    os.close(ours)
    assert process.wait(60) == code
    assert Path(table.parent / "run").exists() == (code == 0)
