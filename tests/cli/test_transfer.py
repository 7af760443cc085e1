"""``tacit transfer``: one party's package, another party's model."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil

import pytest

from tacit.transfer.package import SourcePackage

COMMON = (
    "--target",
    "ill",
    "--classes",
    "no,yes",
    "--range",
    "age=0:100",
    "--categories",
    "sex=m,f",
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    draw = random.Random(0)
    for name, count in (("clinic.csv", 300), ("other.csv", 200), ("ward.csv", 90)):
        lines = ["age,sex,ill"]
        for _ in range(count):
            age, sex = draw.uniform(10, 90), draw.choice("mf")
            lines.append(f"{age:.9f},{sex},{'yes' if age + draw.gauss(0, 8) > 50 else 'no'}")
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


def _source(run, *options, data="clinic.csv"):
    return run("transfer", "source", data, *COMMON, "--epsilon", "4", *options)


def test_a_package_travels_and_is_continued_from(run, files):
    made = _source(run, "--groups", "2", "--importance", "age=3", "--out", "package", "--json")
    assert made.exit_code == 0, made.stderr
    digest = json.loads(made.stdout)["digest"]
    assert not (files / "package" / "ledger.db").exists()  # stays with the source's rows
    options = ("--source", "package", "--digest", digest, "--epsilon", "4", "--test-size", "0.3")
    done = run("transfer", "target", "ward.csv", *options, "--out", "run", "--json")
    assert done.exit_code == 0, done.stderr
    body = json.loads(done.stdout)
    assert body["statement"]["unit"] == "row"
    assert body["statement"]["epsilon"] == pytest.approx(4)
    assert body["sources"][0]["epsilon"] == pytest.approx(4)
    assert body["held_out_auc"]["this model"] > 0.7
    assert (files / "run" / "report.html").exists()
    new = run("predict", "run", "ward.csv", "--out", "answers.csv")
    assert new.exit_code == 0, new.stderr
    assert (files / "answers.csv").read_text().splitlines()[0].startswith("party,prediction")
    spent = json.loads(run("ledger", "show", "ward.csv.ledger.db", "--json").stdout)["lines"]
    assert spent[0]["unit"] == "row"
    assert spent[0]["left_epsilon"] < 1e-6


def test_one_model_and_several_sources(run, files):
    for number, data in enumerate(("clinic.csv", "other.csv"), start=1):
        made = _source(run, "--groups", "1", "--out", f"package{number}", data=data)
        assert made.exit_code == 0, made.stderr
    sources = ("--source", "package1", "--source", "package2")
    done = run("transfer", "target", "ward.csv", *sources, "--out", "run")
    assert done.exit_code == 0, done.stderr
    assert "2 source(s)" in done.stdout


def test_a_changed_package_and_a_wrong_digest_are_refused(run, files):
    assert _source(run, "--out", "package").exit_code == 0
    wrong = run("transfer", "target", "ward.csv", "--source", "package", "--digest", "0" * 64)
    assert wrong.exit_code != 0
    assert "changed" in wrong.stderr
    assert not (files / "run").exists()
    bare = dataclasses.replace(SourcePackage.load(files / "package"), about={}, digest="")
    shutil.rmtree(files / "package")
    bare.save(files / "package")  # as the library writes it, without a file's columns
    result = run("transfer", "target", "ward.csv", "--source", "package")
    assert result.exit_code == 4
    assert not (files / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--missing", "task-mean"), "single rows are protected"),
        (("--groups", "1", "--importance", "age=2"), "--importance"),
        (("--importance", "height=2"), "--importance"),
        (("--importance", "age"), "column=weight"),
        (("--epsilon", "-1"), "epsilon"),
        (("--target", "stay"), "stay"),
        (("--epsilon", "inf", "--ledger", "l.db"), "--ledger"),
    ],
)
def test_nonsense_is_refused_before_anything_is_spent(run, files, options, words):
    result = _source(run, *options, "--out", "package")
    assert result.exit_code == 2
    assert words in result.stderr
    assert not (files / "package").exists()


def test_the_budget_refuses_a_second_package_from_the_same_rows(run, files):
    assert run("ledger", "create", "l.db", "--epsilon", "5", "--delta", "0").exit_code == 0
    assert _source(run, "--ledger", "l.db", "--out", "first").exit_code == 0
    again = _source(run, "--ledger", "l.db", "--out", "second")
    assert again.exit_code == 3
    assert not (files / "second").exists()


@pytest.mark.parametrize("change", ["a copy", "rows numbered", "a column left out", "fewer rows"])
def test_the_same_rows_in_another_guise_are_charged_to_the_same_ledger(run, files, change):
    assert _source(run, "--out", "first").exit_code == 0
    head, *rows = (files / "clinic.csv").read_text().splitlines()
    lines = [head, *rows]
    if change == "rows numbered":
        lines = [f"id,{head}", *(f"{number},{row}" for number, row in enumerate(rows))]
    elif change == "a column left out":
        lines = [line.split(",", 2)[0] + "," + line.split(",", 2)[2] for line in lines]
    elif change == "fewer rows":
        lines = [head, *rows[:100]]
    (files / "later.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    options = ("--target", "ill", "--classes", "no,yes", "--features", "age", "--epsilon", "4")
    again = run("transfer", "source", "later.csv", *options, "--out", "second")
    assert again.exit_code == 3, again.stderr
    assert not (files / "later.csv.ledger.db").exists()


def test_rows_of_a_fit_are_known_to_a_transfer(run, files):
    fit = ("fit", "clinic.csv", "--task", "sex", "--target", "age", "--features", "ill")
    rows = ("--method", "shared-moments", "--public-categories", "ill", "--yes", "--epsilon", "4")
    done = run(*fit, *rows, "--out", "run")
    assert done.exit_code == 0, done.stderr
    (files / "clinic.csv").rename(files / "copy.csv")
    again = _source(run, "--out", "package", data="copy.csv")
    assert "guarded by" in again.stderr
    assert not (files / "copy.csv.ledger.db").exists()


def test_numbered_rows_of_others_have_a_ledger_of_their_own(run, files):
    for name in ("clinic.csv", "other.csv"):
        head, *rows = (files / name).read_text().splitlines()
        lines = [f"id,{head}", *(f"{number},{row}" for number, row in enumerate(rows[:200]))]
        (files / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
        features = ("--features", "age,sex", "--out", name.removesuffix(".csv"))
        done = _source(run, *features, data=name)
        assert done.exit_code == 0, done.stderr
    assert (files / "other.csv.ledger.db").exists()
