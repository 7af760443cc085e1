"""The bit attack: with the releases frozen, nothing of one task reaches a bit of another's result.

Not "nearly equal": a last bit that moves with another task's number of rows is a way past the
billboard, and whoever holds a candidate for those rows can read it.
"""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tacit
from tacit.privacy.bounds import VectorClip

VICTIM = 3
WIDE, NARROW = 24, 3


def _data(classify, d, *, changed=False, seed=0, dtype=np.float64):
    """Return eleven tasks of unequal size; changed, the victim has other rows, and more of them."""
    rng = np.random.default_rng(seed)
    sizes = [19, 5, 31, 17, 40, 26, 33, 12, 60, 1, 47]
    W = rng.normal(size=(len(sizes), 2)) @ rng.normal(size=(2, d)) + rng.normal(size=d)
    parts = []
    for task, size in enumerate(sizes):
        X = rng.normal(size=(size, d))
        parts.append((X, X @ W[task] + rng.normal(size=size) + task))
    if changed:
        size = 77
        parts[VICTIM] = (50 * rng.normal(size=(size, d)) + 3, 1e3 * rng.normal(size=size))
    X = np.concatenate([rows for rows, _ in parts]).astype(dtype)
    y = np.concatenate([targets for _, targets in parts])
    labels = np.repeat(np.arange(len(sizes)), [len(rows) for rows, _ in parts])
    return X, (y > np.median(y)).astype(int) if classify else y, labels


def _classifies(name):
    return name.endswith("Classifier")


def _others_equal(before, after):
    others = [task != VICTIM for task in before.task_names_]
    np.testing.assert_array_equal(after.coef_[others], before.coef_[others])
    np.testing.assert_array_equal(after.intercept_[others], before.intercept_[others])


def _same_labels(data, other):
    """Give the rows that both data sets share the same labels: only the victim may differ."""
    X, y, labels = data
    changed_X, changed_y, changed_labels = other
    changed_y = changed_y.copy()
    for task in set(labels) - {VICTIM}:
        changed_y[changed_labels == task] = y[labels == task]
    return changed_X, changed_y, changed_labels


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("d", [WIDE, NARROW])
def test_no_bit_of_others_moves_when_a_task_has_other_rows_and_more_of_them(
    private, parameters, d, threads, fit, monkeypatch
):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    classify = _classifies(private)
    plain = _data(classify, d)
    with threadpool_limits(threads, user_api="blas"):
        before = fit(private, parameters, plain)
        releases = [posting.value for posting in before.billboard_]
        changed = _same_labels(plain, _data(classify, d, changed=True))
        _others_equal(before, fit(private, parameters, changed, releases))


@pytest.mark.parametrize("name", ["SharedPriorRegressor", "AveragedClassifier", "LowRankRegressor"])
def test_no_bit_of_others_moves_in_single_precision(name, fit):
    plain = _data(_classifies(name), WIDE, dtype=np.float32)
    before = fit(name, {}, plain)
    releases = [posting.value for posting in before.billboard_]
    changed = _data(_classifies(name), WIDE, changed=True, dtype=np.float32)
    _others_equal(before, fit(name, {}, _same_labels(plain, changed), releases))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("d", [1, NARROW, WIDE, 60])
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


def test_a_bit_of_another_does_not_depend_on_how_long_the_longest_task_is(fit):
    parameters = {"update": "proximal", "n_rounds": 2}
    rng = np.random.default_rng(1)
    m, d = 5_100, 20  # so many that gradients are compiled
    labels = np.repeat(np.arange(m), 3)
    X, y = rng.normal(size=(len(labels), d)), rng.normal(size=len(labels))
    before = fit("LowRankRegressor", parameters, (X, y, labels))
    releases = [posting.value for posting in before.billboard_]
    longer = 9_000
    X = np.concatenate([X, rng.normal(size=(longer, d))])
    y = np.concatenate([y, rng.normal(size=longer)])
    after = fit(
        "LowRankRegressor", parameters, (X, y, np.append(labels, np.full(longer, VICTIM))), releases
    )
    _others_equal(before, after)


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


def test_what_is_done_to_a_message_does_not_depend_on_the_other_messages():
    messages = np.random.default_rng(0).normal(size=(50, 7))
    messages[0] = 2.0**500
    together = VectorClip(0.1)(messages)
    for number, message in enumerate(messages):
        np.testing.assert_array_equal(VectorClip(0.1)(message[None])[0], together[number])
