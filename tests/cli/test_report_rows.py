"""Rows handed to ``tacit report`` and ``tacit predict``: comparison, measures, deviations."""

from __future__ import annotations

import csv
import io

import pytest


@pytest.fixture
def made(fit, table):
    done = fit("--epsilon", "30", "--out", "run", "--set", "intervals=true", method="single-task")
    assert done.exit_code == 2, "single-task has no budget"
    done = fit("--out", "run", "--set", "intervals=true", method="single-task")
    assert done.exit_code == 0, done.output


def test_rows_alone_are_enough_for_a_comparison_with_pooled_learning(made, run, tmp_path):
    assert run("report", "run", "--data", "data.csv").exit_code == 0
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "pooled (these rows)" in text
    for measure in ("RMSE", "MAE", "R²"):
        assert measure in text
    done = run("report", "run", "--data", "data.csv", "--trained-on", "data.csv")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "(these rows)" not in text
    assert "pooled" in text


def test_rows_of_the_fit_without_rows_to_score_are_refused(made, run):
    done = run("report", "run", "--trained-on", "data.csv")
    assert done.exit_code == 2
    assert "--trained-on" in done.output


def test_a_partys_page_is_compared_with_its_own_rows_only(fit, table, run, tmp_path):
    assert fit("--epsilon", "30", "--out", "run").exit_code == 0
    done = run("report", "run", "--party", "H2", "--data", "data.csv", "--out", "own.html")
    assert done.exit_code == 0, done.output
    text = (tmp_path / "own.html").read_text(encoding="utf-8")
    assert "single-task (these rows)" in text
    assert "pooled" not in text


def test_rows_that_the_run_may_have_learned_from_are_called_no_test(fit, table, run, tmp_path):
    lines = (tmp_path / "data.csv").read_text().splitlines()
    (tmp_path / "old.csv").write_text("\n".join([lines[0], *lines[1::2]]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join([lines[0], *lines[2::2]]) + "\n")
    assert fit("--epsilon", "30", "--out", "run", data="old.csv").exit_code == 0
    (tmp_path / "old.csv").rename(tmp_path / "renamed.csv")
    known = run("report", "run", "--data", "renamed.csv", "--out", "known.html")
    assert known.exit_code == 0, known.output
    assert "no test" in known.stderr
    page = (tmp_path / "known.html").read_text(encoding="utf-8")
    assert "This is no test." in page
    assert "shows no worth on new ones" in page
    assert "less error than" not in page
    kept_out = run("report", "run", "--data", "new.csv", "--out", "new.html")
    assert kept_out.exit_code == 0, kept_out.output
    assert "no test" not in kept_out.stderr
    assert "This is no test." not in (tmp_path / "new.html").read_text(encoding="utf-8")


def test_a_run_that_kept_intervals_predicts_with_deviations(made, run):
    done = run("predict", "run", "data.csv")
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(lines) == 48
    assert all(float(line["std"]) > 0 for line in lines)
