"""Which rows a party holds out is its own affair: nobody's rows before it can be read from it.

One random stream over all parties' rows told each party the exact number of rows before its own.
"""

from __future__ import annotations

import csv

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from tacit.tasks import TaskSet


def tasks_of(sizes):
    labels = np.repeat([f"P{task}" for task in range(len(sizes))], sizes)
    # Column 0 is the row's place within its own task.
    place = np.concatenate([np.arange(size) for size in sizes]).astype(float)
    return TaskSet.from_arrays(place[:, None], tasks=labels)


def rows_of(part, name):
    at = part.names.index(name)
    return part.X[part.offsets[at] : part.offsets[at + 1], 0]


@pytest.mark.parametrize("others", [(1, 12), (8, 12), (40, 12), (7, 2), (7, 500)])
def test_a_split_does_not_depend_on_other_tasks_rows(others):
    before, after = tasks_of((7, 12, 20, 9)), tasks_of((*others, 20, 9))
    for name in ("P2", "P3"):
        for seed in range(5):
            first, second = (t.split(0.3, random_state=seed)[1] for t in (before, after))
            assert_array_equal(rows_of(first, name), rows_of(second, name))
            folds = [list(t.kfold(4, random_state=seed)) for t in (before, after)]
            for (_, one), (_, two) in zip(*folds, strict=True):
                assert_array_equal(rows_of(one, name), rows_of(two, name))


def test_a_task_alone_splits_as_it_does_among_others():
    among, alone = tasks_of((7, 12, 20)), tasks_of((7, 12, 20)).take_tasks([2])
    for seed in range(5):
        parts = [t.split(0.3, random_state=seed)[1] for t in (among, alone)]
        assert_array_equal(rows_of(parts[0], "P2"), rows_of(parts[1], "P2"))


def test_tasks_of_one_size_are_dealt_differently_and_evenly():
    tasks = tasks_of((10,) * 200)
    test = tasks.split(0.3, random_state=0)[1]
    held = {tuple(rows_of(test, name)) for name in tasks.names}
    assert len(held) > 60  # of 120 possible
    # Each place is held out by 60 of 200 tasks, ± 4.5 standard deviations (6.5 each).
    assert np.all(np.abs(np.bincount(test.X[:, 0].astype(int)) - 60) < 30)


def test_the_number_of_rows_before_a_party_cannot_be_read_from_its_scores(
    tacit_command, write_rows, tmp_path
):
    """The attack of the review: try every candidate number, see which one fits the scores."""
    given = ("--task", "party", "--target", "outcome", "--method", "single-task")
    found = []
    for size in (5, 9, 14):
        data = write_rows(f"rows{size}.csv", sizes=(size, 12, 15, 10))
        out = tmp_path / f"run{size}"
        tacit_command("fit", data, *given, "--test-size", "0.3", "--out", out, "--quiet")
        tacit_command("export", out, "--party", "P2", "--out", tmp_path / f"own{size}", "--quiet")
        with (tmp_path / f"own{size}" / "evaluation.csv").open(encoding="utf-8") as file:
            found.append(list(csv.DictReader(file)))
    assert found[0] == found[1] == found[2]


def test_whether_a_run_holds_rows_out_does_not_tell_that_a_party_has_more_than_one(
    tacit_commands, write_rows, tmp_path
):
    """Everybody else has one row; whether the run ended well told if one party had a second."""
    found = []
    for size in (1, 2):
        data, out = write_rows(f"{size}.csv", sizes=(1, size, 1, 1)), f"run-{size}"
        columns = ("--task", "party", "--target", "outcome", "--kind", "regression")
        fit = ("fit", data, *columns, "--test-size", 0.3, "--seed", 0, "--out", out, "--yes")
        folder = tmp_path / f"own-{size}"
        tacit_commands([fit, ("export", out, "--party", "P0", "--out", folder)])
        found.append({part.name for part in folder.rglob("*")})
        found.append((folder / "evaluation.csv").read_bytes())
    assert found[:2] == found[2:]
