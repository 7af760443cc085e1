"""The task set: grouping, restoring, parts, splits, batches."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit.errors import InvalidInput
from tacit.tasks import TaskSet
from tacit.tasks._outputs import one_vs_rest

row_tasks = st.lists(st.integers(0, 6), min_size=1, max_size=60)


def tasks_of(labels, n_features=3):
    random = np.random.default_rng(len(labels))
    X = random.normal(size=(len(labels), n_features))
    return TaskSet.from_arrays(X, np.arange(len(labels), dtype=float), labels)


@given(row_tasks)
def test_rows_are_contiguous_by_task_in_the_callers_order(labels):
    tasks = tasks_of(labels)
    assert tasks.names == tuple(sorted(set(labels)))
    assert tasks.X.flags.c_contiguous
    for task, name in enumerate(tasks.names):
        rows = slice(tasks.offsets[task], tasks.offsets[task + 1])
        expected = np.flatnonzero(np.array(labels) == name)
        np.testing.assert_array_equal(tasks.order[rows], expected)
        np.testing.assert_array_equal(tasks.y[rows], expected)
    np.testing.assert_array_equal(tasks.counts, np.bincount(tasks.task_of_row))


@given(row_tasks)
def test_restore_undoes_the_sorting(labels):
    tasks = tasks_of(labels)
    np.testing.assert_array_equal(tasks.restore(tasks.y), np.arange(len(labels)))
    np.testing.assert_array_equal(
        TaskSet.from_arrays(tasks.restore(tasks.X), tasks=labels).X, tasks.X
    )


@given(row_tasks, st.floats(0.01, 0.99), st.integers(0, 5))
def test_a_split_keeps_every_task_on_both_sides(labels, test_size, seed):
    tasks = tasks_of(labels)
    if tasks.counts.max() == 1:
        with pytest.raises(InvalidInput, match="single row"):
            tasks.split(test_size, random_state=seed)
        return
    train, test = tasks.split(test_size, random_state=seed)
    assert train.names == tasks.names
    several = [n for n, count in zip(tasks.names, tasks.counts, strict=True) if count > 1]
    assert list(test.names) == several
    np.testing.assert_array_equal(np.sort([*train.order, *test.order]), np.arange(len(labels)))
    wanted = test_size * tasks.counts[tasks.counts > 1]
    assert np.all(np.abs(test.counts - wanted) <= 1)
    np.testing.assert_array_equal(train.y, train.order)
    np.testing.assert_array_equal(test.restore(test.y), np.sort(test.order))


def test_a_split_depends_on_its_seed_only():
    tasks = tasks_of([0, 1] * 50)
    first, again = tasks.split(random_state=3)[1], tasks.split(random_state=3)[1]
    other = tasks.split(random_state=4)[1]
    np.testing.assert_array_equal(first.order, again.order)
    assert not np.array_equal(first.order, other.order)


@given(row_tasks, st.integers(2, 5), st.integers(0, 3))
def test_folds_test_each_row_once_and_train_on_every_task(labels, n_folds, seed):
    tasks = tasks_of(labels)
    if tasks.counts.max() < n_folds:
        with pytest.raises(InvalidInput, match="rows of the largest task"):
            list(tasks.kfold(n_folds, random_state=seed))
        return
    tested = []
    for train, test in tasks.kfold(n_folds, random_state=seed):
        assert train.names == tasks.names
        np.testing.assert_array_equal(np.sort([*train.order, *test.order]), np.arange(len(labels)))
        tested.extend(test.order)
        sizes = dict(zip(test.names, test.counts, strict=True))
        for name, count in zip(tasks.names, tasks.counts, strict=True):
            assert sizes.get(name, 0) in (count // n_folds, -(-count // n_folds)) or count == 1
    single = tasks.order[tasks.counts[tasks.task_of_row] == 1]
    np.testing.assert_array_equal(np.sort([*tested, *single]), np.arange(len(labels)))


def test_small_tasks_are_not_all_tested_in_the_first_folds():
    tasks = tasks_of(np.repeat(np.arange(300), 2))
    sizes = [test.n_rows for _, test in tasks.replace(y=tasks.y).kfold(2, random_state=0)]
    assert sizes == [300, 300]
    mixed = TaskSet.from_arrays(
        np.ones((610, 1)), np.ones(610), [*np.repeat(np.arange(300), 2), *[300] * 10]
    )
    sizes = [test.n_rows for _, test in mixed.kfold(10, random_state=0)]
    assert min(sizes) > 30


@given(row_tasks, st.integers(1, 25))
def test_batches_never_cut_a_task_and_together_are_the_whole(labels, max_rows):
    tasks = tasks_of(labels)
    batches = list(tasks.batches(max_rows))
    assert sum((batch.names for batch in batches), ()) == tasks.names
    np.testing.assert_array_equal(np.concatenate([batch.X for batch in batches]), tasks.X)
    for batch in batches:
        assert batch.n_rows <= max_rows or batch.n_tasks == 1
        assert np.shares_memory(batch.X, tasks.X)


@given(row_tasks, st.data())
def test_taken_rows_stay_sorted_and_lose_empty_tasks(labels, data):
    tasks = tasks_of(labels)
    mask = data.draw(npst.arrays(bool, len(labels)))
    if not mask.any():
        with pytest.raises(InvalidInput, match="nothing selected"):
            tasks.take_rows(mask)
        return
    part, by_index = tasks.take_rows(mask), tasks.take_rows(np.flatnonzero(mask)[::-1])
    np.testing.assert_array_equal(part.y, tasks.y[mask])
    np.testing.assert_array_equal(part.y, by_index.y)
    assert set(part.names) == {tasks.names[task] for task in tasks.task_of_row[mask]}


def test_taken_tasks_come_in_the_order_asked_for():
    tasks = tasks_of(["a", "b", "c", "b", "a", "c", "c"])
    part = tasks.take_tasks([2, 0])
    assert part.names == ("c", "a")
    np.testing.assert_array_equal(part.order, [2, 5, 6, 0, 4])
    assert tasks.take_tasks(np.array([False, True, True])).names == ("b", "c")
    assert tasks.take_tasks(slice(0, 2)).names == ("a", "b")
    assert tasks.take_tasks([-1]).names == ("c",)


@given(row_tasks)
def test_sums_by_task_equal_sums_of_the_rows_of_each_task(labels):
    tasks = tasks_of(labels)
    expected = [tasks.X[tasks.task_of_row == task].sum(axis=0) for task in range(tasks.n_tasks)]
    np.testing.assert_allclose(tasks.task_sums(tasks.X), expected, atol=1e-12)
    np.testing.assert_array_equal(tasks.task_sums(np.ones(len(labels), dtype=bool)), tasks.counts)


def test_precision_is_kept_for_float32_and_is_float64_for_all_else():
    ones = np.ones((2, 2))
    assert TaskSet.from_arrays(ones.astype(np.float32), [1, 2]).X.dtype == np.float32
    for kind in (np.float16, np.int8, np.uint8, bool, object):
        tasks = TaskSet.from_arrays(ones.astype(kind), ones[0].astype(kind))
        assert tasks.X.dtype == tasks.y.dtype == np.float64


def test_without_labels_all_rows_are_one_task():
    tasks = TaskSet.from_arrays([[1.0], [2.0]])
    assert tasks.names == (0,)
    assert tasks.y is None
    assert (tasks.n_tasks, tasks.n_rows, tasks.n_features) == (1, 2, 1)


def test_sorted_input_of_the_right_type_is_not_copied():
    X = np.ones((4, 2))
    assert np.shares_memory(TaskSet.from_arrays(X, tasks=[0, 0, 1, 1]).X, X)


def test_a_task_set_cannot_be_changed_and_says_its_size():
    tasks = tasks_of([0, 1, 1])
    with pytest.raises(dataclasses.FrozenInstanceError):
        tasks.X = None
    assert repr(tasks) == "TaskSet(n_tasks=2, n_rows=3, n_features=3, dtype=float64)"


def test_replacing_features_keeps_the_rows_and_drops_outdated_names():
    tasks = TaskSet.from_arrays(np.ones((3, 2)), [1, 2, 3], [1, 0, 1], feature_names=["a", "b"])
    assert tasks.replace(X=np.zeros((3, 2))).feature_names == ("a", "b")
    wider = tasks.replace(X=np.zeros((3, 5)), y=[0, 0, 1])
    assert wider.feature_names is None
    np.testing.assert_array_equal(wider.order, tasks.order)
    np.testing.assert_array_equal(wider.y, [0, 0, 1])


def test_one_against_the_rest_gives_a_binary_target_per_class():
    tasks = TaskSet.from_arrays(np.ones((4, 1)), [0, 2, 1, 2], [0, 0, 1, 1])
    outputs = one_vs_rest(tasks, 3)
    np.testing.assert_array_equal(np.sum([output.y for output in outputs], axis=0), 1)
    np.testing.assert_array_equal(outputs[2].y, [0, 1, 0, 1])
    assert one_vs_rest(tasks, 1) == (tasks,)
