"""The command line in real processes, and small files of several parties' rows."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli._app import app
from tacit.privacy import billboard

SEVERAL = """
import json, sys
from tacit.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv = ["tacit", *command]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
"""


@pytest.fixture
def tacit_commands(tmp_path):
    """Run several commands, one after the other, in one process and in an empty folder.

    ``before`` is code that the process runs first; ``code`` is how it must end.
    """

    def call(commands, *, before="", code=0):
        given = json.dumps([[str(part) for part in command] for command in commands])
        done = subprocess.run(
            [sys.executable, "-c", before + SEVERAL, given],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    return call


@pytest.fixture
def tacit_command(tacit_commands):
    """Run one command in a process of its own and in an empty folder."""
    return lambda *arguments, **options: tacit_commands([arguments], **options)


@pytest.fixture
def write_rows(tmp_path):
    """Write rows of several parties to a file; ``change`` edits one party's own rows."""

    def write(
        name="data.csv", *, sizes=(9, 12, 15, 10), n_features=2, target="number", change=None
    ) -> Path:
        lines = [",".join(["party", *(f"x{k}" for k in range(n_features)), "outcome"])]
        for task, size in enumerate(sizes):
            # A stream for each party, so that a party's rows do not depend on others' sizes.
            own = np.random.default_rng(task)
            X = np.round(own.standard_normal((size, n_features)), 3)
            score = X[:, 0] + (0.5 + 0.1 * task) * X[:, 1] + 0.3 * own.standard_normal(size)
            words = {"number": np.round(score, 3), "class": np.where(score > 0, "yes", "no")}
            rows = [
                ",".join([f"P{task}", *map(str, x.tolist()), str(y)])
                for x, y in zip(X, words[target].tolist(), strict=True)
            ]
            lines += rows if change is None else change(f"P{task}", rows)
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    return write


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in this process and in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def call(*words, code=0):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == code, done.stderr
        return done.stderr

    return call


@pytest.fixture
def stop_at_second_release(monkeypatch):
    """Return a context in which a run stops once its second release is written."""

    @contextlib.contextmanager
    def stopping():
        made = billboard._write

        def struck(path, postings):
            made(path, postings)
            if path.name == "00000001.npz":
                raise RuntimeError("struck")

        with monkeypatch.context() as patch:
            patch.setattr(billboard, "_write", struck)
            yield

    return stopping
