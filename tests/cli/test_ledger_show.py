"""The ledger explains itself: who spent what, why so much is left, what to do at the end."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pytest

from tacit.privacy import Ledger, gaussian_mu


@pytest.fixture
def half(run, fit, table):
    """A ledger of total 1 with one run of 0.5."""
    run("ledger", "create", "data.csv.ledger.db", "--epsilon", "1", "--delta", "1e-5")
    assert fit("--epsilon", "0.5", "--delta", "1e-5").exit_code == 0
    return run


def test_every_run_is_listed_with_time_method_and_price(half, fit):
    fit("--epsilon", "0.25", "--delta", "1e-5", "--method", "averaged", "--out", "two")
    shown = half("ledger", "show", "data.csv").stdout
    lines = [line for line in shown.splitlines() if line.startswith("run ")]
    assert len(lines) == 2
    assert re.match(r"run \d+, 20\d\d-\d\d-\d\d \d\d:\d\d UTC: LowRankRegressor, 1 rel", lines[0])
    assert "alone ε = 0.5, δ = 1e-05" in lines[0]
    assert "AveragedRegressor" in lines[1]
    assert "ε = 0.25" in lines[1]


def test_what_is_left_is_explained_in_words_and_numbers_that_add_up(half):
    shown = half("ledger", "show", "data.csv").stdout
    assert "ε = 0.8342" in shown
    assert "adds up by the squares of μ" in shown
    spent, left, total = map(float, re.search(r"ε: (\S+)² \+ (\S+)² = (\S+)²", shown).groups())
    assert math.hypot(spent, left) == pytest.approx(total, rel=1e-3)
    assert total == pytest.approx(gaussian_mu(1.0, 1e-5), rel=1e-3)
    assert "one more run of ε = 0.8342 fits" in shown


def test_the_run_it_promises_fits_and_a_larger_one_does_not(half, fit):
    assert fit("--epsilon", "0.84", "--delta", "1e-5", "--out", "two").exit_code == 3
    assert fit("--epsilon", "0.834", "--delta", "1e-5", "--out", "two").exit_code == 0


def test_at_the_end_the_remedies_are_ones_that_can_be_taken(half, fit):
    assert fit("--epsilon", "0.83417", "--delta", "1e-5", "--out", "two").exit_code == 0
    shown = half("ledger", "show", "data.csv").stdout
    told = fit("--epsilon", "0.5", "--out", "three").stderr
    assert "--new-ledger" in told
    for text in (shown, told):
        assert "nothing is left for another fit" in text
        assert "calibrate" not in text
    assert half("predict", "run", "data.csv", "--out", "a.csv").exit_code == 0  # as it says


def test_sums_of_pure_epsilons_are_not_explained_by_squares(run, fit, table):
    pure = ("--epsilon", "0.5", "--delta", "0", "--method", "averaged")
    run("ledger", "create", "data.csv.ledger.db", "--epsilon", "1")
    assert fit(*pure).exit_code == 0
    shown = run("ledger", "show", "data.csv").stdout
    assert "runs add up by their ε and δ" in shown
    assert "μ" not in shown


def test_the_ledger_is_exported_for_other_programs(half):
    assert half("ledger", "export", "data.csv", "--out", "all.json").exit_code == 0
    assert half("ledger", "export", "data.csv", "--out", "runs.csv").exit_code == 0
    whole = json.loads(Path("all.json").read_text(encoding="utf-8"))
    with Path("runs.csv").open(encoding="utf-8", newline="") as stream:
        (row,) = csv.DictReader(stream)
    (entry,) = whole["runs"]
    assert row["method"] == entry["method"] == "LowRankRegressor"
    assert float(row["epsilon"]) == entry["epsilon"] == pytest.approx(0.5)
    assert entry["began"] < entry["ended"]
    assert row["sealed"] == "True"
    with Ledger("data.csv.ledger.db") as ledger:
        assert whole["head"] == ledger.head
    assert half("ledger", "export", "data.csv", "--out", "all.xlsx").exit_code == 2
    (shown,) = json.loads(half("ledger", "show", "data.csv", "--json").stdout)["runs"]
    assert shown.pop("fingerprint")  # for the owner of the rows alone
    assert shown == entry
