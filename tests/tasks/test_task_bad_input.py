"""Bad input gets an error that names it, and nothing is changed."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

GOOD = np.ones((3, 2))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_value_that_is_not_finite_is_named_by_task_and_column(value, dtype):
    X = GOOD.astype(dtype)
    X[1, 1] = value
    kind = "NaN" if np.isnan(value) else "infinity"
    before = X.copy()
    with pytest.raises(InvalidInput, match=rf"X, column 'bp': {kind} in task 'b' \(row 1\)"):
        TaskSet.from_arrays(X, tasks=["c", "b", "a"], feature_names=["age", "bp"])
    with pytest.raises(InvalidInput, match=rf"X, column 1: {kind} in task 'b'"):
        TaskSet.from_arrays(X, tasks=["c", "b", "a"])
    with pytest.raises(InvalidInput, match=rf"y: {kind} in task 'b' \(row 1\)"):
        TaskSet.from_arrays(GOOD, X[:, 1], ["c", "b", "a"])
    np.testing.assert_array_equal(X, before)


def test_a_bad_value_far_down_is_found():
    X = np.zeros((40_000, 1))
    X[39_999] = np.nan
    with pytest.raises(InvalidInput, match="row 39999"):
        TaskSet.from_arrays(X)


def test_large_finite_values_are_no_error():
    largest = np.full((4, 2), np.finfo(np.float32).max, dtype=np.float32)
    assert TaskSet.from_arrays(largest).n_rows == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": np.ones(3)}, r"two dimensions .* got shape \(3,\); .*reshape"),
        ({"X": np.ones((0, 2))}, r"at least one row and one feature, got shape \(0, 2\)"),
        ({"X": np.ones((2, 0))}, r"at least one row and one feature, got shape \(2, 0\)"),
        ({"X": sparse.csr_array(GOOD)}, "sparse matrices are not supported"),
        ({"X": [["a", 1], ["b", 2]]}, r"X, column 0: 'a' is not a number"),
        ({"X": np.array([[1, "b"]], dtype=object)}, r"X, column 1: 'b' is not a number"),
        ({"X": GOOD * 1j}, r"X, column 0: 1j is not a number"),
        ({"X": [[1.0, None]]}, r"X, column 1: NaN in task 0"),
        ({"X": GOOD, "y": [1, 2]}, "y: has 2 rows but X has 3"),
        ({"X": GOOD, "y": GOOD}, r"y: must have one dimension, got shape \(3, 2\)"),
        ({"X": GOOD, "y": ["p", "q", "p"]}, "y: 'p' is not a number"),
        ({"X": GOOD, "tasks": ["a", "b"]}, "tasks: has 2 labels but X has 3 rows"),
        ({"X": GOOD, "tasks": []}, "tasks: has 0 labels but X has 3 rows"),
        ({"X": GOOD, "tasks": "ward"}, "tasks='ward': must hold one label per row"),
        ({"X": GOOD, "feature_names": ["a"]}, "feature_names: has 1 names but X has 2"),
        ({"X": GOOD, "feature_names": ["a", "a"]}, r"\['a'\] occur more than once"),
        ({"X": GOOD, "feature_names": ["a", 1]}, "1 is not a string"),
        ({"X": GOOD, "feature_names": "ab"}, "must be a list of names"),
    ],
)
def test_what_is_wrong_and_how_to_mend_it_is_said(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        TaskSet.from_arrays(**arguments)


@pytest.mark.parametrize(
    ("offsets", "names", "message"),
    [
        ([0, 2, 2, 3], ("a", "b", "c"), "task 'b': has no rows; leave the task out"),
        ([0, 2], ("a",), "from 0 to the number of rows, 3"),
        ([1, 3], ("a",), "from 0 to the number of rows, 3"),
        ([0, 3], ("a", "b"), "2 values for 2 tasks"),
        ([0], (), "at least one task"),
    ],
)
def test_offsets_that_do_not_fit_are_refused(offsets, names, message):
    with pytest.raises(InvalidInput, match=message):
        TaskSet(GOOD, None, np.array(offsets), names, np.arange(3))


def test_arrays_of_different_length_are_refused_by_the_constructor_too():
    with pytest.raises(InvalidInput, match="does not fit an order of 2 rows"):
        TaskSet(GOOD, None, np.array([0, 3]), ("a",), np.arange(2))
    with pytest.raises(InvalidInput, match=r"y: has shape \(2,\)"):
        TaskSet(GOOD, np.ones(2), np.array([0, 3]), ("a",), np.arange(3))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda t: t.split(0.0), "test_size=0.0"),
        (lambda t: t.split(1.0), "test_size=1.0"),
        (lambda t: t.split(float("nan")), "test_size=nan"),
        (lambda t: list(t.kfold(1)), "n_folds=1"),
        (lambda t: list(t.kfold(2.5)), "n_folds=2.5"),
        (lambda t: list(t.batches(0)), "max_rows=0"),
        (lambda t: t.take_rows([5]), "rows: index out of range; there are 3"),
        (lambda t: t.take_rows([1, 1]), "selected more than once"),
        (lambda t: t.take_rows([True]), r"a mask of shape \(1,\) for 3 rows"),
        (lambda t: t.take_rows([0.5]), "mask or a list of whole numbers"),
        (lambda t: t.take_tasks([]), "tasks: nothing selected"),
        (lambda t: t.restore(np.ones(2)), "values: has 2 rows but the tasks have 3"),
        (lambda t: t.task_sums(np.ones(2)), "values: has 2 rows but the tasks have 3"),
        (lambda t: t.replace(X=np.ones((2, 2))), "X: has 2 rows but the tasks have 3"),
        (lambda t: t.replace(X=GOOD * np.nan), "NaN in task 'a'"),
        (lambda t: t.replace(y=[1, 2]), "y: has 2 rows"),
        (lambda t: t.with_intercept(0), "value=0"),
    ],
)
def test_wrong_arguments_of_methods_are_named(call, message):
    tasks = TaskSet.from_arrays(GOOD, np.ones(3), ["a", "a", "b"])
    with pytest.raises(InvalidInput, match=message):
        call(tasks)
    assert tasks.n_rows == 3
