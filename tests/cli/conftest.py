"""A command line in a temporary folder, and a small file to feed it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli._app import app


def _rows(n_tasks=6, n_rows=8):
    random = np.random.default_rng(0)
    lines = ["hospital,age,severity,stay"]
    for task in range(n_tasks):
        for _ in range(n_rows):
            age, severity = int(random.integers(20, 90)), round(float(random.standard_normal()), 3)
            stay = round(5 + 0.1 * age + (1 + 0.1 * task) * severity, 2)
            lines.append(f"H{task},{age},{severity},{stay}")
    return lines


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command in this process and in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        return CliRunner().invoke(app, [str(part) for part in arguments])

    return call


@pytest.fixture
def fit(run):
    """Fit data.csv with a fast method that releases something however few; options are added."""

    def call(*options, data="data.csv", method="low-rank"):
        given = ("--task", "hospital", "--target", "stay", "--yes", "--method", method)
        chosen = [*given, *options]
        if "--method" in options:
            chosen = [*given[:-2], *options]
        return run("fit", data, *chosen)

    return call


@pytest.fixture
def plenty(run):
    """Give data.csv a ledger with room for many runs."""
    assert (
        run("ledger", "create", "data.csv.ledger.db", "--epsilon", 90, "--delta", 1e-3).exit_code
        == 0
    )


@pytest.fixture
def lines():
    """Lines of a small CSV file: six hospitals of eight patients."""
    return _rows()


@pytest.fixture
def table(tmp_path, lines) -> Path:
    path = tmp_path / "data.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
