"""``tacit fit file.parquet`` learns in batches: the same run folder, to the bit, as from memory."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.cli.table import read as whole
from tacit.privacy import Ledger

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def frame_of(n_tasks=30, kind="regression", seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(4, 12, n_tasks)
    task = np.repeat(np.arange(n_tasks), counts)
    frame = pandas.DataFrame(rng.standard_normal((len(task), 4)), columns=list("abcd"))
    frame["whole"], frame["yes"] = rng.integers(0, 50, len(task)), rng.random(len(task)) < 0.5
    score = frame["a"] + 0.1 * frame["whole"] + frame["yes"] + rng.standard_normal(len(task))
    frame.insert(0, "site", [f"S{number:03d}" for number in task])
    if kind == "binary":
        return frame.assign(y=(score > score.median()).astype(int))
    if kind == "words":
        return frame.assign(y=np.array(["high", "low", "middle"])[np.digitize(score, [1.0, 4.0])])
    return frame.assign(y=score)


@pytest.fixture(autouse=True)
def _room(run, tmp_path, monkeypatch):
    """A ledger without a limit: what is compared here is fitted more than once."""
    Ledger(tmp_path / "tests.db", float("inf"), 0.01).close()
    monkeypatch.setenv("TACIT_LEDGER", str(tmp_path / "tests.db"))


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr("tacit.engines.batches._ROW_NUMBERS", 300)
    monkeypatch.setattr("tacit.estimators.single_task._ROW_NUMBERS", 300)


@pytest.fixture
def both(run, tmp_path, monkeypatch, small_batches):
    """Fit a frame from a CSV file, which is read whole, and from parquet, which must not be."""

    def fit(frame, *options):
        frame.to_csv("rows.csv", index=False)
        frame.to_parquet("rows.parquet", index=False, row_group_size=41)
        given = ("--task", "site", "--target", "y", "--yes", *options)
        done = run("fit", "rows.csv", *given, "--out", "memory")
        assert done.exit_code == 0, done.output
        with monkeypatch.context() as patch:
            patch.delattr(whole, "_parquet")
            done = run("fit", "rows.parquet", *given, "--out", "file")
        assert done.exit_code == 0, done.output
        assert "read into memory" not in done.output
        return tmp_path / "memory", tmp_path / "file"

    return fit


def assert_same(one, other):
    memory, file = tacit.load(one), tacit.load(other)
    assert np.array_equal(memory.coef_, file.coef_)
    assert np.array_equal(memory.intercept_, file.intercept_)
    assert memory.task_names_ == file.task_names_
    assert list(memory.feature_names_in_) == list(file.feature_names_in_)
    assert memory.privacy_ == file.privacy_
    if memory.billboard_ is not None:
        assert memory.billboard_.head == file.billboard_.head
    arrays = [sorted(part.name for part in folder.glob("arrays-*.npz")) for folder in (one, other)]
    assert arrays[0] == arrays[1]  # named by what they hold
    for name in ("statement.json", "history.csv", "billboard.npz"):
        if (one / name).exists():
            assert (one / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ("--method", "single-task"),
        ("--seed", "3", "--epsilon", "300", "--range", "whole=0:50"),
        ("--seed", "3", "--method", "low-rank", "--set", "update=proximal", "--rounds", "3"),
        ("--seed", "3", "--method", "shared-moments", "--epsilon", "9", "--set", "gate=false"),
    ],
)
def test_numbers_are_learned_from_a_file_as_from_memory(both, options):
    assert_same(*both(frame_of(), *options))


@pytest.mark.parametrize("kind", ["binary", "words"])
@pytest.mark.parametrize("declared", [False, True])
def test_classes_are_learned_from_a_file_as_from_memory(both, kind, declared):
    options = ["--method", "low-rank", "--seed", "3", "--epsilon", "300"]
    if declared:
        options += ["--classes", "1,0" if kind == "binary" else "low,high"]
    memory, file = both(frame_of(kind=kind), *options)
    assert_same(memory, file)
    assert tacit.load(memory).classes_.tolist() == tacit.load(file).classes_.tolist()


def test_what_was_streamed_predicts_and_is_joined_like_any_run(both, run):
    frame = frame_of()
    both(frame, "--method", "low-rank", "--seed", "1", "--epsilon", "300")
    for folder in ("memory", "file"):
        done = run("predict", folder, "rows.csv", "--out", f"{folder}.csv")
        assert done.exit_code == 0, done.output
    with open("memory.csv") as one, open("file.csv") as other:
        assert one.read() == other.read()


@pytest.mark.parametrize(
    ("change", "options", "reason"),
    [
        (lambda f: f.assign(a=f["a"].where(f["a"] < 1)), (), "'a' has missing"),
        (lambda f: f.assign(w="x"), ("--public-categories", "w"), "text columns"),
        (lambda f: f.sample(frac=1.0, random_state=0), (), "do not stand together"),
        (lambda f: f, ("--test-size", "0.3"), "--test-size needs all rows at once"),
        (lambda f: f, ("--method", "pooled"), "pooled learns from all rows at once"),
        (lambda f: f.assign(y=f["y"].round(2).astype(str)), (), "different words"),
    ],
)
def test_what_needs_memory_is_read_into_it_and_says_why(run, change, options, reason):
    change(frame_of()).to_parquet("rows.parquet", index=False)
    done = run(
        "fit", "rows.parquet", "--task", "site", "--target", "y", "-y", *options, "--out", "run"
    )
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "rows.parquet is read into memory: " in said
    assert reason in said


def test_a_rehearsal_reads_sizes_off_the_file(run, monkeypatch):
    frame_of().to_parquet("rows.parquet", index=False)
    monkeypatch.delattr(whole, "_parquet")
    done = run("fit", "rows.parquet", "--task", "site", "--target", "y", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "30 tasks" in done.output
