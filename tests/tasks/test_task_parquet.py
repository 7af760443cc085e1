"""Parquet: whole, in batches of tasks, and sorted outside memory."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import DataNotFound, InvalidInput
from tacit.tasks import ParquetTasks, TaskSet, sort_parquet


def frame_of(labels, seed=0):
    random = np.random.default_rng(seed)
    n = len(labels)
    return pl.DataFrame(
        {
            "a": random.normal(size=n),
            "task": labels,
            "count": random.integers(0, 9, n),
            "flag": random.random(n) < 0.5,
            "y": np.arange(n, dtype=np.float32),
        }
    )


def shuffled(n_tasks=40, n_rows=20_000):
    return [f"task {i}" for i in np.random.default_rng(1).integers(0, n_tasks, n_rows)]


def assert_equal(first, second):
    assert first.names == second.names
    assert first.feature_names == second.feature_names
    for key in ("X", "y", "offsets", "order"):
        left, right = getattr(first, key), getattr(second, key)
        assert left.dtype == right.dtype
        np.testing.assert_array_equal(left, right)


def test_a_file_read_whole_equals_its_frame(tmp_path):
    frame = frame_of(shuffled())
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=3000)
    whole = TaskSet.from_parquet(tmp_path / "rows.parquet", tasks="task", target="y")
    assert_equal(whole, TaskSet.from_frame(frame, tasks="task", target="y"))


@settings(max_examples=25)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 20), st.integers(1, 9))
def test_batches_never_cut_a_task(tmp_path_factory, counts, max_rows, group):
    path = tmp_path_factory.mktemp("batches") / "rows.parquet"
    frame = frame_of(np.repeat(np.arange(len(counts))[::-1], counts).tolist())
    frame.write_parquet(path, row_group_size=group)
    tasks = ParquetTasks(path, tasks="task", target="y")
    assert tasks.names == tuple(range(len(counts)))[::-1]
    np.testing.assert_array_equal(tasks.counts, counts)
    batches = list(tasks.batches(max_rows))
    assert sum((batch.names for batch in batches), ()) == tasks.names
    for batch in batches:
        assert batch.n_rows <= max_rows or batch.n_tasks == 1
    whole = frame.select("a", "count", "flag").cast(pl.Float64).to_numpy()
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), whole)
    np.testing.assert_array_equal(
        np.concatenate([batch.order for batch in batches]), np.arange(sum(counts))
    )


def test_a_file_that_is_not_together_by_task_is_refused_and_sorting_mends_it(tmp_path):
    frame = frame_of(shuffled())
    source, target = tmp_path / "rows.parquet", tmp_path / "sorted.parquet"
    frame.write_parquet(source)
    with pytest.raises(InvalidInput, match=r"do not stand together; .*sort_parquet"):
        ParquetTasks(source, tasks="task", target="y")
    assert sort_parquet(source, target, tasks="task", max_rows=700) == target
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.parquet", "sorted.parquet"]
    tasks = ParquetTasks(target, tasks="task", target="y")
    expected = TaskSet.from_frame(frame, tasks="task", target="y")
    assert tasks.names == expected.names
    assert (tasks.n_tasks, tasks.n_rows, tasks.n_features) == (40, 20_000, 3)
    X = np.concatenate([batch.X for batch in tasks.batches(1000)])
    y = np.concatenate([batch.y for batch in tasks.batches(3000)])
    np.testing.assert_array_equal(X, expected.X)
    np.testing.assert_array_equal(y, expected.y)


def test_two_passes_over_one_file_do_not_disturb_each_other(tmp_path):
    frame = frame_of(np.repeat(np.arange(2000), 10).tolist())
    frame.write_parquet(tmp_path / "rows.parquet", row_group_size=1500)
    tasks = ParquetTasks(tmp_path / "rows.parquet", tasks="task", target="y")
    for first, second in zip(tasks.batches(900), tasks.batches(900), strict=True):
        assert_equal(first, second)
        np.testing.assert_array_equal(first.y, first.order)


def test_sorting_keeps_columns_that_are_no_features(tmp_path):
    frame = frame_of(["b", "a", "b"]).with_columns(note=pl.Series(["x", None, "z"]))
    frame.write_parquet(tmp_path / "rows.parquet")
    sort_parquet(tmp_path / "rows.parquet", tmp_path / "sorted.parquet", tasks="task")
    notes = pl.read_parquet(tmp_path / "sorted.parquet")["note"].to_list()
    assert notes == [None, "x", "z"]


def test_a_task_may_go_on_in_the_next_file_of_a_folder(tmp_path):
    frame = frame_of(["a"] * 3 + ["b"] * 4 + ["c"])
    frame[:5].write_parquet(tmp_path / "part-0.parquet")
    frame[5:].write_parquet(tmp_path / "part-1.parquet")
    tasks = ParquetTasks(tmp_path, tasks="task", target="y")
    np.testing.assert_array_equal(tasks.counts, [3, 4, 1])
    whole = TaskSet.from_parquet(tmp_path, tasks="task", target="y")
    assert_equal(next(tasks.batches(100)), whole)


def test_categorical_labels_and_single_precision_are_kept(tmp_path):
    frame = frame_of(["b", "b", "a"]).with_columns(
        pl.col("task").cast(pl.Categorical), pl.col("a").cast(pl.Float32)
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    path = tmp_path / "rows.parquet"
    tasks = ParquetTasks(path, tasks="task", features=["a"])
    assert tasks.names == ("b", "a")
    batch = next(tasks.batches(10))
    assert batch.y is None
    assert batch.X.dtype == np.float32


def test_bad_values_are_named_by_task_column_and_row_of_the_file(tmp_path):
    frame = frame_of(["a"] * 5 + ["b"] * 5)
    path = tmp_path / "rows.parquet"
    frame.with_columns(count=pl.Series([1] * 7 + [None] * 3)).write_parquet(path)
    batches = ParquetTasks(path, tasks="task", target="y").batches(5)
    assert next(batches).names == ("a",)
    with pytest.raises(InvalidInput, match=r"column 'count': NaN in task 'b' \(row 7\)"):
        next(batches)
    frame.with_columns(task=pl.Series(["a"] * 9 + [None])).write_parquet(path)
    with pytest.raises(InvalidInput, match="missing label in row 9"):
        ParquetTasks(path, tasks="task", target="y")


def test_bad_files_and_columns_are_named(tmp_path):
    path = tmp_path / "rows.parquet"
    with pytest.raises(DataNotFound, match="no parquet file here"):
        ParquetTasks(path, tasks="task")
    frame = frame_of(["a", "b"])
    frame.write_parquet(path)
    with pytest.raises(InvalidInput, match=r"tasks='ward': no such column; the file has"):
        ParquetTasks(path, tasks="ward")
    with pytest.raises(InvalidInput, match=r"features: not numeric: 'task'"):
        ParquetTasks(path, tasks="count", target="y")
    with pytest.raises(InvalidInput, match=r"target: not numeric: 'task'"):
        ParquetTasks(path, tasks="count", target="task")
    with pytest.raises(InvalidInput, match="max_rows=0"):
        next(ParquetTasks(path, tasks="task").batches(0))
    frame[:0].write_parquet(path)
    with pytest.raises(InvalidInput, match="has no rows"):
        ParquetTasks(path, tasks="task")


def test_parts_of_a_file_read_their_own_rows_only(tmp_path):
    task = np.repeat(np.arange(50), np.arange(50) % 7 + 1)
    table = pl.DataFrame({"site": task, "x": np.arange(len(task)) + 0.0, "y": task + 0.0})
    (tmp_path / "rows").mkdir()
    table[:71].write_parquet(tmp_path / "rows" / "a.parquet", row_group_size=13)
    table[71:].write_parquet(tmp_path / "rows" / "b.parquet", row_group_size=17)
    whole = ParquetTasks(tmp_path / "rows", tasks="site", target="y")
    for first, last in [(0, 50), (0, 1), (3, 20), (19, 21), (33, 50), (49, 50)]:
        part = whole.part(first, last)
        (rows,) = part.batches(10_000)
        assert rows.names == tuple(range(first, last))
        expected = np.flatnonzero((task >= first) & (task < last))
        assert np.array_equal(rows.X[:, 0], expected)
        assert np.array_equal(rows.order, expected)
    again = pickle.loads(pickle.dumps(whole.part(3, 20)))
    assert np.array_equal(next(again.batches(10_000)).y, task[(task >= 3) & (task < 20)])
    packed = pickle.dumps(whole)
    table[71:].reverse().write_parquet(tmp_path / "rows" / "b.parquet", row_group_size=17)
    with pytest.raises(InvalidInput, match="changed while it was read"):
        pickle.loads(packed)


def test_a_part_of_a_part_counts_from_the_file_on(tmp_path):
    task = np.repeat(np.arange(50), np.arange(50) % 7 + 1)
    table = pl.DataFrame({"site": task, "x": np.arange(len(task)) + 0.0, "y": task + 0.0})
    table.write_parquet(tmp_path / "rows.parquet", row_group_size=13)
    whole = ParquetTasks(tmp_path / "rows.parquet", tasks="site", target="y")
    within = whole.part(10, 40).part(5, 9)
    assert within.names == (15, 16, 17, 18)
    assert np.array_equal(next(within.batches(10_000)).y, task[(task >= 15) & (task < 19)])
