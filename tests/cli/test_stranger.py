"""A stranger's path: twenty hospitals in a CSV file, from fit to audit, every output checked."""

from __future__ import annotations

import csv
import json
import tomllib

import numpy as np
import pytest
from typer.testing import CliRunner

import tacit
from tacit.cli._app import app
from tacit.datasets import load_hospitals
from tacit.privacy import Ledger, Statement

RANGES = (
    "age=20:100",
    "comorbidities=0:8",
    "systolic_bp=80:200",
    "creatinine=30:200",
    "haemoglobin=70:190",
    "albumin=20:55",
    "prior_admissions=0:6",
)


def call(*arguments):
    result = CliRunner().invoke(app, [str(part) for part in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def read(path):
    with open(path, encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def walked(tmp_path_factory):
    """Make the file, fit, predict, report and audit once; the tests look at what is there."""
    folder = tmp_path_factory.mktemp("stranger")
    results = {}
    results["fetch"] = call("datasets", "fetch", "hospitals", "--csv", folder / "hospitals.csv")
    ranges = [part for entry in RANGES for part in ("--range", entry)]
    data = ("fit", folder / "hospitals.csv", "--task", "task", "--target", "target", *ranges)
    run = folder / "run"
    results["dry"] = call(
        *data, "--method", "low-rank", "--epsilon", "2", "--out", run, "--dry-run"
    )
    results["dry left"] = list(folder.iterdir())
    results["fit"] = call(
        *data,
        "--method",
        "low-rank",
        "--epsilon",
        "2",
        "--test-size",
        "0.3",
        "--out",
        run,
        "--json",
    )
    new = read(folder / "hospitals.csv")[:40]
    for row in new:
        del row["target"]
    with open(folder / "new.csv", "w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(new[0]))
        writer.writeheader()
        writer.writerows(new)
    results["predict"] = call("predict", run, folder / "new.csv", "--out", folder / "answers.csv")
    results["report"] = call("report", run, "--out", folder / "page.html")
    results["audit"] = call("audit", run, "--trials", "20000", "--seed", "1", "--json")
    results["export"] = call("export", run, "--party", "Alder Vale", "--out", folder / "own")
    return folder, results


def test_every_step_succeeds(walked):
    _, results = walked
    for step, result in results.items():
        if step != "dry left":
            assert result.exit_code == 0, (step, result.stderr)
            assert "Traceback" not in result.stderr


def test_the_dry_run_states_the_run_to_be_and_writes_nothing(walked):
    folder, results = walked
    assert results["dry left"] == [folder / "hospitals.csv"]
    assert "nothing was spent" in results["dry"].stdout
    assert "ε = 2" in results["dry"].stdout
    planned = results["dry"].stdout.split("Statement to be: ")[1]
    done = Statement.from_json((folder / "run" / "statement.json").read_text(encoding="utf-8"))
    assert planned.split("Not protected")[0].strip() in done.explain()


def test_the_run_folder_holds_what_it_should_and_nothing_hidden(walked):
    folder, _ = walked
    names = {path.name for path in (folder / "run").iterdir()}
    assert {
        "manifest.json",
        "statement.json",
        "seal.json",
        "history.csv",
        "report.html",
        "config.toml",
        "evaluation.csv",
        "billboard.npz",
        "intake",
    } <= names
    assert not list(folder.rglob(".*"))


def test_the_statement_is_the_same_everywhere_and_names_the_public_facts(walked):
    folder, results = walked
    printed = json.loads(results["fit"].stdout)
    stored = Statement.from_json((folder / "run" / "statement.json").read_text(encoding="utf-8"))
    model = tacit.load(folder / "run")
    assert stored == model.privacy_
    assert printed["statement"] == json.loads(stored.to_json())
    assert stored.holds
    assert stored.epsilon == pytest.approx(2.0, rel=1e-6)
    assert any("the range of 'age'" in text for text in stored.assumptions)
    assert any("held-out" in text for text in stored.not_protected)


def test_the_ledger_holds_exactly_what_the_statement_says(walked):
    folder, _ = walked
    with Ledger(folder / "hospitals.csv.ledger.db") as ledger:
        assert ledger.verify() > 0
        assert ledger.epsilon == 2.0
        assert ledger.spent().epsilon == pytest.approx(2.0, rel=1e-6)
        (line,) = ledger.lines()
    history = read(folder / "run" / "history.csv")
    assert line.n_charges == len(history) == 1
    assert call("ledger", "verify", folder / "run").exit_code == 0
    exported = json.loads(call("ledger", "export", folder / "run").stdout)
    assert exported["lines"][0]["n_releases"] == 1


def test_held_out_scores_are_right(walked):
    folder, results = walked
    printed = json.loads(results["fit"].stdout)["held_out"]
    scores = read(folder / "run" / "evaluation.csv")
    assert len(scores) == 20
    weights = np.array([int(row["n_test"]) for row in scores])
    single = np.array([float(row["single-task"]) for row in scores])
    together = np.array([float(row["low-rank"]) for row in scores])
    ratio = np.average(together, weights=weights) / np.average(single, weights=weights)
    assert printed["low-rank"] / printed["single-task"] == pytest.approx(ratio)
    assert 0.2 < printed["low-rank"] < 1.0


def test_predictions_are_those_of_the_model_in_the_file_s_order(walked):
    folder, _ = walked
    answers = read(folder / "answers.csv")
    new = read(folder / "new.csv")
    assert [row["task"] for row in answers] == [row["task"] for row in new]
    model = tacit.load(folder / "run")
    limits = {entry.split("=")[0]: entry.split("=")[1] for entry in RANGES}

    def scaled(name, value):
        if name not in limits:
            return value
        low, high = map(float, limits[name].split(":"))
        return (2 * value - low - high) / (high - low)

    names = load_hospitals().feature_names
    X = np.array([[scaled(name, float(row[name])) for name in names] for row in new])
    del model.feature_names_in_
    expected = model.predict(X, tasks=[row["task"] for row in new])
    np.testing.assert_allclose([float(row["prediction"]) for row in answers], expected, rtol=1e-12)


def test_the_report_is_one_offline_page_with_the_statement(walked):
    folder, _ = walked
    for page in (folder / "page.html", folder / "run" / "report.html"):
        text = page.read_text(encoding="utf-8")
        assert text.lstrip().lower().startswith("<!doctype html")
        assert "joint differential privacy" in text


def test_the_audit_finds_a_bound_below_the_claim(walked):
    found = json.loads(walked[1]["audit"].stdout)["results"]
    assert len(found) == 1
    for result in found:
        assert result["claimed_epsilon"] == pytest.approx(2.0, rel=1e-6)
        assert 0 < result["epsilon_lower"] <= 2.0
        assert not result["violated"]


def test_a_party_gets_its_own_files_and_no_other_party_s_numbers(walked):
    folder, _ = walked
    own, full = tacit.load(folder / "own"), tacit.load(folder / "run")
    assert own.task_names_ == ("Alder Vale",)
    index = full.task_names_.index("Alder Vale")
    np.testing.assert_array_equal(own.coef_, full.coef_[[index]])
    (scores,) = read(folder / "own" / "evaluation.csv")
    assert scores["task"] == "Alder Vale"
    assert "pooled" not in scores  # fitted on others' rows without protection
    assert "pooled" in read(folder / "run" / "evaluation.csv")[0]
    assert not (folder / "own" / "config.toml").exists()
    other = full.coef_[(index + 1) % 20]
    for path in (folder / "own").rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert other.tobytes() not in content
            assert repr(float(other[0])).encode() not in content
    mine = call("predict", folder / "own", folder / "new.csv", "--party", "Alder Vale")
    assert mine.exit_code == 0
    lines = mine.stdout.strip().splitlines()[1:]
    everyone = [row for row in read(folder / "answers.csv") if row["task"] == "Alder Vale"]
    assert [line.split(",")[0] for line in lines] == [row["task"] for row in everyone]
    answers = [float(line.split(",")[1]) for line in lines]
    np.testing.assert_allclose(answers, [float(row["prediction"]) for row in everyone], rtol=1e-12)


def test_the_config_runs_again(walked, tmp_path):
    folder, _ = walked
    config = folder / "run" / "config.toml"
    settings = tomllib.loads(config.read_text(encoding="utf-8"))
    assert settings["epsilon"] == 2.0
    assert settings["range"] == list(RANGES)
    call("ledger", "create", tmp_path / "tests.db", "--epsilon", 9, "--delta", 1e-4)
    word = ("--ledger", tmp_path / "tests.db", "--new-ledger", "seeded runs are never published")
    for out in ("first", "second"):
        done = call("fit", "--config", config, "--seed", "5", *word, "--out", tmp_path / out, "-q")
        assert done.exit_code == 0, done.stderr
    first, second = (tacit.load(tmp_path / out) for out in ("first", "second"))
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.privacy_.seeded
    kept = tomllib.loads((tmp_path / "first" / "config.toml").read_text(encoding="utf-8"))
    added = {"seed": 5, "ledger": str(tmp_path / "tests.db"), "new_ledger": word[-1]}
    assert kept == settings | added
