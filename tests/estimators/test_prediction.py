"""A row's score is its own and its model's affair, whoever else is answered with it."""

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.estimators import _prediction
from tacit.estimators._prediction import linear_scores, positions_of


@pytest.mark.parametrize("kinds", [("f8", "f8"), ("f4", "f8"), ("f4", "f4")])
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_row_is_answered_alike_alone_and_among_others(kinds, outputs, monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((700, 13)).astype(kinds[0])
    coef = rng.standard_normal((9, outputs, 13)).astype(kinds[1])
    level, index = rng.standard_normal((9, outputs)), rng.integers(-1, 9, 700)
    whole = linear_scores(rows, index, coef, level)
    expected = np.einsum("nd,nkd->nk", rows.astype("f8"), coef[index].astype("f8")) + level[index]
    # A sum of 13 products of about 1, some of which cancel.
    assert np.allclose(whole, expected, rtol=0, atol=1e-5 if kinds == ("f4", "f4") else 1e-12)
    monkeypatch.setattr(_prediction, "_CHUNK", 13 * outputs * 7)
    assert np.array_equal(linear_scores(rows, index, coef, level), whole)
    order = rng.permutation(700)
    assert np.array_equal(linear_scores(rows[order], index[order], coef, level), whole[order])
    for task in range(9):
        own = np.flatnonzero(index == task)[:3]
        alone = linear_scores(rows[own], np.zeros(len(own), int), coef[[task]], level[[task]])
        assert np.array_equal(alone, whole[own])


@pytest.mark.parametrize(
    ("labels", "names", "places"),
    [
        (np.array([5, 5, 3, 9, 4]), (3, 4, 5), [2, 2, 0, -1, 1]),
        (np.array([5, 250, 3], dtype=np.uint8), (3, 4, 300), [-1, -1, 0]),
        (np.array([2**64 - 1, 3], dtype=np.uint64), (-1, 3), [-1, 1]),
        (np.array([1, 10**12]), (1, 10**12), [0, 1]),
        (np.array([1, 2]), (1.0, 2.5), [0, -1]),
        (np.array([1, 2]), (2**70, 2), [-1, 1]),
        (np.array([1, 0]), ("1", 0), [-1, 1]),
        (np.array(["b", "b", "a"]), ("a", "b"), [1, 1, 0]),
        ([("a", 1), ("b", 2)], (("b", 2), ("a", 1)), [1, 0]),
        (np.array([], dtype=int), (1, 2), []),
    ],
)
def test_labels_are_found_among_names_of_any_kind(labels, names, places):
    assert positions_of(labels, names).tolist() == places


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_is_refused_though_its_coefficient_is_zero(bad):
    X, task = np.ones((6, 2)), np.repeat(["a", "b"], 3)
    model = tacit.SingleTaskRegressor(alpha=1.0).fit(X, np.arange(6.0), tasks=task)
    model.coef_ = np.zeros_like(model.coef_)
    X[4, 1] = bad
    with pytest.raises(InvalidInput, match=r"column 1.*row 4"):
        model.predict(X, tasks=task)
