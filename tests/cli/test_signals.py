"""Real processes that are interrupted, killed, or left by their reader."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tacit.privacy import Ledger

FIT = ("fit", "data.csv", "--task", "hospital", "--target", "stay", "--method", "averaged", "--yes")
# The process gets its signal between a release, already charged, and what is made of it.
STRUCK = """
import os, signal
from tacit.protocols.averaged import AveragedProtocol
def struck(*_):
    os.kill(os.getpid(), signal.{name})
    signal.pause()
AveragedProtocol.read = struck
from tacit.cli import main
main()
"""


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGKILL", -signal.SIGKILL)])
def test_a_struck_run_is_counted_in_full_and_leaves_no_model(table, name, code):
    done = subprocess.run(
        [sys.executable, "-c", STRUCK.format(name=name), *FIT],
        cwd=table.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    folder = table.parent / "run"
    assert not (folder / "manifest.json").exists()
    if name == "SIGINT":
        assert "interrupted" in done.stderr
        assert "--resume run" in done.stderr
        assert [path.name for path in folder.iterdir()] == ["unfinished"]
        left = sorted(path.name for path in table.parent.iterdir())
        assert left == ["data.csv", "data.csv.ledger.db", "run"]
    with Ledger(table.parent / "data.csv.ledger.db") as ledger:
        ledger.verify()
        assert ledger.spent().epsilon == pytest.approx(1.0, rel=1e-6)


def test_a_reader_that_goes_away_is_no_error(fit, table):
    assert fit("--method", "single-task").exit_code == 0
    script = f"{sys.executable} -c 'from tacit.cli import main; main()' predict run data.csv"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {script} | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1)
