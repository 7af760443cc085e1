"""Grouping rows by labels of any hashable kind."""

from __future__ import annotations

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidInput
from tacit.tasks import group_labels, match_labels

scalars = st.one_of(st.none(), st.booleans(), st.integers(-3, 3), st.text("ab", max_size=2))
labels = st.lists(st.one_of(scalars, st.tuples(scalars, scalars)), min_size=1, max_size=30)


@given(labels)
def test_every_row_gets_back_a_label_equal_to_its_own(values):
    codes, names = group_labels(values)
    assert [names[code] for code in codes] == values
    assert len(set(names)) == len(names)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_arrays_and_lists_of_the_same_numbers_group_alike(values):
    from_list, from_array = group_labels(values), group_labels(np.array(values))
    assert from_list[1] == from_array[1] == tuple(sorted(set(values)))
    np.testing.assert_array_equal(from_list[0], from_array[0])


def test_names_of_number_arrays_are_plain_python_numbers():
    assert [type(name) for name in group_labels(np.array([2, 1], dtype=np.int16))[1]] == [int, int]
    assert [type(name) for name in group_labels([np.float32(0.5), np.str_("a")])[1]] == [float, str]


def test_labels_that_cannot_be_sorted_keep_the_order_of_first_appearance():
    codes, names = group_labels([("b", 1), None, "a", 2.5, None])
    assert names == (("b", 1), None, "a", 2.5)
    np.testing.assert_array_equal(codes, [0, 1, 2, 3, 1])


@pytest.mark.parametrize(
    "values",
    [
        np.array(["b", "a", "b"]),
        np.array(["b", "a", "b"], dtype=object),
        pd.Series(["b", "a", "b"]),
        pd.Series(["b", "a", "b"], dtype="category"),
        pd.Index(["b", "a", "b"]),
        pd.Categorical(["b", "a", "b"]),
        pl.Series(["b", "a", "b"]),
        pl.Series(["b", "a", "b"], dtype=pl.Categorical),
    ],
)
def test_text_labels_of_every_container_are_the_same(values):
    codes, names = group_labels(values)
    assert names == ("a", "b")
    np.testing.assert_array_equal(codes, [1, 0, 1])


def test_dates_keep_their_kind():
    days = [datetime.date(2024, 1, 2), datetime.date(2024, 1, 1)]
    assert group_labels(days)[1] == tuple(sorted(days))
    stamps = np.array(["2024-01-02", "2024-01-01"], dtype="datetime64[ns]")
    assert group_labels(stamps)[1] == (stamps[1], stamps[0])


@pytest.mark.parametrize(
    "values",
    [
        np.array([1.0, np.nan]),
        [1.0, float("nan")],
        [("a", float("nan")), "b"],
        np.array(["2024-01-01", "NaT"], dtype="datetime64[D]"),
        pd.Series(["a", None]),
        pd.Series([1, None], dtype="Int64"),
        np.array([1, pd.NA], dtype=object),
        pl.Series([1, None]),
    ],
)
def test_a_missing_label_is_refused_with_its_row(values):
    with pytest.raises(InvalidInput, match=r"label in row [01]; drop those rows"):
        group_labels(values)


def test_unhashable_and_scalar_labels_are_refused():
    with pytest.raises(InvalidInput, match=r"label \[2\] in row 1 cannot be hashed"):
        group_labels(["a", [2]])
    with pytest.raises(InvalidInput, match="one label per row"):
        group_labels("school")
    with pytest.raises(InvalidInput, match="one-dimensional"):
        group_labels(np.zeros((3, 1)))


def test_matching_finds_known_tasks_and_marks_the_others():
    names = ("a", "b", ("c", 1))
    np.testing.assert_array_equal(match_labels(["b", "x", ("c", 1), "b"], names), [1, -1, 2, 1])
