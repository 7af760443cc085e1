"""What the review did not cover: file formats, categories, scored reports, predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import tacit
from tacit.privacy import Ledger

GIVEN = ("--task", "party", "--target", "outcome", "--method", "low-rank", "--yes")


def _records(path: Path) -> list[dict[str, object]]:
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    rows = [dict(zip(header.split(","), line.split(","), strict=True)) for line in lines]
    return [{k: v if k == "party" else float(v) for k, v in row.items()} for row in rows]


def test_every_file_format_gives_the_same_model_to_the_last_bit(
    tacit_command, write_rows, tmp_path
):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    data = write_rows()
    rows = _records(data)
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "data.jsonl").write_text(text, encoding="utf-8")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "data.parquet")
    models = []
    ledger = ("--ledger", tmp_path / "room.db")
    Ledger(ledger[1], 90.0, 1e-3)
    for suffix in ("csv", "jsonl", "parquet"):
        seeded = (*ledger, "--seed", "1", "--test-size", "0.3", "--out", suffix)
        tacit_command("fit", data.with_suffix(f".{suffix}"), *GIVEN, *seeded)
        models.append(tacit.load(tmp_path / suffix).coef_)
    assert models[0].tobytes() == models[1].tobytes() == models[2].tobytes()


def _with_ward(name, rows):
    wards = ("east", "west", "north") if name == "P0" else ("east", "west")
    cells = [row.split(",") for row in rows]
    return [
        ",".join([p, wards[number % len(wards)], *rest])
        for number, (p, _, *rest) in enumerate(cells)
    ]


def test_public_categories_are_named_in_the_statement_and_given_ones_are_fixed(
    tacit_command, write_rows, tmp_path
):
    data = write_rows(change=_with_ward)
    tacit_command("fit", data, *GIVEN, "--public-categories", "x0", "--out", "read")
    statement = json.loads((tmp_path / "read" / "statement.json").read_text(encoding="utf-8"))
    assert any("the categories of 'x0'" in text for text in statement["assumptions"])
    assert tacit.load(tmp_path / "read").coef_.shape == (4, 4)
    given = ("--categories", "x0=east,west,north,south")
    more = ("--new-ledger", "a test of two readings")
    tacit_command("fit", data, *GIVEN, *given, *more, "--out", "given")
    assert tacit.load(tmp_path / "given").coef_.shape == (4, 5)


def test_a_partys_scored_page_and_predictions_do_not_change_with_others_rows(
    tacit_commands, write_rows, tmp_path
):
    def others(name, rows):
        return rows if name == "P2" else [*rows[:3], rows[0]]

    commands = [
        ("fit", write_rows(), *GIVEN, "--out", "run"),
        ("export", "run", "--party", "P2", "--out", "own", "--quiet"),
    ]
    pages, answers = [], []
    for name, change in (("first", None), ("second", others)):
        data = write_rows(f"{name}.csv", change=change)
        for folder in ("run", "own"):
            pages.append(tmp_path / f"{name}-{folder}.html")
            answers.append(tmp_path / f"{name}-{folder}.csv")
            own = ("--party", "P2", "--quiet", "--out")
            commands += [
                ("report", folder, "--data", data, *own, pages[-1]),
                ("predict", folder, data, *own, answers[-1]),
            ]
    tacit_commands(commands)
    pages = [path.read_bytes() for path in pages]
    assert pages[0] == pages[2]
    assert pages[1] == pages[3]
    assert len({path.read_bytes() for path in answers}) == 1


def test_rows_of_one_class_only_can_be_scored(tacit_command, write_rows, tmp_path):
    tacit_command("fit", write_rows(target="class"), *GIVEN, "--out", "run")

    def positive(name, rows):
        return [row for row in rows if row.endswith("yes")]

    data = write_rows("positive.csv", target="class", change=positive)
    tacit_command("report", "run", "--data", data, "--out", "page.html", "--quiet")
    assert "wrong answers" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_shared_model_for_strange_tasks_follows_from_the_billboard(
    tacit_command, write_rows, tmp_path
):
    """Whoever has the releases can compute it: two runs with one billboard have one model."""
    shared = ("--method", "mean-regularized", "--clip", "2", "--unknown-task", "shared")
    given = [word for word in GIVEN if word not in ("--method", "low-rank")]
    tacit_command("fit", write_rows(), *given, *shared, "--out", "run")
    tacit_command("export", "run", "--party", "P1", "--out", "own", "--quiet")
    whole, own = tacit.load(tmp_path / "run"), tacit.load(tmp_path / "own")
    assert whole.shared_coef_.tobytes() == own.shared_coef_.tobytes()
    assert whole.shared_intercept_.tobytes() == own.shared_intercept_.tobytes()
    from tacit.privacy.billboard import Billboard

    released = Billboard.load(tmp_path / "own" / "billboard.npz").read(0).ravel()
    shown = np.append(own.shared_coef_.ravel(), own.shared_intercept_)
    assert np.linalg.matrix_rank(np.stack([released[: len(shown)], shown]), tol=1e-9) == 1


def test_an_audited_page_states_attack_and_claim_and_reads_no_rows(
    tacit_command, write_rows, tmp_path
):
    data = write_rows()
    tacit_command("fit", data, *GIVEN, "--out", "run")
    data.unlink()
    tacit_command("report", "run", "--audit", "--out", "page.html", "--quiet")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="audit"' in page
    assert "The audit broke the claim" not in page
