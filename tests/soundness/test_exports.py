"""Everything a party receives, byte for byte, when another party's rows change.

The releases are frozen at the one door: every posting's value is the one of the first run with
that label and shape. What still differs in a party's folder came past the billboard.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tacit._types import Array
from tacit.cli.run.methods import methods
from tacit.privacy import Ledger

FROZEN = """
import numpy as np
from tacit.privacy.billboard import Billboard
seen, post = {}, Billboard.post
def frozen(self, value, event, *, label="", **facts):
    key = label, np.shape(value)
    return post(self, seen.setdefault(key, np.array(value)), event, label=label, **facts)
Billboard.post = frozen
"""
GIVEN = ("--task", "party", "--target", "outcome", "--quiet", "--seed", "1")
SETTINGS = {
    "plain": (),
    "test-size": ("--test-size", "0.3"),
    "tune": ("--tune", "clip=2,2"),
    "shared": ("--clip", "2", "--unknown-task", "shared"),
}
ONLY = {
    "single-task": ("plain", "test-size"),
    "shared-moments": ("plain", "test-size"),
    "asynchronous": ("plain", "test-size"),
}
OWN = ("P1", "P3")


def _moved(name, rows):
    if name != "P0":
        return rows
    cells = [row.split(",") for row in rows]
    return [",".join([p, f"{float(a) * 3 - 1:.4g}", *rest]) for p, a, *rest in cells]


def _more(name, rows):
    return [*rows, *rows[:4], rows[2]] if name == "P0" else rows


def _fewer(name, rows):
    return rows[:3] if name == "P2" else rows


CHANGES = {"moved": _moved, "more rows": _more, "fewer rows": _fewer}
# These declare everybody's number of rows public.
PUBLIC_SIZES = ("shared-moments", "asynchronous")


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def _commands(data, method, settings, kind, folder, ledger):
    given = GIVEN if method != "single-task" else GIVEN[:5]
    given += ("--yes", *(("--ledger", str(ledger)) if method != "single-task" else ()))
    for setting in settings:
        run = folder / f"run {setting}"
        chosen = ("--method", method, "--kind", kind, *SETTINGS[setting])
        yield ["fit", str(data), *given, *chosen, "--out", str(run)]
        for party in OWN:
            out = folder / f"{party} {setting}"
            yield ["export", str(run), "--party", party, "--out", str(out), "--quiet"]


def _attack(
    tacit_commands, tmp_path, write_rows, method, settings, *, target="number", suffix="csv"
):
    kind = "regression" if target == "number" else "binary"
    ledger = tmp_path / "ledger.db"  # with room for all: the files share most of their rows
    Ledger(ledger, 1e4, 0.5, rule="basic")
    commands = []
    folders = {}
    changes = {"moved": _moved} if method in PUBLIC_SIZES else CHANGES
    for change, edit in {"base": None, **changes}.items():
        data = _as(write_rows(f"{change}.csv", n_features=20, target=target, change=edit), suffix)
        folders[change] = tmp_path / change
        commands += _commands(data, method, settings, kind, folders[change], ledger)
    tacit_commands(commands, before=FROZEN)
    for setting in settings:
        for party in OWN:
            base = _files(folders["base"] / f"{party} {setting}")
            assert {"manifest.json", "statement.json", "report.html"} <= set(base)
            for change in changes:
                found = _files(folders[change] / f"{party} {setting}")
                differing = [name for name in base if base[name] != found.get(name)]
                assert (sorted(found), differing) == (sorted(base), []), (setting, party, change)


def _as(path: Path, suffix: str) -> Path:
    """Write a CSV file's rows once more, as JSON lines or Parquet."""
    if suffix == "csv":
        return path
    other = path.with_suffix(f".{suffix}")
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    names = header.split(",")
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    rows = [{k: v if k == "party" else float(v) for k, v in row.items()} for row in rows]
    if suffix == "jsonl":
        other.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), other)
    return other


PRIVATE = sorted(set(methods()) - {"pooled"})


@pytest.mark.parametrize("method", PRIVATE)
def test_a_partys_folder_does_not_change_with_other_parties_rows(
    tacit_commands, method, tmp_path, write_rows
):
    settings = ONLY.get(method, tuple(SETTINGS))
    _attack(tacit_commands, tmp_path, write_rows, method, settings)


@pytest.mark.slow
@pytest.mark.parametrize("method", PRIVATE)
def test_a_partys_folder_of_a_classifier_does_not_change_with_others_rows(
    tacit_commands, method, tmp_path, write_rows
):
    settings = ONLY.get(method, tuple(SETTINGS))
    _attack(tacit_commands, tmp_path, write_rows, method, settings, target="class")


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_a_partys_folder_does_not_change_whatever_the_files_format(
    tacit_commands, suffix, tmp_path, write_rows
):
    settings = ("plain", "test-size")
    _attack(tacit_commands, tmp_path, write_rows, "mean-regularized", settings, suffix=suffix)


# What the run folder keeps of the rows, and what may be written where

FIT = ("--task", "party", "--target", "outcome", "--quiet", "--yes")


def _kept_means(folder: Path) -> Array:
    (file,) = (folder / "intake").glob("arrays-*.npz")
    with np.load(file) as arrays:
        return arrays["fill"]


def _with_a_gap(name, rows):
    if name != "P1":
        return rows
    party, _, *rest = rows[0].split(",")
    return [",".join([party, "", *rest]), *rows[1:]]


def test_means_are_kept_only_where_a_task_needed_them(tacit_command, write_rows, tmp_path):
    tacit_command("fit", write_rows(), *FIT, "--method", "single-task", "--out", "whole")
    assert np.isnan(_kept_means(tmp_path / "whole")).all()
    data = write_rows("gap.csv", change=_with_a_gap)
    tacit_command("fit", data, *FIT, "--method", "single-task", "--out", "run")
    kept = _kept_means(tmp_path / "run")
    assert np.flatnonzero(~np.isnan(kept.ravel())).tolist() == [2]  # of P1's x0
    new = tmp_path / "new.csv"
    new.write_text("party,x0,x1\nP1,,0.5\n", encoding="utf-8")
    tacit_command("predict", "run", new, "--out", "answers.csv")
    new.write_text("party,x0,x1\nP1,0.5,\n", encoding="utf-8")
    refused = tacit_command("predict", "run", new, "--out", "answers.csv", code=2)
    assert "'x1' is missing in the task 'P1', which kept no mean" in refused.stderr


def test_no_mean_of_rows_is_kept_where_rows_are_protected(tacit_command, write_rows, tmp_path):
    protected = ("--method", "low-rank", "--set", "epsilon_rows=1", "--set", "target_bound=3")
    tacit_command("fit", write_rows(), *FIT, *protected, "--out", "run")
    assert np.isnan(_kept_means(tmp_path / "run")).all()
    data = write_rows("gap.csv", change=_with_a_gap)
    refused = tacit_command("fit", data, *FIT, *protected, "--out", "other", code=2)
    assert "--missing" in refused.stderr


@pytest.mark.parametrize("out", ["run", "./deeper/../run", "link"])
def test_an_export_onto_its_own_run_is_refused(tacit_command, write_rows, tmp_path, out):
    tacit_command("fit", write_rows(), *FIT, "--method", "single-task", "--out", "run")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    before = _files(tmp_path / "run")
    to = ("--party", "P2", "--out", out, "--force")
    refused = tacit_command("export", "run", *to, code=2)
    assert "is the run folder itself" in refused.stderr
    assert _files(tmp_path / "run") == before


# The process is killed when every model of the run is staged and nothing is in place.
KILLED = """
import os, signal
import tacit.cli.run.fitting as fit_run
fit_run.write_page = lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_run_staged_is_removed_by_the_next_one(tacit_command, write_rows, tmp_path):
    data = write_rows()
    given = ("fit", data, *FIT, "--method", "single-task", "--out", "run")
    bystanders = [tmp_path / ".run.notes", tmp_path / ".other.stage-abcd1234"]
    for folder in bystanders:
        folder.mkdir()
    for again in ((), ("--force",)):  # what was interrupted is begun anew only if asked
        tacit_command(*given, *again, before=KILLED, code=-9)
        staged = [path for path in tmp_path.iterdir() if path.name.startswith(".run.")]
        assert len(staged) == 2  # the bystander and this run's own: the earlier one is gone
    tacit_command(*given, "--force")
    hidden = sorted(path for path in tmp_path.iterdir() if path.name.startswith("."))
    assert hidden == sorted(bystanders)
