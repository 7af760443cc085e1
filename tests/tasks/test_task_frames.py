"""Frames of pandas, polars and Arrow give the same tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

COLUMNS = {
    "age": [51, 40, 63, 58, 35],
    "weight": [70.5, 81.0, 66.25, 90.0, 55.0],
    "smoker": [True, False, False, True, False],
    "ward": ["north", "south", "north", "east", "south"],
    "days": [3.0, 1.0, 4.0, 1.0, 5.0],
}
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.fixture(params=FRAMES)
def frame(request):
    return FRAMES[request.param](COLUMNS)


def test_every_library_gives_the_same_tasks(frame):
    tasks = TaskSet.from_frame(frame, tasks="ward", target="days")
    assert tasks.names == ("east", "north", "south")
    assert tasks.feature_names == ("age", "weight", "smoker")
    np.testing.assert_array_equal(tasks.order, [3, 0, 2, 1, 4])
    np.testing.assert_array_equal(tasks.y, [1.0, 3.0, 4.0, 1.0, 5.0])
    np.testing.assert_array_equal(tasks.X[0], [58.0, 90.0, 1.0])


def test_features_come_in_the_order_asked_for(frame):
    tasks = TaskSet.from_frame(frame, tasks="ward", features=["weight", "age"])
    assert tasks.feature_names == ("weight", "age")
    assert tasks.y is None
    np.testing.assert_array_equal(tasks.X[0], [90.0, 58.0])


def test_a_frame_as_x_may_hold_the_task_column():
    for library in (pd.DataFrame, pl.DataFrame):
        frame = library(COLUMNS)
        whole = TaskSet.from_frame(frame, tasks="ward", target="days")
        rest = frame[["age", "weight", "smoker", "ward"]]
        named = TaskSet.from_arrays(rest, frame["days"], "ward")
        given = TaskSet.from_arrays(rest[["age", "weight", "smoker"]], frame["days"], frame["ward"])
        for tasks in (named, given):
            np.testing.assert_array_equal(tasks.X, whole.X)
            np.testing.assert_array_equal(tasks.y, whole.y)
            assert (tasks.names, tasks.feature_names) == (whole.names, whole.feature_names)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
def test_float32_columns_stay_float32_unless_mixed(library):
    single = np.ones(2, dtype=np.float32)
    frame = library({"a": single, "b": 2 * single, "n": np.array([1, 2]), "t": ["x", "y"]})
    assert TaskSet.from_frame(frame, tasks="t", features=["a", "b"]).X.dtype == np.float32
    assert TaskSet.from_frame(frame, tasks="t", features=["a", "n"]).X.dtype == np.float64


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(
    "labels", [[2, 1, 2], [2.5, 1.5, 2.5], ["b", "a", "b"], [True, False, True]]
)
def test_labels_of_a_column_keep_their_kind(library, labels):
    tasks = TaskSet.from_frame(library({"x": [1.0, 2.0, 3.0], "t": labels}), tasks="t")
    assert tasks.names == tuple(sorted(set(labels)))
    assert [type(name) for name in tasks.names] == [type(labels[0])] * 2


def test_columns_named_by_numbers_are_no_feature_names_of_an_array():
    frame = pd.DataFrame(np.ones((2, 2)))
    assert TaskSet.from_arrays(frame).feature_names is None
    assert TaskSet.from_frame(frame, tasks=0).feature_names == ("1",)


def test_text_columns_are_named(frame):
    with pytest.raises(InvalidInput, match=r"features: not numeric: 'ward' \(String\)"):
        TaskSet.from_frame(frame, tasks="age", target="days")
    with pytest.raises(InvalidInput, match=r"target: not numeric: 'ward'"):
        TaskSet.from_frame(frame, tasks="age", target="ward")


def test_unknown_columns_are_named(frame):
    with pytest.raises(InvalidInput, match=r"tasks='clinic': no such column; the frame has"):
        TaskSet.from_frame(frame, tasks="clinic")
    with pytest.raises(InvalidInput, match=r"target='score': no such column"):
        TaskSet.from_frame(frame, tasks="ward", target="score")
    with pytest.raises(InvalidInput, match=r"features='bmi': no such column"):
        TaskSet.from_frame(frame, tasks="ward", features=["bmi"])
    with pytest.raises(InvalidInput, match="'days' is the target column"):
        TaskSet.from_frame(frame, tasks="ward", target="days", features=["age", "days"])
    with pytest.raises(InvalidInput, match="no columns left"):
        TaskSet.from_frame(frame, tasks="ward", features=[])
    with pytest.raises(InvalidInput, match="must be a list of column names"):
        TaskSet.from_frame(frame, tasks="ward", features="age")


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"x": pd.array([1, None], dtype="Int64"), "t": ["p", "q"]}),
        pd.DataFrame({"x": [1.0, None], "t": ["p", "q"]}),
        pl.DataFrame({"x": [1, None], "t": ["p", "q"]}),
    ],
)
def test_a_missing_value_is_named_by_task_column_and_row(frame):
    with pytest.raises(InvalidInput, match=r"X, column 'x': NaN in task 'q' \(row 1\)"):
        TaskSet.from_frame(frame, tasks="t")


def test_lazy_frames_and_repeated_columns_are_refused():
    with pytest.raises(InvalidInput, match=r"call \.collect\(\)"):
        TaskSet.from_frame(pl.LazyFrame(COLUMNS), tasks="ward")
    with pytest.raises(InvalidInput, match="occur more than once"):
        TaskSet.from_arrays(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(InvalidInput, match="occur more than once"):
        TaskSet.from_frame(pa.table([[1], [2]], names=["a", "a"]), tasks="a")
