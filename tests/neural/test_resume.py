"""`tacit fit` of a neural method, killed in a round drawn at random, goes on with the same bits."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("jax", reason="needs the extra neural")

import tacit
from tacit.privacy import Billboard, Ledger

ROUNDS = 6
FIT = (
    *("fit", "data.csv", "--task", "writer", "--target", "kind", "--yes", "--seed", "1"),
    *("--method", "neural-mean-regularized", "--rounds", str(ROUNDS), "--classes", "a,b,c"),
    *("--epsilon", "20", "--set", "cohort=0.6"),
)
# What is asked of the process that dies: at its n-th write of a release, before or after it.
KILLED = """
import os, signal
import tacit.privacy.billboard as module
made, calls = module._write, 0
def struck(*given, **named):
    global calls
    calls += 1
    if calls == {n} and {before}:
        os.kill(os.getpid(), signal.SIGKILL)
    result = made(*given, **named)
    if calls == {n}:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
module._write = struck
from tacit.cli import main
main()
"""
PLAIN = "from tacit.cli import main; main()"


def _told(folder, code, *words):
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    lines = ["writer,x1,x2,x3,kind"]
    for writer in range(9):
        W = rng.standard_normal((3, 3))
        for x in rng.standard_normal((10, 3)).round(3):
            lines.append(f"w{writer},{x[0]},{x[1]},{x[2]},{'abc'[int((x @ W).argmax())]}")
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    given = ("ledger", "create", "data.csv.ledger.db", "--epsilon", "900", "--delta", "1e-3")
    assert _told(tmp_path, PLAIN, *given)[0] == 0
    return tmp_path


# Killed before or after the n-th release was written, both drawn anew in every run of the test.
# Without an ending the models kept from round to round are what is returned; stochastic steps
# depend on where they began, so that a lost checkpoint would show.
@pytest.mark.parametrize("options", [(), ("--set", "fine_tune=null", "--set", "learning_rate=0.1")])
def test_a_killed_fit_goes_on_with_the_same_bits(folder, options):
    rng = np.random.default_rng()
    n, before = int(rng.integers(1, ROUNDS + 1)), bool(rng.integers(2))
    assert _told(folder, PLAIN, *FIT, *options, "--out", "whole")[0] == 0
    code = KILLED.format(n=n, before=before)
    assert _told(folder, code, *FIT, *options, "--out", "run")[0] == -9
    posted = list(Billboard.load(folder / "run" / "unfinished" / "releases"))
    assert len(posted) == n - before, f"killed at {n}, {before=}"
    status, said = _told(folder, PLAIN, "fit", "--resume", "run")
    assert status == 0, said
    whole, again = tacit.load(folder / "whole"), tacit.load(folder / "run")
    assert np.array_equal(again.models_, whole.models_), f"killed at {n}, {before=}"
    assert np.array_equal(again.shared_model_, whole.shared_model_)
    assert again.billboard_.head == whole.billboard_.head
    assert again.history_ == whole.history_
    assert again.privacy_ == whole.privacy_
    with Ledger(folder / "data.csv.ledger.db") as ledger:
        ledger.verify()
        assert [record.n_charges for record in ledger.runs()] == [ROUNDS, ROUNDS]
