"""Input that looks odd and is sound: it is read, and means what it says."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

import tacit


def done(result):
    assert result.exit_code == 0, result.stderr
    return result


def coefficients(out="run"):
    return tacit.load(out).coef_


@pytest.fixture
def plain(fit, table):
    """The coefficients of the plain file, learned alone and so without noise."""
    done(fit("--method", "single-task", "--out", "plain"))
    return coefficients("plain")


@pytest.mark.parametrize("change", ["bom", "crlf", "blank lines", "quotes", "no last newline"])
def test_the_same_table_in_other_bytes_is_the_same(fit, table, plain, change):
    text = table.read_text(encoding="utf-8")
    changed = {
        "bom": "\ufeff" + text,
        "crlf": text.replace("\n", "\r\n"),
        "blank lines": text.replace("\n", "\n\n"),
        "quotes": text.replace("H0", '"H0"'),
        "no last newline": text.rstrip("\n"),
    }[change]
    table.write_bytes(changed.encode())
    done(fit("--method", "single-task"))
    np.testing.assert_array_equal(coefficients(), plain)


@pytest.mark.parametrize("format_", ["tsv", "jsonl", "parquet", "semicolons", "latin-1"])
def test_every_format_gives_the_same_model(fit, tmp_path, lines, table, plain, format_):
    cells = [line.split(",") for line in lines]
    records = [
        {"hospital": h, "age": int(a), "severity": float(s), "stay": float(y)}
        for h, a, s, y in cells[1:]
    ]
    name, options = f"data.{format_}", ()
    if format_ == "tsv":
        (tmp_path / name).write_text("\n".join("\t".join(row) for row in cells), encoding="utf-8")
    elif format_ == "jsonl":
        (tmp_path / name).write_text("\n".join(map(json.dumps, records)), encoding="utf-8")
    elif format_ == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(records), tmp_path / name)
    else:
        name = "other.csv"
        options = ("--separator", ";") if format_ == "semicolons" else ("--encoding", "latin-1")
        text = "\n".join((";" if format_ == "semicolons" else ",").join(row) for row in cells)
        (tmp_path / name).write_bytes(text.replace("H0", "Hé").encode("latin-1"))
        if format_ == "semicolons":
            (tmp_path / name).write_text(text, encoding="utf-8")
    done(fit("--method", "single-task", *options, data=name))
    learned = coefficients()
    if format_ == "latin-1":
        assert "Hé" in tacit.load("run").task_names_
        learned = np.roll(learned, 1, axis=0)  # é sorts last
    np.testing.assert_array_equal(learned, plain)


def test_missing_values_are_filled_with_the_task_s_own_mean(fit, run, tmp_path, lines, plenty):
    def blank(line):
        h, _, s, y = line.split(",")
        return f"{h},,{s},{y}"

    (tmp_path / "data.csv").write_text(
        "\n".join([*lines[:1], blank(lines[1]), *lines[2:]]), encoding="utf-8"
    )
    result = done(fit("--method", "single-task"))
    assert "1 missing values filled (task-mean)" in result.stderr
    mean = sum([float(line.split(",")[1]) for line in lines[2:9]]) / 7
    (tmp_path / "new.csv").write_text(
        f"hospital,age,severity\nH0,,1\nH0,{mean!r},1\n", encoding="utf-8"
    )
    done(run("predict", "run", "new.csv", "--out", "answers.jsonl"))
    first, second = map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines())
    assert first["prediction"] == pytest.approx(second["prediction"], rel=1e-12)
    assert fit("--missing", "error", "--out", "r2").exit_code == 2
    assert "rows had missing values" in done(fit("--missing", "drop", "--out", "r3")).stderr
    done(fit("--missing", "50", "--out", "r4"))


def test_categories_become_indicators_and_are_named_in_the_statement(
    fit, run, tmp_path, lines, plenty
):
    wards = "ABC"
    text = [line if row == 0 else f"{line},{wards[row % 3]}" for row, line in enumerate(lines)]
    text[0] += ",ward"
    (tmp_path / "data.csv").write_text("\n".join(text), encoding="utf-8")
    done(fit("--categories", "ward=A,B,C"))
    done(fit("--public-categories", "ward", "--out", "run2"))
    for out in ("run", "run2"):
        model = tacit.load(out)
        assert list(model.feature_names_in_) == ["age", "severity", "ward=A", "ward=B", "ward=C"]
        assert any("categories of 'ward'" in text for text in model.privacy_.assumptions)
    (tmp_path / "new.csv").write_text("hospital,age,severity,ward\nH0,3,1,D\n", encoding="utf-8")
    refused = run("predict", "run", "new.csv")
    assert refused.exit_code == 2
    assert "'ward' is 'D'" in refused.stderr


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("yes", "no"), "binary"),
        (("0", "1"), "binary"),
        (("true", "false"), "binary"),
        (("low", "mid", "high"), "multiclass"),
        (("1", "2", "3"), "regression"),
        (("0.5", "1.5", "2.5"), "regression"),
    ],
)
def test_the_kind_of_target_is_found(fit, tmp_path, lines, values, kind):
    text = [
        line if row == 0 else ",".join([*line.split(",")[:3], values[row % len(values)]])
        for row, line in enumerate(lines)
    ]
    (tmp_path / "data.csv").write_text("\n".join(text), encoding="utf-8")
    result = done(fit("--method", "single-task"))
    assert kind in result.stdout
    if values == ("1", "2", "3"):
        assert "--kind multiclass" in result.stderr
        done(fit("--method", "single-task", "--kind", "multiclass", "--out", "run2"))
        assert tacit.load("run2").classes_.tolist() == [1, 2, 3]


def test_tasks_of_one_row_are_learned(plenty, fit, tmp_path, lines):
    (tmp_path / "data.csv").write_text("\n".join([*lines, "lonely,50,0.1,9"]), encoding="utf-8")
    done(fit())
    assert "lonely" in tacit.load("run").task_names_
    result = fit("--test-size", "0.5", "--out", "run2")
    assert done(result)


def test_whole_number_tasks_are_numbers_and_match_in_any_format(fit, run, tmp_path, lines):
    text = [lines[0], *(line.replace("H", "1", 1) for line in lines[1:])]
    (tmp_path / "data.csv").write_text("\n".join(text), encoding="utf-8")
    done(fit())
    assert tacit.load("run").task_names_ == (10, 11, 12, 13, 14, 15)
    (tmp_path / "new.jsonl").write_text(
        '{"hospital": 12, "age": 3, "severity": 1}\n{"hospital": 12.0, "age": 3, "severity": 1}\n',
        encoding="utf-8",
    )
    assert done(run("predict", "run", "new.jsonl")).stdout.count("\n12,") == 2


def test_every_method_is_offered_and_fits(fit, run, table, plenty):
    listed = json.loads(done(run("methods", "--json")).stdout)["methods"]
    names = [entry["method"] for entry in listed]
    assert [name for name in names if name not in ("shared-moments", "asynchronous")][:9] == [
        "shared-prior",
        "low-rank",
        "group-sparse",
        "low-rank-sparse",
        "mean-regularized",
        "task-relationship",
        "averaged",
        "single-task",
        "pooled",
    ]
    for name in names:
        done(fit("--method", name, "--out", f"run-{name}"))
        releases = tacit.load(f"run-{name}").privacy_.n_releases
        ledger = json.loads((table.parent / f"run-{name}" / "seal.json").read_text())["ledger"]
        assert (ledger is not None) == (name not in ("single-task", "pooled") and releases > 0)


def test_text_files_need_no_frame_library(fit, run, table, monkeypatch):
    absent = ("pandas", "polars", "pyarrow")

    class Without:
        """A finder that does not find them, as on a machine where they are not installed."""

        def __init__(self, finder):
            self.finder = finder

        def find_spec(self, name, path=None, target=None):
            found = name.split(".")[0] not in absent
            return self.finder.find_spec(name, path, target) if found else None

    monkeypatch.setattr(sys, "meta_path", [Without(finder) for finder in sys.meta_path])
    for name in [name for name in sys.modules if name.split(".")[0] in absent]:
        monkeypatch.delitem(sys.modules, name)
    done(fit())
    done(run("predict", "run", "data.csv", "--out", "answers.csv"))
    for given in (("predict", "run", "data.csv", "--out", "answers.parquet"),):
        refused = run(*given)
        assert refused.exit_code == 2
        assert "pip install" in refused.stderr
    (table.parent / "data.parquet").write_bytes(b"PAR1")
    refused = fit("--out", "run2", data="data.parquet")
    assert refused.exit_code == 2
    assert "pip install" in refused.stderr


def test_line_separators_inside_json_text_do_not_cut_a_line(fit, tmp_path, lines):
    rows = [dict(zip(lines[0].split(","), line.split(","), strict=True)) for line in lines[1:]]
    rows[0]["hospital"] = rows[1]["hospital"] = "North\u2028South"
    text = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "data.jsonl").write_bytes(text.encode())
    done(fit(data="data.jsonl"))
    assert "North\u2028South" in tacit.load("run").task_names_


def test_rows_with_missing_values_are_not_averaged_where_rows_are_protected(fit, tmp_path, lines):
    text = "\n".join([lines[0], "H0,,0.1,9", *lines[1:]])
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    rows = ("--set", "epsilon_rows=2", "--set", "target_bound=40", "--method", "low-rank")
    refused = fit(*rows)
    assert refused.exit_code == 2
    assert "--missing drop" in refused.stderr
    done(fit(*rows, "--missing", "drop"))
