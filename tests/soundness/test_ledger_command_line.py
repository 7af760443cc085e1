"""The ledger by the command line: names, refusals, searches."""

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli._app import app
from tacit.privacy import Ledger


def write(path, clinic="C", seed=0):
    random = np.random.default_rng(seed)
    lines = ["clinic,age,dose,stay"]
    for row in range(60):
        age, dose = random.standard_normal(2)
        lines.append(f"{clinic}{row % 6},{age:.3f},{dose:.3f},{age + dose:.3f}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    write(tmp_path / "data.csv")

    def call(*arguments):
        return CliRunner().invoke(app, [str(part) for part in arguments])

    return call


def fit(run, *options, out="run", epsilon="1"):
    return run(
        *("fit", "data.csv", "--task", "clinic", "--target", "stay", "--method", "low-rank"),
        *("--epsilon", epsilon, "--out", out, "--yes", *options),
    )


ROWS = ("--set", "epsilon_rows=1", "--set", "target_bound=5", "--set", "row_norm=3")


def test_a_search_with_row_noise_is_refused_and_nothing_is_written(run, tmp_path):
    done = fit(run, *ROWS, "--tune", "n_rounds=1,2")
    assert done.exit_code == 2, done.output
    assert "epsilon_rows=1: a search draws row noise again" in done.output
    assert not (tmp_path / "run").exists()


def test_a_refused_run_leaves_the_ledger_as_it_was(run):
    with Ledger("study.db", 1.0, 1e-3) as ledger:
        head = ledger.head
    done = fit(run, *ROWS, "--ledger", "study.db", epsilon="2")
    assert done.exit_code == 3, done.output
    with Ledger("study.db") as ledger:
        assert (ledger.head, ledger.lines()) == (head, ())


def test_data_are_named_and_a_run_without_a_name_counts_on_all(run, tmp_path):
    Ledger("study.db", 1.0, 1e-5).close()
    for seed, name in enumerate(("south", "north")):
        write(tmp_path / "data.csv", name, seed)
        named = ("--ledger", "study.db", "--data-name", name)
        assert fit(run, *named, out=name).exit_code == 0
    refused = fit(run, "--ledger", "study.db", "--data-name", "north", out="more")
    assert refused.exit_code == 3
    assert "north data, unit task" in refused.output
    assert fit(run, "--ledger", "study.db", out="more").exit_code == 3
    shown = run("ledger", "show", "study.db")
    assert "north" in shown.output
    assert "south" in shown.output


def test_a_run_folder_pays_for_rows_and_tasks_at_once(run):
    done = fit(run, *ROWS)
    assert done.exit_code == 0, done.output
    with Ledger("data.csv.ledger.db") as ledger:
        by_unit = {line.unit: line.spent.epsilon for line in ledger.lines()}
    assert set(by_unit) == {"task", "row"}
    assert max(by_unit.values()) <= 1.0


def test_methods_that_charge_nothing_have_no_name_for_their_data(run):
    done = run(
        *("fit", "data.csv", "--task", "clinic", "--target", "stay", "--method", "single-task"),
        *("--data-name", "north", "--out", "run"),
    )
    assert done.exit_code == 2
    assert "--data-name" in done.output


def test_rows_of_two_ledgers_are_not_spent_on_one_of_them_alone(run, tmp_path):
    Ledger("second.csv.ledger.db", 5.0, 1e-4).close()
    for seed, name in enumerate(("first", "second")):
        write(tmp_path / "data.csv", name, seed)
        (tmp_path / "data.csv").rename(f"{name}.csv")
    head, *rows = (tmp_path / "first.csv").read_text().splitlines()
    both = [head, *rows, *(tmp_path / "second.csv").read_text().splitlines()[1:]]
    (tmp_path / "both.csv").write_text("\n".join(both) + "\n", encoding="utf-8")

    def fit_file(name, *options):
        columns = ("--task", "clinic", "--target", "stay", "--method", "low-rank", "--yes")
        return run("fit", f"{name}.csv", *columns, "--out", f"run-{name}", *options)

    def spent():
        found = []
        for name in ("first", "second"):
            with Ledger(f"{name}.csv.ledger.db") as ledger:
                found.append(ledger.spent().epsilon)
        return found

    for name in ("first", "second"):
        assert fit_file(name).exit_code == 0
    before = spent()
    for named in ((), ("--ledger", "second.csv.ledger.db"), ("--dry-run",)):
        refused = fit_file("both", *named)
        assert refused.exit_code == 2, refused.output
        assert "some of its rows are guarded by" in refused.output
    assert spent() == before
    word = ("--ledger", "second.csv.ledger.db", "--new-ledger", "both boards agreed")
    assert fit_file("both", *word).exit_code == 0
    assert fit_file("both", "--force").exit_code == 0  # the reason was given
    assert spent()[0] == before[0] < spent()[1]


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_ledger_for_others_does_not_tell_whether_a_row_changed(run, tmp_path, kind):
    """The keyed name of the data was in it: equal in two runs if, and only if, the rows were."""
    exported = []
    for folder, change in (("same", False), ("changed", True)):
        data = tmp_path / "data.csv"
        write(data)
        Ledger(f"{folder}.db", 5.0, 1e-4).close()
        word = ("--ledger", f"{folder}.db", "--new-ledger", "a test")
        assert fit(run, *(word if change else word[:2]), out=f"{folder}-1").exit_code == 0
        if change:
            data.write_text(data.read_text().replace("C0,", "C0,9", 1), encoding="utf-8")
        assert fit(run, *word, out=f"{folder}-2").exit_code == 0
        assert run("ledger", "export", f"{folder}.db", "--out", f"{folder}.{kind}").exit_code == 0
        exported.append((tmp_path / f"{folder}.{kind}").read_text(encoding="utf-8"))
    names = [
        record.seal["data"] for db in ("same.db", "changed.db") for record in Ledger(db).runs()
    ]
    assert names[0] == names[1] != names[3]
    assert not any(name in text for name in names for text in exported)
