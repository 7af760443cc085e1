"""One ledger for one data set, found again whatever the file is called, and never in silence."""

from __future__ import annotations

import csv
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tacit.cli.guard.fingerprint import TOKENS, fingerprint
from tacit.cli.guard.register import Register, state_folder
from tacit.cli.table.read import read_table
from tacit.privacy import Ledger, Statement

FIT = ("--task", "site", "--target", "stay", "--method", "low-rank", "--yes", "--quiet")


def rows(n_rows=60, seed=0, sites=("North", "South", "Elm Court", "West")):
    random = np.random.default_rng(seed)
    return [
        {
            "site": sites[row % len(sites)],
            "age": int(random.integers(18, 95)),
            "score": round(float(random.standard_normal()), 4),
            "stay": round(float(random.uniform(1, 20)), 2),
        }
        for row in range(n_rows)
    ]


def write(path, table):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(table), path)
        return path
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


@pytest.fixture
def first(run):
    """A first run on data.csv, which spent half of its ledger's total."""
    write("data.csv", rows())
    made = run("ledger", "create", "data.csv.ledger.db", "--epsilon", "1", "--delta", "1e-5")
    assert made.exit_code == 0
    done = run("fit", "data.csv", *FIT, "--epsilon", "0.5", "--out", "first")
    assert done.exit_code == 0, done.stderr
    return run


def n_runs(path="data.csv.ledger.db"):
    with Ledger(path) as ledger:
        ledger.verify()
        return len(ledger.runs())


def test_three_fits_in_three_folders_share_one_budget(run):
    write("data.csv", rows())
    results = [run("fit", "data.csv", *FIT, "--out", f"run{n}") for n in range(3)]
    assert [result.exit_code for result in results] == [0, 3, 3]
    assert "nothing is left for another fit" in results[1].stderr
    assert "--new-ledger" in results[1].stderr
    assert not Path("run1").exists()
    with Ledger("data.csv.ledger.db") as ledger:
        assert ledger.spent().epsilon == pytest.approx(1.0)
    for place in ("data.csv", "run0", "data.csv.ledger.db"):
        assert run("ledger", "show", place).exit_code == 0


CHANGED = {
    "another name": lambda table: table,
    "columns in another order": lambda table: [dict(reversed(row.items())) for row in table],
    "columns with other names": lambda table: [
        {"site": row["site"], "years": row["age"], "z": row["score"], "stay": row["stay"]}
        for row in table
    ],
    "rows in another order": lambda table: list(reversed(table)),
    "rows added": lambda table: table + rows(200, seed=9),
    "a tenth of the rows": lambda table: table[::10] + table[1::10],
    "a column added": lambda table: [{**row, "extra": row["age"] * 2} for row in table],
    "a column left out": lambda table: [
        {name: row[name] for name in ("site", "score", "stay")} for row in table
    ],
    "a value corrected": lambda table: [table[0] | {"age": 0.5}, *table[1:]],
}


FORMATS = {"another format": list, "a file that is streamed": lambda t: sorted(t, key=_site)}


def _site(row):
    return row["site"]


@pytest.mark.parametrize("change", [*CHANGED, *FORMATS])
def test_the_same_rows_are_known_in_another_guise(first, change):
    name = "other/copy.parquet" if change in FORMATS else "other/copy.csv"
    table = (CHANGED | FORMATS)[change](rows())
    write(name, table)
    done = first("fit", name, *FIT[:-1], "--epsilon", "0.5", "--out", "again")
    assert done.exit_code == 0, done.stderr
    assert "these rows are guarded by" in done.stderr
    assert ("read into memory" in done.stderr) == (change == "another format")
    assert not Path(f"{name}.ledger.db").exists()
    assert n_runs() == 2


def test_the_role_of_a_column_does_not_matter(first):
    other = ("--task", "age", "--target", "score", "--features", "stay", "--method", "low-rank")
    done = first("fit", "data.csv", *other, "--yes", "--epsilon", "0.5", "--out", "again")
    assert done.exit_code == 0, done.stderr
    assert n_runs() == 2


def test_other_data_of_other_parties_have_a_ledger_of_their_own(first):
    write("more.csv", rows(seed=5, sites=("Oslo", "Bergen", "Moss")))
    assert first("fit", "more.csv", *FIT, "--out", "more").exit_code == 0
    assert n_runs("more.csv.ledger.db") == n_runs() == 1


def test_parties_of_the_same_names_are_asked_about_once(first):
    write("next.csv", rows(seed=5))
    asked = first("fit", "next.csv", *FIT, "--out", "next")
    assert asked.exit_code == 2
    assert "its parties have the names of those guarded by" in asked.stderr
    assert not Path("next.csv.ledger.db").exists()
    named = ("--ledger", "data.csv.ledger.db", "--epsilon", "0.5")
    assert first("fit", "next.csv", *FIT, *named, "--out", "next").exit_code == 0
    assert n_runs() == 2
    again = first("fit", "next.csv", *FIT, "--epsilon", "0.1", "--out", "next2")
    assert again.exit_code == 0, again.stderr  # known by its rows now
    assert n_runs() == 3


def test_a_ledger_of_parties_of_the_same_names_does_not_stand_in_for_that_of_the_rows(first):
    write("later.csv", rows(seed=1))
    later = ("later.csv", *FIT, "--epsilon", "0.5", "--out", "later", "--new-ledger", "others")
    assert first("fit", *later).exit_code == 0
    found = first("fit", "data.csv", *FIT, "--out", "again", "--ledger", "later.csv.ledger.db")
    assert found.exit_code == 2, found.stderr
    assert "are guarded by" in found.stderr
    assert n_runs("later.csv.ledger.db") == 1


def test_a_second_name_is_no_second_budget_for_the_same_rows(run):
    write("data.csv", rows())
    fit = ("fit", "data.csv", *FIT, "--epsilon", "1")
    assert run(*fit, "--out", "one", "--data-name", "one").exit_code == 0
    write("copy.csv", list(reversed(rows()))[:40])
    for data in ("data.csv", "copy.csv"):
        again = run("fit", data, *fit[2:], "--out", "two", "--data-name", "two")
        assert again.exit_code == 2, again.stderr
        assert "charged as 'one'" in again.stderr
    assert run(*fit, "--out", "two", "--data-name", "one").exit_code == 3  # used up
    assert run(*fit, "--out", "two").exit_code == 3
    write("other.csv", rows(seed=5, sites=("Ash", "Birch", "Cedar")))
    other = ("fit", "other.csv", *fit[2:], "--ledger", "data.csv.ledger.db")
    done = run(*other, "--out", "other", "--data-name", "other")
    assert done.exit_code == 0, done.stderr
    assert run(*other, "--out", "again", "--data-name", "one").exit_code == 2
    assert n_runs() == 2


def test_numbers_name_no_parties_across_different_tables(first):
    numbered = [row | {"site": n % 3} for n, row in enumerate(rows(seed=7))]
    write("a.csv", numbered)
    assert first("fit", "a.csv", *FIT, "--out", "a").exit_code == 0
    other = [
        {"site": n % 3, "dose": row["score"], "stay": row["stay"]}
        for n, row in enumerate(rows(seed=8))
    ]
    write("b.csv", other)
    assert first("fit", "b.csv", *FIT, "--out", "b").exit_code == 0
    write("c.csv", [row | {"site": n % 3} for n, row in enumerate(rows(seed=9))])
    assert "have the names" in first("fit", "c.csv", *FIT, "--out", "c").stderr


def test_another_ledger_for_known_rows_needs_a_word_and_is_recorded(first):
    first("ledger", "create", "mine.db", "--epsilon", "9", "--delta", "1e-5")
    refused = first("fit", "data.csv", *FIT, "--ledger", "mine.db", "--out", "again")
    assert refused.exit_code == 2
    assert "are guarded by" in refused.stderr
    assert n_runs("mine.db") == 0
    word = ("--ledger", "mine.db", "--new-ledger", "the board allowed a second study")
    done = first("fit", "data.csv", *FIT, *word, "--out", "again")
    assert done.exit_code == 0, done.stderr
    with Ledger("mine.db") as mine, Ledger("data.csv.ledger.db") as guarding:
        (note,) = mine.notes()
        assert note["reason"] == "the board allowed a second study"
        assert [part["ledger"] for part in note["besides"]] == [guarding.identity]
        assert guarding.holds(note["besides"][0]["head"])
        assert mine.verify() > 0
    shown = first("ledger", "show", "mine.db").stdout
    assert "the board allowed a second study" in shown
    statement = Statement.from_json(Path("again/statement.json").read_text(encoding="utf-8"))
    assert any("in another ledger" in text for text in statement.not_protected)


def test_a_new_ledger_beside_the_data_does_not_touch_the_old_one(first):
    before = Path("data.csv.ledger.db").read_bytes()
    done = first("fit", "data.csv", *FIT, "--new-ledger", "consent renewed", "--out", "again")
    assert done.exit_code == 0, done.stderr
    assert n_runs("data.csv-2.ledger.db") == 1
    assert Path("data.csv.ledger.db").read_bytes() == before
    needless = write("fresh.csv", rows(seed=3, sites=("A1", "B1")))
    told = first("fit", needless, *FIT, "--new-ledger", "why not", "--out", "fresh")
    assert told.exit_code == 2
    assert "no ledger guards these data yet" in told.stderr


def test_a_ledger_that_moved_is_missed_and_found_again(first):
    Path("safe").mkdir()
    Path("data.csv.ledger.db").rename("safe/kept.db")
    half = ("--epsilon", "0.3", "--out")
    missed = first("fit", "data.csv", *FIT, *half, "again")
    assert missed.exit_code == 4
    assert "is not there any more; say where it is with --ledger" in missed.stderr
    assert not Path("data.csv.ledger.db").exists()
    named = first("fit", "data.csv", *FIT, "--ledger", "safe/kept.db", *half, "again")
    assert named.exit_code == 0, named.stderr
    assert first("fit", "data.csv", *FIT, *half, "third").exit_code == 0
    assert n_runs("safe/kept.db") == 3


def test_a_folder_that_moved_with_its_ledger_goes_on(first):
    Path("there").mkdir()
    for name in ("data.csv", "data.csv.ledger.db"):
        Path(name).rename(f"there/{name}")
    done = first("fit", "there/data.csv", *FIT, "--epsilon", "0.5", "--out", "again")
    assert done.exit_code == 0, done.stderr
    assert n_runs("there/data.csv.ledger.db") == 2


def test_an_older_copy_of_a_ledger_is_refused(first):
    shutil.copy("data.csv.ledger.db", "old.db")
    assert first("fit", "data.csv", *FIT, "--epsilon", "0.5", "--out", "two").exit_code == 0
    refused = first(
        "fit", "data.csv", *FIT, "--ledger", "old.db", "--epsilon", "0.5", "--out", "three"
    )
    assert refused.exit_code == 4
    assert "older copy" in refused.stderr
    shutil.copy("old.db", "data.csv.ledger.db")
    restored = first("fit", "data.csv", *FIT, "--epsilon", "0.5", "--out", "three")
    assert restored.exit_code == 4
    assert first("verify", "first").exit_code == 4


def test_the_ledger_of_the_environment_is_used(first, monkeypatch):
    write("more.csv", rows(seed=5, sites=("Oslo", "Bergen", "Moss")))
    monkeypatch.setenv("TACIT_LEDGER", "data.csv.ledger.db")
    assert first("fit", "more.csv", *FIT, "--epsilon", "0.5", "--out", "more").exit_code == 0
    assert n_runs() == 2
    monkeypatch.setenv("TACIT_LEDGER", "nowhere.db")
    refused = first("fit", "more.csv", *FIT, "--out", "again")
    assert "tacit ledger create nowhere.db" in refused.stderr
    alone = ("--task", "site", "--target", "stay", "--method", "single-task", "--out", "alone")
    assert first("fit", "more.csv", *alone).exit_code == 0  # not accounted: asks for no ledger


def test_nothing_is_left_where_nothing_was_spent(run, tmp_path):
    write("data.csv", rows())
    dry = run("fit", "data.csv", *FIT, "--dry-run")
    assert dry.exit_code == 0, dry.stderr
    assert not (state_folder() / "ledgers.db").exists()
    silent = ("--task", "site", "--target", "stay", "--yes", "--quiet", "--out", "silent")
    assert run("fit", "data.csv", *silent).exit_code == 0
    assert not Path("data.csv.ledger.db").exists()
    with Register() as register:
        data = fingerprint([read_table(tmp_path / "data.csv").columns], "site", register.key)
        assert register.guarding(data) == []
    larger = run("fit", "data.csv", *FIT, "--epsilon", "3", "--out", "run")
    assert larger.exit_code == 0  # the total is that of the first run that spends


def test_the_register_tells_others_nothing(first, tmp_path):
    file = state_folder() / "ledgers.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    known = [read_table(tmp_path / "data.csv").columns]
    keys = [os.urandom(32), os.urandom(32)]
    one, other = (fingerprint(known, "site", key) for key in keys)
    assert not one.shares_rows(other.sketch())
    assert not one.shares_parties(other.sketch())
    assert one.shares_rows(fingerprint(known, "site", keys[0]).sketch())
    small = fingerprint([read_table(write("s.csv", rows(4))).columns], "site", keys[0])
    assert len(small.sketch().to_bytes()) == len(one.sketch().to_bytes()) == 3 * 8 * TOKENS
    for path in (file, Path("data.csv.ledger.db")):
        content = path.read_bytes()
        # Names of five bytes and more: three may stand there by chance.
        assert b"North" not in content
        assert b"Elm Court" not in content
    with sqlite3.connect(file) as connection:
        (key,) = connection.execute("SELECT key FROM secret").fetchone()
    connection.close()
    assert key not in Path("data.csv.ledger.db").read_bytes()
    assert key.hex().encode() not in Path("data.csv.ledger.db").read_bytes()


def _process(name, out):
    code = "from tacit.cli import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, "fit", name, *FIT, "--out", out],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_copies_that_are_fitted_at_once_share_one_budget(run):
    for name in ("a/data.csv", "b/copy.csv", "c/third.csv"):
        write(name, rows())
    begun = [_process(n, o) for n, o in (("a/data.csv", "1"), ("b/copy.csv", "2"))]
    begun.append(_process("c/third.csv", "3"))
    codes = [process.wait(120) for process in begun]
    for process in begun:
        process.stderr.close()
    assert sorted(codes) == [0, 3, 3]
    assert len(list(Path().rglob("*.ledger.db"))) == 1


KILLED = """
import os, signal
from tacit.privacy.ledger import Ledger
def struck(self, *given, **named):
    os.kill(os.getpid(), signal.SIGKILL)
Ledger.reserve = struck
from tacit.cli import main
main()
"""


def test_a_run_killed_before_it_reserves_leaves_a_ledger_that_is_known(run):
    write("data.csv", rows())
    command = [sys.executable, "-c", KILLED, "fit", "data.csv", *FIT, "--out", "run"]
    assert subprocess.run(command, check=False).returncode == -9
    assert n_runs() == 0
    write("copy/other.csv", rows())
    done = run("fit", "copy/other.csv", *FIT, "--out", "again")
    assert done.exit_code == 0, done.stderr
    assert n_runs() == 1


def test_a_place_where_no_ledger_can_be_made_says_what_to_do(run, monkeypatch):
    from tacit.cli.guard import choice

    write("data.csv", rows())

    def refuse(path, *totals):
        raise PermissionError(13, "Permission denied", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(choice, "Ledger", refuse)
        refused = run("fit", "data.csv", *FIT, "--out", "run")
    assert refused.exit_code == 4
    assert "name it with --ledger or TACIT_LEDGER" in refused.stderr
    assert not Path("run").exists()


def test_a_run_folder_of_an_earlier_version_keeps_its_ledger(run):
    write("data.csv", rows())
    Path("run").mkdir()
    Ledger("run/ledger.db", 1.0, 1e-5).close()
    assert run("fit", "data.csv", *FIT, "--force", "--out", "run").exit_code == 0
    assert n_runs("run/ledger.db") == 1
    assert run("fit", "data.csv", *FIT, "--out", "other").exit_code == 3


def test_a_refused_run_guards_nothing(run):
    write("data.csv", rows())
    run("ledger", "create", "small.db", "--epsilon", "0.1", "--delta", "1e-6")
    before = Path("small.db").read_bytes()
    refused = run("fit", "data.csv", *FIT, "--ledger", "small.db", "--out", "run")
    assert refused.exit_code == 3
    assert Path("small.db").read_bytes() == before
    assert run("fit", "data.csv", *FIT, "--out", "run").exit_code == 0
    assert n_runs() == 1
