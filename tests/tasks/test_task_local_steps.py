"""Local steps: intercept, centring, public row norms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from tacit.errors import InvalidInput
from tacit.tasks import TaskSet

finite = {
    np.float64: st.floats(-1e200, 1e200),
    np.float32: st.floats(-(2.0**100), 2.0**100, width=32),
}
matrices = st.sampled_from([np.float64, np.float32]).flatmap(
    lambda kind: npst.arrays(
        kind, st.tuples(st.integers(1, 6), st.integers(1, 5)), elements=finite[kind]
    )
)


def true_norms(X):
    """Norms in extended precision and range, as exact as the question needs."""
    return np.sqrt((X.astype(np.longdouble) ** 2).sum(axis=1))


@given(matrices, st.sampled_from([1.0, 0.3, 7.0]))
def test_clipped_rows_never_exceed_the_norm_and_short_rows_are_untouched(X, norm):
    clipped = TaskSet.from_arrays(X).clipped_rows(norm).X
    assert clipped.dtype == X.dtype
    assert np.all(true_norms(clipped) <= norm)
    short = true_norms(X) < norm * (1 - 1e-6)
    np.testing.assert_array_equal(clipped[short], X[short])


@given(matrices)
def test_clipping_twice_is_clipping_once(X):
    once = TaskSet.from_arrays(X).clipped_rows()
    np.testing.assert_array_equal(once.clipped_rows().X, once.X)


@given(
    npst.arrays(
        np.float64,
        st.tuples(st.integers(1, 6), st.integers(1, 5)),
        elements=st.one_of(st.just(0.0), st.floats(1e-200, 1e200), st.floats(-1e200, -1e-200)),
    )
)
def test_normalised_rows_have_the_norm_and_zero_rows_stay_zero(X):
    normalised = TaskSet.from_arrays(X).normalised_rows(2.0).X
    norms = true_norms(normalised)
    zero = ~X.any(axis=1)
    assert np.all(norms <= 2.0)
    np.testing.assert_allclose(norms[~zero].astype(float), 2.0, rtol=1e-13)
    assert not normalised[zero].any()


@pytest.mark.parametrize("norm", [0.0, -1.0, float("nan"), float("inf"), "1"])
def test_a_norm_that_is_no_positive_number_is_refused(norm):
    tasks = TaskSet.from_arrays(np.ones((2, 2)))
    for step in (tasks.normalised_rows, tasks.clipped_rows):
        with pytest.raises(InvalidInput, match="norm="):
            step(norm)


def test_the_intercept_is_a_named_constant_column():
    tasks = TaskSet.from_arrays(np.zeros((2, 1)), feature_names=["age"]).with_intercept(0.5)
    assert tasks.feature_names == ("age", "intercept")
    np.testing.assert_array_equal(tasks.X, [[0.0, 0.5], [0.0, 0.5]])
    with pytest.raises(InvalidInput, match="'intercept'"):
        tasks.with_intercept()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_centring_removes_task_means_and_gives_the_intercept_back(dtype):
    random = np.random.default_rng(0)
    labels = random.integers(0, 5, 200)
    offset = np.arange(5)[labels, None]
    X = (random.normal(size=(200, 3)) + offset).astype(dtype)
    W, b = random.normal(size=(5, 3)), random.normal(size=5)
    y = np.einsum("ij,ij->i", X, W[labels]) + b[labels]
    centred, centring = TaskSet.from_arrays(X, y, labels).centred()
    assert centred.X.dtype == dtype
    np.testing.assert_allclose(centred.task_sums(centred.X), 0, atol=1e-3)
    np.testing.assert_allclose(centred.task_sums(centred.y), 0, atol=1e-9)
    np.testing.assert_allclose(centring.intercept(W), b, atol=1e-9)
    with pytest.raises(InvalidInput, match=r"shape \(5, 2\)"):
        centring.intercept(W[:, :2])


def test_centring_without_targets_has_no_intercept():
    _, centring = TaskSet.from_arrays(np.ones((2, 1))).centred()
    with pytest.raises(InvalidInput, match="no target"):
        centring.intercept(np.ones((1, 1)))
