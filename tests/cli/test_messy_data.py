"""Files as they come: words that may mean missing, identifiers, dates, spreadsheets, odd ranges."""

from __future__ import annotations

import csv
import json
import math

import numpy as np
import pytest

import tacit

SITES = ("North", "NA", "None", "Elm Court", "null", "West")
HEADER = ("site", "admitted", "smoker", "age", "stay")


def messy(n_rows=120):
    random = np.random.default_rng(5)
    rows = []
    for row in range(n_rows):
        age = int(random.integers(18, 95))
        rows.append(
            {
                "site": SITES[row % len(SITES)],
                "admitted": f"202{row % 5}-0{1 + row % 9}-1{row % 10}",
                "smoker": ("none", "light", "N/A")[int(random.integers(3))],
                "age": age,
                "stay": round(3 + age / 20 + float(random.standard_normal()), 2),
            }
        )
    return rows


@pytest.fixture
def call(run, tmp_path):
    """Fit the rows in a file of the given name, with a method that always releases something."""

    def fit(rows, *options, name="data.csv"):
        write(tmp_path / name, rows)
        return run(
            *("fit", name, "--task", "site", "--target", "stay", "--method", "low-rank"),
            *("--dates", "admitted", "--range", "admitted=2019-01-01:2026-01-01", "--yes"),
            *options,
        )

    return fit


def write(path, rows):
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        return
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def intake(folder):
    body = json.loads((folder / "intake" / "manifest.json").read_text(encoding="utf-8"))
    return body["manifest"]["intake"]


@pytest.mark.parametrize("name", ["data.csv", "data.parquet"])
@pytest.mark.parametrize(
    "categories", [("--public-categories", "smoker"), ("--categories", "smoker=none,light,N/A")]
)
def test_words_that_look_missing_are_categories_and_sites(call, tmp_path, name, categories):
    result = call(messy(), *categories, name=name)
    assert result.exit_code == 0, result.stderr
    assert "missing values filled" not in result.stderr
    assert "'smoker': 'none'" in result.stderr
    assert "if it means missing, say --missing none" in result.stderr
    model = tacit.load(tmp_path / "run")
    assert set(model.task_names_) == set(SITES)
    assert {"smoker=none", "smoker=N/A"} <= set(model.feature_names_in_)


def test_words_are_missing_once_the_user_says_so_also_at_predict_time(call, run, tmp_path):
    rows = messy()
    for row in rows[::5]:
        row["age"] = "NA"
    refused = call(rows, "--public-categories", "smoker")
    assert refused.exit_code == 2
    assert "'age' is 'NA', not a number (24 rows are)" in refused.stderr
    assert "--missing 'NA'" in refused.stderr
    done = call(rows, "--public-categories", "smoker", "--missing", "NA,N/A")
    assert done.exit_code == 0, done.stderr
    assert "missing values filled (task-mean)" in done.stderr
    model = tacit.load(tmp_path / "run")
    assert "NA" in model.task_names_  # a site's name is never missing for what it is called
    assert "smoker=N/A" not in model.feature_names_in_
    assert intake(tmp_path / "run")["marks"] == ["NA", "N/A"]
    assert run("predict", "run", "data.csv", "--out", "answers.csv").exit_code == 0


def test_marks_and_a_rule_go_together_and_a_misspelt_rule_is_noticed(call, tmp_path):
    rows = messy()
    rows[3]["age"] = "?"
    both = ("--public-categories", "smoker", "--missing", "?", "--missing", "drop")
    assert "1 of 120 rows had missing values" in call(rows, *both).stderr
    two = call(rows, "--missing", "drop", "--missing", "error", "--out", "two")
    assert two.exit_code == 2
    assert "choose one rule" in two.stderr
    misspelt = call(rows, "--missing", "dropp", "--out", "two")
    assert "did you mean drop?" in misspelt.stderr
    idle = call(messy(), "--public-categories", "smoker", "--missing", "-99,", "--out", "idle")
    assert "no cell of the file is that" in idle.stderr


def test_identifiers_dates_and_constants_come_with_their_remedy(call):
    rows = [{"patient": f"P{n:04}", "country": "NL", **row} for n, row in enumerate(messy())]
    refused = call(rows, "--public-categories", "smoker,country")
    assert "120 different values in 120 rows" in refused.stderr
    assert "--drop patient" in refused.stderr
    warned = call(rows, "--public-categories", "smoker,country,patient", "--dry-run")
    assert "'patient' has 120 categories in 120 rows" in warned.stderr
    assert "'country' is the same in every row" in warned.stderr
    numbered = [{"record": 1 + n, **row} for n, row in enumerate(messy())]
    told = call(numbered, "--public-categories", "smoker", "--dry-run")
    assert "'record' is a different whole number in every row" in told.stderr
    left_out = call(numbered, "--public-categories", "smoker", "--drop", "record", "--dry-run")
    assert "record" not in left_out.stderr


def test_dates_become_numbers_in_their_public_range(call, run, tmp_path):
    write(tmp_path / "plain.csv", messy())
    asked = ("fit", "plain.csv", "--task", "site", "--target", "stay", "--method", "low-rank")
    told = run(*asked, "--public-categories", "smoker")
    assert told.exit_code == 2
    assert "holds dates ('2020-01-10')" in told.stderr
    assert "--dates admitted" in told.stderr
    rows = messy()
    for row in rows:
        year, month, day = row["admitted"].split("-")
        row["admitted"] = f"{day}/{month}/{year}"
    run("ledger", "create", "tests.db", "--epsilon", "9", "--delta", "1e-4")
    other = run_other(run, tmp_path, rows)
    assert other.exit_code == 0, other.stderr
    given = ("--public-categories", "smoker", "--seed", "1", "--ledger", "tests.db")
    assert call(messy(), *given).exit_code == 0
    one, two = tacit.load(tmp_path / "run"), tacit.load(tmp_path / "other")
    np.testing.assert_array_equal(one.coef_, two.coef_)


def run_other(run, tmp_path, rows):
    write(tmp_path / "other.csv", rows)
    return run(
        *("fit", "other.csv", "--task", "site", "--target", "stay", "--method", "low-rank"),
        *("--dates", "admitted=%d/%m/%Y", "--range", "admitted=2019-01-01:2026-01-01", "--yes"),
        *("--public-categories", "smoker", "--seed", "1", "--out", "other"),
        *("--ledger", "tests.db"),
    )


def test_rows_beyond_a_range_are_counted_cut_off_or_refused(call, run, tmp_path):
    wrong = ("--public-categories", "smoker", "--range", "age=40:60")
    beyond = sum(not 40 <= row["age"] <= 60 for row in messy())
    counted = call(messy(), *wrong, "--dry-run")
    assert f"{beyond} of 120 rows have 'age' beyond its --range 40:60" in counted.stderr
    refused = call(messy(), *wrong, "--outside", "error")
    assert refused.exit_code == 2
    assert f"({beyond} rows are)" in refused.stderr
    assert call(messy(), *wrong, "--outside", "clip").exit_code == 0
    rows = [row | {"age": age} for row, age in zip(messy()[:2], (60, 600), strict=True)]
    for row in rows:
        row |= {"site": "North", "smoker": "none", "admitted": "2022-01-01"}
    write(tmp_path / "new.csv", rows)
    answers = run("predict", "run", "new.csv").stdout.splitlines()[1:]
    assert answers[0] == answers[1]  # cut off at the same place when new rows come
    assert "--outside 'cut'" in call(messy(), *wrong, "--outside", "cut").stderr


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("data.xlsx", "save the sheet as CSV"),
        ("data.csv.gz", "gunzip"),
        ("data.sav", "read_spss"),
    ],
)
def test_files_of_other_programs_say_what_to_do(run, tmp_path, name, remedy):
    (tmp_path / name).write_bytes(b"PK")
    refused = run("fit", name, "--task", "a", "--target", "b")
    assert refused.exit_code == 2
    assert remedy in refused.stderr


def test_python_has_what_the_shell_has(run, tmp_path):
    """The same file through the transformers gives the same models."""
    from tacit.preprocessing import PublicRangeScaler, TaskMeanImputer

    rows = messy()
    for row in rows[::7]:
        row["age"] = ""
    for row in rows:
        del row["admitted"], row["smoker"]
    write(tmp_path / "two.csv", rows)
    X = np.array([[float(row["age"] or math.nan)] for row in rows])
    y, tasks = np.array([row["stay"] for row in rows]), [row["site"] for row in rows]
    ready = PublicRangeScaler([(18, 95)]).fit_transform(X)
    ready = TaskMeanImputer().fit(ready, tasks=tasks).transform(ready, tasks=tasks)
    model = tacit.LowRankRegressor(random_state=3).fit(ready, y, tasks=tasks)
    fitted = run(
        *("fit", "two.csv", "--task", "site", "--target", "stay", "--method", "low-rank", "--yes"),
        *("--range", "age=18:95", "--seed", "3", "--out", "two"),
    )
    assert fitted.exit_code == 0, fitted.stderr
    np.testing.assert_array_equal(tacit.load(tmp_path / "two").coef_, model.coef_)
