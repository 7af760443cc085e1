"""A stranger's path in real processes: a messy CSV file to per-site folders, report and ledger."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import tacit
from tacit.privacy import Statement

SITES = ("NA", "None", *(f"Site {n}" for n in range(58)))
TASK = ("--task", "site", "--target", "stay")
MENDED = (
    *("--drop", "record,note"),
    *("--missing", "?,n/a"),
    *("--dates", "admitted", "--range", "admitted=2020-01-01:2025-12-31"),
    *("--categories", "smoker=none,light,heavy"),
    *("--range", "age=0:100", "--range", "bmi=10:50", "--outside", "clip"),
    *("--kind", "regression"),
)


def write_messy(path):
    random = np.random.default_rng(11)
    with path.open("w", encoding="utf-8-sig", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(("record", "site", "admitted", "smoker", "age", "bmi", "note", "stay"))
        for row in range(900):
            age, bmi = int(random.integers(18, 96)), round(float(random.normal(26, 5)), 1)
            smoker = ("none", "light", "heavy")[int(random.integers(3))]
            stay = 2 + age / 15 + (bmi - 26) / 5 + (smoker == "heavy") + random.normal(0, 0.5)
            shown = "?" if row % 41 == 0 else bmi
            day = f"202{row % 6}-{1 + row % 12:02}-{1 + row % 28:02}"
            note = f"seen by Dr {row * 7919 % 1000}, bed {row}"
            site = SITES[row % len(SITES)]
            aged = "n/a" if row % 53 == 0 else age
            writer.writerow([f"R{row:06}", site, day, smoker, aged, shown, note, round(stay, 2)])


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Run tacit in a folder with a messy file and a register of its own."""
    folder = tmp_path_factory.mktemp("messy")
    write_messy(folder / "patients.csv")
    where = {**os.environ, "TACIT_STATE": str(folder / "state"), "COLUMNS": "160"}

    def call(*arguments, code=0):
        done = subprocess.run(
            [sys.executable, "-c", "from tacit.cli import main; main()", *map(str, arguments)],
            cwd=folder,
            env=where,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == code, (arguments, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done

    call.folder = folder
    return call


def test_every_mess_comes_with_its_remedy_until_the_file_is_read(shell):
    asked = ("fit", "patients.csv", *TASK)
    assert "--drop record" in shell(*asked, code=2).stderr
    assert "--dates admitted" in shell(*asked, "--drop", "record", code=2).stderr
    given = ("--drop", "record", "--dates", "admitted")
    assert "--categories smoker=a,b,c" in shell(*asked, *given, code=2).stderr
    given = (*given, "--categories", "smoker=none,light,heavy")
    assert "--drop note" in shell(*asked, *given, code=2).stderr
    given = (*given, "--drop", "note")
    assert "--missing 'n/a'" in shell(*asked, *given, code=2).stderr
    given = (*given, "--missing", "n/a")
    assert "--missing '?'" in shell(*asked, *given, code=2).stderr
    assert [path.name for path in shell.folder.iterdir()] == ["patients.csv"]


def test_the_officer_sees_the_price_before_it_is_paid(shell):
    body = json.loads(shell("fit", "patients.csv", *TASK, *MENDED, "--dry-run", "--json").stdout)
    assert body["cannot_help"] is not None  # 60 sites at ε = 1
    told = shell("fit", "patients.csv", *TASK, *MENDED, code=2).stderr
    assert "nothing will be shared" in told
    assert "say --yes to fit all the same" in told
    enough = shell("fit", "patients.csv", *TASK, *MENDED, "--epsilon", 4, "--dry-run", "--json")
    planned = json.loads(enough.stdout)
    assert planned["cannot_help"] is None
    assert planned["noise_to_signal"] > 0
    assert not (shell.folder / "patients.csv.ledger.db").exists()


@pytest.fixture(scope="module")
def fitted(shell):
    done = shell(
        *("fit", "patients.csv", *TASK, *MENDED, "--epsilon", 4, "--test-size", 0.3),
        *("--out", "run", "--json"),
    )
    return json.loads(done.stdout)


def test_the_fit_helps_and_keeps_sites_with_strange_names(shell, fitted):
    assert {"NA", "None"} <= set(tacit.load(shell.folder / "run").task_names_)
    assert fitted["n_filled"] > 0
    assert fitted["statement"]["epsilon"] == pytest.approx(4.0, rel=1e-6)
    held_out = fitted["held_out"]
    assert held_out["shared-prior"] < 0.9 * held_out["single-task"]


def test_each_site_gets_a_folder_that_verifies(shell, fitted):
    for number, site in enumerate(("NA", "None", "Site 7")):
        own = f"sites/{number}"
        shell("export", "run", "--party", site, "--out", own)
        assert "stands with the coordinator" in shell("verify", own).stdout
        answers = shell("predict", own, "patients.csv", "--party", site).stdout
        assert len(answers.splitlines()) == 16
        assert (shell.folder / own / "report.html").stat().st_size > 1000


def test_the_ledger_is_verified_and_refuses_a_second_helping(shell, fitted):
    assert "all in order" in shell("verify", "run").stdout
    shell("ledger", "verify", "patients.csv")
    shown = shell("ledger", "show", "run").stdout
    assert "SharedPriorRegressor" in shown
    assert "nothing is left for another fit" in shown
    shell("ledger", "export", "patients.csv", "--out", "runs.csv")
    with (shell.folder / "runs.csv").open(encoding="utf-8", newline="") as stream:
        (record,) = csv.DictReader(stream)
    assert float(record["epsilon"]) == pytest.approx(4.0, rel=1e-6)
    again = shell("fit", "patients.csv", *TASK, *MENDED, "--epsilon", 4, "--out", "two", code=3)
    assert "nothing is left for another fit" in again.stderr


def test_the_report_opens_offline_and_says_the_same(shell, fitted):
    shell("report", "run", "--out", "page.html")
    page = (shell.folder / "page.html").read_text(encoding="utf-8")
    stated = (shell.folder / "run" / "statement.json").read_text(encoding="utf-8")
    assert f"{Statement.from_json(stated).epsilon:.3g}" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
