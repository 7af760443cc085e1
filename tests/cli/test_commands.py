"""The smaller commands, and the promises all of them keep."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMANDS = (
    "demo",
    "fit",
    "predict",
    "report",
    "export",
    "join",
    "plan",
    "audit",
    "ledger",
    "datasets",
    "methods",
    "reproduce",
    "transfer",
)


def test_help_lists_every_command_and_the_exit_codes(run):
    result = run("--help")
    for name in COMMANDS:
        assert f" {name} " in result.stdout
    assert "Exit codes" in result.stdout
    assert "3 privacy budget refused" in result.stdout


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name):
    result = run(name, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_an_unknown_command_is_refused(run):
    assert run("fti").exit_code == 2


def test_help_does_not_load_the_numerical_stack():
    code = (
        "import sys; from tacit.cli._app import app; "
        "print([m for m in ('sklearn', 'numba', 'scipy', 'dp_accounting') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_plan_prints_noise_and_bytes_for_a_billion_parties(run):
    given = ("--tasks", "1000000000", "--features", "27", "--method", "low-rank")
    result = run("plan", *given, "--rounds", "10", "--json")
    body = json.loads(result.stdout)
    assert body["bytes_up"] == 10 * 27 * 8
    assert sum(release["turns"] for release in body["releases"]) == 10
    assert body["releases"][0]["noise_multiplier"] > 0
    assert "noise multiplier" in run("plan", *given).stdout
    assert run("plan", *given[:4], "--method", "magic").exit_code == 2
    assert run("plan", "--tasks", "0", "--features", "2").exit_code == 2
    proximal = run("plan", *given, "--rounds", "4", "--set", "update=proximal", "--json")
    noises = [release["scale"] for release in json.loads(proximal.stdout)["releases"]]
    assert len(noises) == 4
    assert sorted(noises, reverse=True) == noises


def test_an_audit_that_refutes_the_claim_ends_with_5(run):
    few = ("--features", "4", "--trials", "3000", "--seed", "0")
    found = run("audit", "wishart-published", "--epsilon", "1", *few)
    assert found.exit_code == 5
    assert "VIOLATED" in found.stdout
    assert "refuted" in found.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("magic",),
        ("gaussian", "--epsilon", "-1"),
        ("gaussian", "--delta", "auto"),
        ("gaussian", "--trials", "3"),
        ("gaussian", "--confidence", "2"),
    ],
)
def test_an_audit_of_nonsense_is_refused(run, arguments):
    result = run("audit", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.stderr


def test_a_run_without_releases_cannot_be_audited(run, fit, table):
    assert fit("--method", "single-task").exit_code == 0
    result = run("audit", "run")
    assert result.exit_code == 2
    assert "nothing to audit" in result.stderr


def test_datasets_are_listed_and_fetched(run, monkeypatch, tmp_path):
    monkeypatch.setenv("TACIT_DATA", str(tmp_path))
    monkeypatch.setenv("TACIT_CACHE", str(tmp_path))
    monkeypatch.delenv("TACIT_DATA_URL", raising=False)
    listed = json.loads(run("datasets", "list", "--json").stdout)["datasets"]
    where = {entry["name"]: entry["where"] for entry in listed}
    assert where["hospitals"] == "embedded"
    assert where["school"] == "not here"
    absent = run("datasets", "fetch", "school")
    assert absent.exit_code == 4
    assert "TACIT_DATA" in absent.stderr
    assert run("datasets", "fetch", "magic").exit_code == 2
    (tmp_path / "school.npz").write_bytes(b"damaged")
    assert "checksum" in run("datasets", "fetch", "school").stderr
    listed = json.loads(run("datasets", "list", "--json").stdout)["datasets"]
    assert {entry["name"]: entry["where"] for entry in listed}["school"] == "damaged"


def test_reproduce_lists_figures_or_says_that_a_checkout_is_needed(run, monkeypatch):
    from tacit.errors import DataNotFound
    from tacit.reproduce import _figures

    # In an installed wheel there are no papers at all.
    in_checkout = (Path(_figures.__file__).parents[3] / "papers").is_dir()
    assert run("reproduce", "no/figure").exit_code == (2 if in_checkout else 4)

    def absent():
        raise DataNotFound("papers: no such folder; run inside a checkout of tacit")

    monkeypatch.setattr(_figures, "papers_folder", absent)
    result = run("reproduce")
    assert result.exit_code == 4
    assert "checkout" in result.stderr


@pytest.mark.parametrize("upheld", [True, False])
def test_reproduce_ends_with_5_if_a_verdict_does_not_hold(run, monkeypatch, tmp_path, upheld):
    from tacit import reproduce
    from tacit.reproduce import Claim, Finding

    claim = Claim("a beats b", "Fig. 1", "a is better", "not reproduced", (), "b is better")

    def figures(names, **_):
        return {name: [Finding(claim, upheld, "a 2 against b 1")] for name in names}

    monkeypatch.setattr(reproduce, "reproduce", figures)
    result = run("reproduce", "some/figure", "--out", str(tmp_path))
    assert result.exit_code == (0 if upheld else 5)
    assert "not reproduced, because b is better" in result.stdout
    assert ("DOES NOT HOLD" in result.stdout) is not upheld
    table = (tmp_path / "claims.md").read_text(encoding="utf-8")
    assert ("CONTRADICTED" in table) is not upheld
    asked = run("reproduce", "some/figure", "--out", str(tmp_path), "--json")
    assert json.loads(asked.stdout)["some/figure"][0]["upheld"] is upheld


@pytest.mark.parametrize("arguments", [("methods",), ("datasets", "list")])
def test_quiet_is_quiet(run, arguments):
    result = run(*arguments, "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")


def test_a_quiet_fit_still_warns_of_what_is_not_private(fit, table):
    result = fit("--seed", "3", "--quiet", "--clip", "2")
    assert result.stdout == ""
    assert "NOT private" in result.stderr


def test_warnings_of_leaking_mechanisms_are_lines_of_their_own(fit, table):
    leaking = ("--mechanism", "wishart-published", "--delta", "0", "--clip", "1", "--rounds", "1")
    result = fit("--method", "low-rank", *leaking, "--set", "update=proximal")
    assert result.exit_code == 0, result.stderr
    assert "warning:" in result.stderr
    assert "NOT private" in result.stderr


def test_plan_answers_whole_parties_or_single_rows_with_a_method_that_can_help(run):
    given = ("plan", "--tasks", "20", "--features", "8")
    assert run(*given, "--protect", "party").stdout.startswith("single-task: ")
    rows = run(*given, "--protect", "row", "--rows", "6000")
    assert rows.stdout.startswith("shared-moments: ")
    assert "untrusted" in rows.stdout
    few = run(*given, "--protect", "row", "--rows", "200")
    assert "curator trusted" in few.stdout
    none = run(*given, "--protect", "row", "--rows", "60", "--epsilon", "0.1")
    assert none.stdout.startswith("single-task: ")
    many = run("plan", "--tasks", "2000", "--features", "8", "--protect", "party")
    assert many.stdout.startswith("shared-prior: ")
    assert run(*given, "--protect", "row").exit_code == 2
    assert run(*given, "--protect", "village").exit_code == 2


def test_the_demo_ends_with_table_statement_audit_and_report(run):
    result = run("demo")
    assert result.exit_code == 0, result.stderr
    shown = ("single-task", "pooled", "single rows", "non-private MTL", "ε = 1", "Audit: ")
    for text in shown:
        assert text in result.stdout
    assert "joint differential privacy" in result.stdout
    assert result.stdout.rstrip().endswith("report.html")
    page = Path(result.stdout.rstrip().rsplit("Report: ", 1)[1])
    assert "Twenty invented hospitals" in page.read_text(encoding="utf-8")
    shown = next(line for line in result.stdout.splitlines() if "Of what learning together" in line)
    assert int(shown.split("parties and ")[1].split(" %")[0]) > 40  # of the gain, in private
    assert run("demo", "--epsilon", "-1").exit_code == 2
