"""The bit attack: with the releases frozen, nothing of one task reaches a bit of another's result.

Not "nearly equal": a last bit that moves with another task's number of rows is a way past the
billboard, and whoever holds a candidate for those rows can read it.
"""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tacit

VICTIM = 1
WIDE = 25


def _data(classify, d, *, changed=False, more=31, dtype=np.float64):
    """Return tasks of unequal size; changed, the victim has other rows, and ``more`` of them."""
    rng = np.random.default_rng(0)
    sizes = [*rng.integers(6, 30, 15), 1]
    shared = rng.normal(size=(2, d))
    parts = []
    for task, size in enumerate(sizes):
        X = rng.normal(size=(size, d))
        z = X @ ((rng.normal(size=2) + np.array([1.0, 0.0])) @ shared) + 0.3 * rng.normal(size=size)
        parts.append((X, (z > 0).astype(int) if classify else z + task))
    if changed:
        size = sizes[VICTIM] + more
        z = 1e3 * rng.normal(size=size)
        parts[VICTIM] = (
            50 * rng.normal(size=(size, d)) + 3,
            (z > 0).astype(int) if classify else z,
        )
    X = np.concatenate([rows for rows, _ in parts]).astype(dtype)
    y = np.concatenate([targets for _, targets in parts])
    return X, y, np.repeat(np.arange(len(sizes)), [len(rows) for rows, _ in parts])


def _classifies(name):
    return name.endswith("Classifier")


def _others_equal(before, after):
    others = [task != VICTIM for task in before.task_names_]
    np.testing.assert_array_equal(after.coef_[others], before.coef_[others])
    np.testing.assert_array_equal(after.intercept_[others], before.intercept_[others])


@pytest.mark.parametrize("threads", [1, 2])
def test_no_bit_of_others_moves_when_a_task_has_other_rows_and_more_of_them(
    private, parameters, sizes_are_public, threads, fit, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    classify = _classifies(private)
    with threadpool_limits(threads, user_api="blas"):
        before = fit(private, parameters, _data(classify, WIDE))
        releases = [posting.value for posting in before.billboard_]
        more = 0 if sizes_are_public else 31
        changed = _data(classify, WIDE, changed=True, more=more)
        _others_equal(before, fit(private, parameters, changed, releases))


@pytest.mark.parametrize("name", ["SharedPriorRegressor", "AveragedClassifier", "LowRankRegressor"])
def test_no_bit_of_others_moves_in_single_precision(name, fit):
    data = {
        changed: _data(_classifies(name), WIDE, changed=changed, dtype=np.float32)
        for changed in (False, True)
    }
    before = fit(name, {}, data[False])
    releases = [posting.value for posting in before.billboard_]
    _others_equal(before, fit(name, {}, data[True], releases))


def test_no_bit_moves_when_the_tasks_no_longer_have_one_size():
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(1900, 60)), rng.normal(size=1900)
    y = (X[:, 0] + z > 0).astype(int)
    with threadpool_limits(2, user_api="blas"):
        found = [
            tacit.SingleTaskClassifier()
            .fit(X[:n], y[:n], tasks=np.repeat([0, 1], [800, n - 800]))
            .coef_[0]
            for n in (1600, 1900)
        ]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(("d", "threads"), [(1, 1), (3, 1), (WIDE, 2)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["SingleTaskRegressor", "SingleTaskClassifier"])
def test_a_task_alone_on_its_machine_finds_the_bits_it_finds_among_others(
    name, d, dtype, threads, monkeypatch
):
    X, y, labels = _data(_classifies(name), d, dtype=dtype)
    with threadpool_limits(threads, user_api="blas"):
        monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
        together = getattr(tacit, name)().fit(X, y, tasks=labels)
        for task in together.task_names_:
            own = labels == task
            if len(np.unique(y[own])) < 2:  # a classifier by itself needs two classes
                continue
            alone = getattr(tacit, name)().fit(X[own], y[own], tasks=labels[own])
            np.testing.assert_array_equal(alone.coef_[0], together.coef_[task])
            np.testing.assert_array_equal(alone.intercept_[0], together.intercept_[task])


def test_no_bit_of_others_depends_on_how_long_the_longest_task_is(fit):
    name, parameters = "LowRankRegressor", {"update": "proximal", "shrinkage": "soft-threshold"}
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(5_100), 19)
    longer = np.append(labels, np.full(9_000, VICTIM))
    X, y = rng.normal(size=(len(longer), 20)), rng.normal(size=len(longer))
    short = slice(len(labels))
    before = fit(name, parameters | {"n_rounds": 2}, (X[short], y[short], labels))
    releases = [posting.value for posting in before.billboard_]
    _others_equal(before, fit(name, parameters | {"n_rounds": 2}, (X, y, longer), releases))


def test_fits_in_several_threads_at_once_keep_one_blas_thread_each():
    from concurrent.futures import ThreadPoolExecutor

    X, y, labels = _data(False, 60)

    def fitted(_):
        return tacit.SingleTaskRegressor().fit(X, y, tasks=labels).coef_

    with threadpool_limits(2, user_api="blas"):
        expected = fitted(0)
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(fitted, range(8)):
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["SharedPriorRegressor", "SingleTaskRegressor"])
def test_what_intervals_keep_does_not_depend_on_the_threads_that_are_free(name):
    X, y, labels = _data(False, 90)
    private = {"epsilon": 200.0, "random_state": 0} if name.startswith("Shared") else {}
    kept = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = getattr(tacit, name)(intervals=True, **private).fit(X, y, tasks=labels)
        kept.append((model.noise_, model.centre_, model.spread_))
    for one, other in zip(*kept, strict=True):
        np.testing.assert_array_equal(one, other)
