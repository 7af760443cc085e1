"""``tacit compare`` in real processes: table, picture, scores, and what the look costs."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.cli._output import Output
from tacit.errors import InvalidInput

TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    made = tacit.datasets.make_low_rank(
        120, 10, 4, n_test_rows=5, similarity=0.9, signal=4.0, random_state=0
    ).train
    path = tmp_path_factory.mktemp("compare") / "crowd.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["party", "a", "b", "c", "d", "y"])
        for row, value, task in zip(made.X, made.y, made.task_of_row, strict=True):
            writer.writerow([f"p{task}", *row, value])
    return path, made


def _run(*arguments, code=0):
    done = subprocess.run([*TACIT, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_a_comparison_shows_every_method_budget_and_baseline(crowd, tmp_path):
    done = _run(
        *("compare", crowd[0], "--task", "party", "--target", "y", "--public"),
        *("--methods", "shared-prior,mean-regularized", "--epsilons", "1,8", "--splits", 2),
        *("--plot", tmp_path / "c.png", "--out", tmp_path / "c.csv"),
    )
    for word in ("single-task", "pooled", "shared-prior", "mean-regularized", "no noise", "r2"):
        assert word in done.stdout
    assert "nothing was charged" in done.stdout
    assert (tmp_path / "c.png").read_bytes()[:4] == b"\x89PNG"
    lines = list(csv.DictReader((tmp_path / "c.csv").read_text().splitlines()))
    assert len(lines) == 2 * (2 + 2 * 3)  # splits × (baselines + methods × (two budgets, none))


def test_a_look_at_private_rows_is_charged_and_its_sum_is_stated(crowd, tmp_path):
    ledger = tmp_path / "look.db"
    _run("ledger", "create", ledger, "--epsilon", 30, "--delta", 1e-5)
    given = ("compare", crowd[0], "--task", "party", "--target", "y", "--methods", "shared-prior")
    look = (*given, "--epsilons", "4,8", "--splits", 2, "--json")
    cost = json.loads(_run(*look, "--ledger", ledger).stdout)["cost"]
    shown = json.loads(_run("ledger", "show", ledger, "--json").stdout)
    assert shown["lines"][0]["n_runs"] == 4
    assert cost["epsilon"] == pytest.approx(shown["lines"][0]["spent_epsilon"])
    assert 10.0 < cost["epsilon"] < 20.0  # of 4, 4, 8 and 8, composed
    # What is left does not pay for another: refused before anything is spent.
    before = _run("ledger", "show", ledger, "--json").stdout
    refused = _run(*given, "--epsilons", "20", "--splits", 4, "--ledger", ledger, code=3)
    assert "left" in refused.stderr
    assert _run("ledger", "show", ledger, "--json").stdout == before


def test_a_look_at_guarded_rows_charges_their_ledger_under_any_name(crowd, tmp_path):
    data, copy = tmp_path / "crowd.csv", tmp_path / "renamed.csv"
    data.write_bytes(crowd[0].read_bytes())
    columns = ("--task", "party", "--target", "y")
    look = ("--methods", "low-rank", "--epsilons", "2", "--splits", 1)
    ledger = tmp_path / "crowd.csv.ledger.db"
    # Nobody guards the rows: what the look would cost is said, and nothing is written.
    refused = _run("compare", data, *columns, *look, code=2)
    assert "ε = 2" in refused.stderr
    assert "--public" in refused.stderr
    assert str(ledger) in refused.stderr
    assert not ledger.exists()
    _run("ledger", "create", ledger, "--epsilon", 6, "--delta", 1e-4)
    fit = ("--method", "low-rank", "--epsilon", 2, "--yes", "--quiet", "--out", tmp_path / "run")
    _run("fit", data, *columns, *fit)
    data.rename(copy)  # the register knows the rows, whatever the file is called
    charged = _run("compare", copy, *columns, *look)
    assert str(ledger) in charged.stderr
    shown = json.loads(_run("ledger", "show", ledger, "--json").stdout)["lines"][0]
    assert shown["n_runs"] == 2
    spent = shown["spent_epsilon"]
    assert spent > 2.5
    # Another ledger for the same rows is refused; so is a look that is too dear.
    other = tmp_path / "other.db"
    _run("ledger", "create", other, "--epsilon", 90, "--delta", 1e-3)
    wrong = _run("compare", copy, *columns, *look, "--ledger", other, code=2)
    assert "guarded by" in wrong.stderr
    dear = ("--methods", "low-rank", "--epsilons", "8")
    # Files that cannot be written are refused before the look is paid for.
    wrong = _run("compare", copy, *columns, *look, "--plot", tmp_path / "c.doc", code=2)
    assert "must end in .png" in wrong.stderr
    wrong = _run("compare", copy, *columns, *look, "--out", tmp_path / "no" / "c.csv", code=2)
    assert "--out" in wrong.stderr
    refused = _run("compare", copy, *columns, *dear, code=3)
    assert f"{ledger}: all private fits of this look cost ε = 20" in refused.stderr
    # Public rows are charged to nobody, but that somebody guards them is said.
    free = _run("compare", copy, *columns, *look, "--public")
    assert "somebody called them private" in free.stderr
    assert "nothing was charged" in free.stdout
    after = json.loads(_run("ledger", "show", ledger, "--json").stdout)["lines"][0]
    assert after["spent_epsilon"] == spent


def test_compare_takes_the_data_options_of_fit(crowd):
    helped = _run("compare", "--help").stdout
    for option in ("--categories", "--range", "--missing", "--features", "--kind", "--classes"):
        assert option in helped
    wrong = _run(
        *("compare", crowd[0], "--task", "party", "--target", "y", "--methods", "magic"), code=2
    )
    assert "magic" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_the_library_compares_classifiers_too_and_writes_a_picture(crowd, tmp_path):
    made = crowd[1]
    found = tacit.compare(
        made.X,
        np.where(made.y > 0, "yes", "no"),
        tasks=made.task_of_row,
        epsilons=(2.0,),
        n_repeats=2,
        public=True,
        scoring="roc_auc",
    )
    assert [entry.method for entry in found.entries] == [
        "single-task",
        "pooled",
        "shared-prior",
        "shared-prior",
    ]
    assert all(0.4 < entry.mean <= 1.0 and len(entry.scores) == 2 for entry in found.entries)
    assert found.privacy is None
    assert "roc_auc" in str(found)
    assert b"<svg" in found.plot(tmp_path / "c.svg").read_bytes()
    with pytest.raises(InvalidInput, match=r"\.png, \.svg or \.pdf"):
        found.plot(tmp_path / "c.doc")


def test_a_comparison_that_makes_no_sense_is_refused_by_name(crowd):
    made = crowd[1]
    rows = {"X": made.X, "y": made.y, "tasks": made.task_of_row}
    for wrong, said in (
        ({"methods": "shared-prior"}, "methods"),
        ({"epsilons": ()}, "epsilons"),
        ({"epsilons": (float("inf"),)}, "epsilons"),
        ({"methods": ("single-task", "nothing")}, "nothing"),
        ({"public": True, "ledger": "x.db"}, "ledger"),
        ({"kind": "magic"}, "kind"),
    ):
        with pytest.raises(InvalidInput, match=said):
            tacit.compare(**rows, **wrong)


def test_a_long_step_says_so_where_there_is_no_terminal(capsys, monkeypatch):
    import time

    monkeypatch.setattr("tacit.cli._output._LONG", 0.05)
    output = Output()
    with output.step("reading") as advance, output.step("within") as nothing:
        time.sleep(0.15)
        advance(3, 10)
        nothing(1, 2)
    said = capsys.readouterr().err
    assert "reading …" in said
    assert "reading: 3 of 10" in said
    assert "within" not in said
    with Output(quiet=True).step("silent"):
        time.sleep(0.15)
    assert capsys.readouterr().err == ""
