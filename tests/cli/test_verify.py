"""A run folder is what it was: statement, releases, ledger and model belong together."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from tacit.cli.run.seal import write_seal
from tacit.privacy import Ledger


@pytest.fixture
def fitted(fit, table):
    result = fit("--test-size", "0.3")
    assert result.exit_code == 0, result.stderr


def edit(path, old, new):
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def caught(result, *words):
    assert result.exit_code == 4, (result.stdout, result.stderr)
    for word in words:
        assert word in result.stderr, result.stderr


def test_a_finished_run_and_its_parties_verify(fitted, run):
    done = run("verify", "run", "--json")
    assert done.exit_code == 0, done.stderr
    assert set(json.loads(done.stdout)["checks"]) == {"files", "statement", "ledger"}
    assert run("export", "run", "--party", "H1", "--out", "own").exit_code == 0
    assert run("verify", "own").exit_code == 0
    assert run("report", "run").exit_code == 0  # the page may be drawn again
    assert run("verify", "run").exit_code == 0


@pytest.mark.parametrize("command", ["verify", "report", "audit", "export"])
def test_an_edited_statement_is_caught_everywhere(fitted, run, command):
    edit("run/statement.json", '"epsilon": 1', '"epsilon": 0.1')
    more = ("--party", "H1", "--out", "own") if command == "export" else ()
    caught(run(command, "run", *more), "statement.json", "changed after the run")


@pytest.mark.parametrize("name", ["history.csv", "evaluation.csv", "config.toml"])
def test_any_edited_file_is_caught(fitted, run, name):
    with (Path("run") / name).open("a", encoding="utf-8") as stream:
        stream.write(" ")
    for command in (("verify", "run"), ("report", "run"), ("predict", "run", "data.csv")):
        caught(run(*command), name, "changed after the run was sealed")
    (Path("run") / name).unlink()
    caught(run("verify", "run"), name, "is missing")


def test_a_forged_seal_is_caught_by_the_ledger(fitted, run):
    edit("run/history.csv", "0", "1")
    seal = json.loads(Path("run/seal.json").read_text(encoding="utf-8"))
    write_seal(Path("run"), seal["ledger"])
    caught(run("verify", "run"), "its seal is not the one")
    Path("run/seal.json").unlink()
    caught(run("verify", "run"), "has no seal.json")


def test_releases_of_another_run_are_caught(fit, run, table, plenty):
    assert fit("--out", "run").exit_code == 0
    assert fit("--out", "other").exit_code == 0
    shutil.copy("other/billboard.npz", "run/billboard.npz")
    caught(run("verify", "run"), "billboard.npz")
    Path("run/seal.json").unlink()
    caught(run("verify", "run"), "seal")


def test_a_whole_folder_forged_without_its_ledger_is_caught(fit, run, table, plenty):
    """Model, statement, releases and seal of another run, with the first run's place."""
    assert fit("--out", "run").exit_code == 0
    assert fit("--out", "other", "--epsilon", "2").exit_code == 0
    place = json.loads(Path("run/seal.json").read_text(encoding="utf-8"))["ledger"]
    write_seal(Path("other"), place)
    caught(run("verify", "other"), "its seal is not the one")


def test_an_edited_replaced_or_missing_ledger_is_caught(fitted, run):
    shutil.copy("data.csv.ledger.db", "copy.db")
    with sqlite3.connect("data.csv.ledger.db") as connection:
        connection.execute("UPDATE entries SET body = '{}' WHERE kind = 'charge'")
    connection.close()
    caught(run("verify", "run"), "edited")
    Path("data.csv.ledger.db").unlink()
    caught(run("verify", "run"), "not there any more; say where with --ledger")
    assert run("verify", "run", "--ledger", "copy.db").exit_code == 0
    with Ledger("copy.db") as ledger:
        head = ledger.head
    assert run("verify", "run", "--ledger", "copy.db", "--head", head).exit_code == 0
    caught(run("verify", "run", "--ledger", "copy.db", "--head", "0" * 64), "noted head")
    Ledger("foreign.db", 1.0, 1e-5).close()
    caught(run("verify", "run", "--ledger", "foreign.db"), "is another ledger")


def test_runs_without_releases_verify_too(fit, run, table):
    assert fit("--method", "single-task").exit_code == 0
    done = run("verify", "run")
    assert done.exit_code == 0, done.stderr
    assert "nothing was charged" in done.stdout
    assert run("verify", "run", "--ledger", "x.db").exit_code == 2


def test_a_search_and_row_noise_verify(fit, run, table, plenty):
    assert fit("--tune", "clip=2,20", "--out", "searched").exit_code == 0
    assert run("verify", "searched").exit_code == 0, run("verify", "searched").stderr
    rows = ("--set", "epsilon_rows=4", "--set", "target_bound=10")
    assert fit(*rows, "--out", "rows").exit_code == 0
    assert run("verify", "rows").exit_code == 0, run("verify", "rows").stderr


def test_a_signature_names_its_writer(fitted, run):
    pytest.importorskip("cryptography")
    signed = run("sign", "run", "--key", "officer.pem", "--make-key")
    assert signed.exit_code == 0, signed.stderr
    assert Path("officer.pem").stat().st_mode & 0o777 == 0o600
    assert run("verify", "run", "--key", "officer.pem.pub").exit_code == 0
    assert run("export", "run", "--party", "H1", "--out", "own").exit_code == 0
    caught(run("verify", "own", "--key", "officer.pem.pub"), "is not signed")
    assert run("sign", "own", "--key", "other.pem", "--make-key").exit_code == 0
    caught(run("verify", "own", "--key", "officer.pem.pub"), "no signature")
    edit("run/history.csv", "0", "1")
    seal = json.loads(Path("run/seal.json").read_text(encoding="utf-8"))
    with Ledger("data.csv.ledger.db") as ledger:  # even with the ledger in the forger's hands
        sealed = write_seal(Path("run"), seal["ledger"])
        ledger.seal(seal["ledger"]["run"], {"files": sealed})
    assert run("verify", "run").exit_code == 0
    caught(run("verify", "run", "--key", "officer.pem.pub"), "no signature")
    assert run("sign", "run", "--key", "officer.pem", "--make-key").exit_code == 2
    assert run("sign", "run", "--key", "nowhere.pem").exit_code == 2


def test_signing_without_the_library_says_what_to_install(fitted, run, monkeypatch):
    import sys

    for name in ("cryptography", "cryptography.hazmat", "cryptography.hazmat.primitives"):
        monkeypatch.setitem(sys.modules, name, None)
    Path("k.pem").write_text("x", encoding="utf-8")
    told = run("sign", "run", "--key", "k.pem")
    assert told.exit_code == 2
    assert "pip install 'tacit[sign]'" in told.stderr
