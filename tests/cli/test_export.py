"""Every party's folder at once, as a real process writes them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
import zipfile

import pytest

from tacit.cli.export import folder_names

TACIT = (sys.executable, "-c", "from tacit.cli import main; main()")


@pytest.fixture
def made(fit, table, tmp_path):
    assert fit("--epsilon", "30", "--out", "run").exit_code == 0
    return tmp_path / "run"


def test_every_party_gets_a_folder_and_a_zip_that_work_on_their_own(made, table, tmp_path):
    done = subprocess.run(
        [*TACIT, "export", str(made), "--all", "--zip", "--out", str(tmp_path / "hand"), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    folders = json.loads(done.stdout)["parties"]
    assert sorted(folders) == [f"H{number}" for number in range(6)]
    whole = subprocess.run(
        [*TACIT, "predict", str(made), str(table), "--party", "H3"],
        capture_output=True,
        text=True,
        check=True,
    )
    with zipfile.ZipFile(tmp_path / "hand" / "H3.zip") as archive:
        archive.extractall(tmp_path / "site")
    own = subprocess.run(
        [*TACIT, "predict", str(tmp_path / "site" / "H3"), str(table), "--party", "H3"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert own.stdout == whole.stdout


def test_a_partys_folder_holds_its_own_coefficients_and_nobody_elses(made, run, tmp_path):
    assert run("export", made, "--all", "--out", "hand").exit_code == 0
    for number in range(6):
        folder = tmp_path / "hand" / f"H{number}"
        with (folder / "coefficients.csv").open() as stream:
            assert {line["task"] for line in csv.DictReader(stream)} == {f"H{number}"}
        body = json.loads((folder / "coefficients.json").read_text())
        assert [part["task"] for part in body["tasks"]] == [f"H{number}"]
        assert body["features"] == ["age", "severity"]
        assert not (folder / "ledger.db").exists()


def test_one_party_or_all_of_them_must_be_said(made, run):
    for wrong in ((), ("--party", "H1", "--all"), ("--party", "H1", "--zip")):
        done = run("export", made, "--out", "hand", *wrong)
        assert done.exit_code == 2
        assert "--" in done.output


def test_names_of_folders_are_safe_and_never_the_same():
    names = ("a/b", "a b", "A B", "..", "", "Ärzte", 7, "x" * 200)
    folders = [folder for _, folder in folder_names(names)]
    assert len({folder.casefold() for folder in folders}) == len(names)
    assert all("/" not in folder and folder.strip(".") for folder in folders)
