"""Bounds against random, extreme and adversarial messages, in exact arithmetic where it matters."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tacit.errors import InvalidInput
from tacit.privacy import (
    Adjacency,
    NonNegativeClip,
    Norm,
    RowClip,
    RowGradientClip,
    RowNormalise,
    SecondMoment,
    Unit,
    VectorClip,
    VectorNormalise,
    _steps,
)

VECTOR_BOUNDS = [VectorClip, VectorNormalise, RowClip, RowNormalise, RowGradientClip]
SINGLE = [Adjacency.ADD_OR_REMOVE, Adjacency.ZERO_OUT]
finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
radii = st.floats(min_value=1e-20, max_value=1e20)


def exact_squared_norm(message) -> Fraction:
    return sum((Fraction(float(x)) ** 2 for x in np.ravel(message)), Fraction(0))


@pytest.mark.parametrize("kind", VECTOR_BOUNDS)
@settings(max_examples=60, deadline=None)
@given(
    messages=hnp.arrays(
        np.float64, hnp.array_shapes(min_dims=2, max_dims=3, max_side=6), elements=finite
    ),
    radius=radii,
)
def test_the_norm_is_within_the_radius_in_exact_arithmetic(kind, messages, radius):
    bounded = kind(radius)(messages)
    assert bounded.shape == messages.shape
    for message in bounded:
        assert exact_squared_norm(message) <= Fraction(radius) ** 2


@settings(max_examples=60, deadline=None)
@given(
    messages=hnp.arrays(
        np.float64,
        hnp.array_shapes(min_dims=2, max_dims=2, max_side=8),
        elements=st.floats(-1e6, 1e6),
    ),
    radius=st.floats(1e-3, 1e3),
)
def test_clipping_keeps_direction_and_leaves_short_messages(messages, radius):
    bounded = VectorClip(radius)(messages)
    lengths = np.linalg.norm(messages, axis=1)
    expected = messages * np.minimum(1, radius / np.maximum(lengths, 1e-300))[:, None]
    np.testing.assert_allclose(bounded, expected, rtol=1e-12, atol=radius * 2.0**-28)


def test_normalising_moves_short_messages_out_and_leaves_zero():
    bounded = VectorNormalise(2.0)(np.array([[1e-5, 0.0], [0.0, 0.0], [30.0, 40.0]]))
    np.testing.assert_allclose(bounded, [[2, 0], [0, 0], [1.2, 1.6]], atol=1e-8)


def test_the_vectors_of_a_message_are_clipped_jointly():
    message = np.ones((1, 4, 25))
    assert np.linalg.norm(VectorClip(1.0)(message)) == pytest.approx(1.0)


def test_sums_of_bounded_messages_are_exact_in_any_order():
    messages = VectorClip(0.7)(np.random.default_rng(0).normal(size=(20_000, 5)))
    exact = [sum(map(Fraction, column.tolist())) for column in messages.T]
    assert [Fraction(x) for x in VectorClip(0.7).aggregate(messages)] == exact
    shuffled = messages[np.random.default_rng(1).permutation(20_000)]
    assert np.array_equal(np.cumsum(shuffled, axis=0)[-1], messages.sum(axis=0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("bound", [VectorClip(1.0), VectorNormalise(), SecondMoment(1.0)])
def test_a_message_that_is_not_finite_counts_as_zero_and_changes_no_other(bound, bad):
    messages = np.random.default_rng(0).normal(size=(3, 2))
    silent = messages.copy()
    messages[1, 0], silent[1] = bad, 0.0
    assert np.array_equal(bound(messages), bound(silent))
    assert np.array_equal(bound.aggregate(bound(messages)), bound.aggregate(bound(silent)))


@pytest.mark.parametrize("bound", [VectorClip(1.0), VectorNormalise(1.0)])
def test_a_message_is_bounded_alike_alone_among_others_and_in_any_layout(bound, monkeypatch):
    rng = np.random.default_rng(0)
    messages = rng.standard_normal((300, 11)) * 10.0 ** rng.integers(-2, 3, (300, 1))
    messages[::7] *= 1e250
    messages[1::7] *= 1e-250
    messages[2::7] = 0.0
    messages[3::7, 2] = np.nan
    whole = bound(messages)
    assert np.isfinite(whole).all()
    assert not whole[3::7].any()
    assert np.array_equal(bound(np.asfortranarray(messages)), whole)
    assert np.array_equal(np.concatenate([bound(messages[[i]]) for i in range(300)]), whole)
    monkeypatch.setattr(_steps, "_CACHED", 33)
    assert np.array_equal(bound(messages), whole)


@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, 1e-300, "1"])
def test_a_bad_radius_is_refused(radius):
    with pytest.raises(InvalidInput, match="radius="):
        VectorClip(radius)


def test_an_infinite_radius_changes_nothing_and_bounds_nothing():
    messages = np.array([[1e3, -2.0]])
    assert np.array_equal(VectorClip(math.inf)(messages), messages)
    assert VectorClip(math.inf).sensitivity(Norm.L2, Adjacency.REPLACE_ONE) == math.inf


def test_messages_need_a_unit_axis_and_numbers():
    with pytest.raises(InvalidInput, match="shape"):
        VectorClip(1.0)(np.zeros(3))
    with pytest.raises(InvalidInput, match="real numbers"):
        VectorClip(1.0)(np.array([["a"]]))


@pytest.mark.parametrize("kind", VECTOR_BOUNDS)
def test_vector_sensitivities_are_those_of_the_methods_page(kind):
    bound = kind(3.0)
    assert bound.sensitivity("l2", "replace-one") == pytest.approx(6.0, rel=2e-6)
    for adjacency in SINGLE:
        assert bound.sensitivity(Norm.FROBENIUS, adjacency) == pytest.approx(3.0, rel=2e-6)
    assert bound.sensitivity("l1", "zero-out", dimension=16) == pytest.approx(12.0, rel=2e-6)
    with pytest.raises(InvalidInput, match="dimension"):
        bound.sensitivity("l1", "replace-one")
    with pytest.raises(InvalidInput, match="trace"):
        bound.sensitivity("trace", "replace-one")


def test_second_moment_sensitivities_are_those_of_the_methods_page():
    K = 3.0
    for bound in (SecondMoment(K), SecondMoment(K, diagonal=True)):
        assert bound.sensitivity("l2", "replace-one") == pytest.approx(2**0.5 * K**2, rel=2e-6)
        assert bound.sensitivity("trace", "replace-one") == pytest.approx(2 * K**2, rel=2e-6)
        for adjacency in SINGLE:
            for norm in (Norm.L2, Norm.FROBENIUS, Norm.TRACE):
                assert bound.sensitivity(norm, adjacency) == pytest.approx(K**2, rel=2e-6)
    diagonal = SecondMoment(K, diagonal=True)
    assert diagonal.sensitivity("l1", "replace-one") == pytest.approx(2 * K**2, rel=2e-6)
    full = SecondMoment(K).sensitivity("l1", "zero-out", dimension=4)
    assert full == pytest.approx(4 * K**2, rel=2e-6)
    with pytest.raises(InvalidInput, match="dimension"):
        SecondMoment(K).sensitivity("l1", "zero-out")


def test_rows_are_the_unit_of_row_bounds():
    assert {kind(1.0).unit for kind in (RowClip, RowNormalise, RowGradientClip)} == {Unit.ROW}
    assert {kind(1.0).unit for kind in (VectorClip, VectorNormalise, SecondMoment)} == {Unit.TASK}


def test_a_moment_and_its_inner_bound_share_a_radius():
    with pytest.raises(InvalidInput, match="inner radius"):
        SecondMoment(2.0, inner=VectorNormalise(1.0))


@pytest.mark.parametrize("shape", [(700, 6), (300, 4, 6), (1, 6)])
def test_the_moment_is_the_sum_of_outer_products(shape):
    messages = np.random.default_rng(2).normal(size=shape)
    vectors = messages.reshape(-1, 6)
    np.testing.assert_allclose(
        SecondMoment(9.0).aggregate(messages), vectors.T @ vectors, rtol=1e-12, atol=1e-12
    )
    np.testing.assert_allclose(
        SecondMoment(9.0, diagonal=True).aggregate(messages), (vectors**2).sum(axis=0)
    )


def _norm_of(change, norm):
    if norm is Norm.TRACE:
        return np.linalg.norm(change, "nuc") if change.ndim == 2 else np.abs(change).sum()
    return np.abs(change).sum() if norm is Norm.L1 else np.linalg.norm(change)


def _adversarial_pairs(rng, shape, radius):
    """Yield pairs of one unit's messages that stretch a bound: opposite, orthogonal, huge, tiny."""
    for _ in range(40):
        one, other = rng.normal(size=(2, *shape)) * 10.0 ** rng.integers(-6, 7, size=(2, 1, 1))
        yield one, other
        yield one, -one
        axis = np.zeros(shape)
        axis[0, rng.integers(shape[1])] = radius * (1 + 1e-12)
        yield axis, -axis
        yield axis, np.roll(axis, 1, axis=1)
        # Just at the edge, where rounding would let a message out.
        edge = one / np.linalg.norm(one) * radius
        yield np.nextafter(edge, 2 * edge), -np.nextafter(edge, 2 * edge)


CASES = [
    (VectorClip(1.3), (Norm.L1, Norm.L2)),
    (VectorNormalise(0.7), (Norm.L1, Norm.L2)),
    (RowGradientClip(0.1), (Norm.L2,)),
    (SecondMoment(1.3), (Norm.L1, Norm.FROBENIUS, Norm.TRACE)),
    (SecondMoment(0.9, inner=VectorNormalise(0.9)), (Norm.FROBENIUS, Norm.TRACE)),
    (SecondMoment(1.3, diagonal=True), (Norm.L1, Norm.L2)),
]


@pytest.mark.parametrize(("bound", "norms"), CASES)
@pytest.mark.parametrize("outputs", [1, 3])
def test_no_pair_moves_the_aggregate_further_than_the_sensitivity(bound, norms, outputs):
    rng = np.random.default_rng(7)
    d = 5
    others = bound(rng.normal(size=(600, outputs, d)))
    reached = dict.fromkeys(norms, 0.0)
    for one, other in _adversarial_pairs(rng, (outputs, d), bound.radius):
        with_one = bound.aggregate(np.concatenate([others, bound(one[None])]))
        with_other = bound.aggregate(np.concatenate([others, bound(other[None])]))
        without = bound.aggregate(others)
        entries = d if isinstance(bound, SecondMoment) else d * outputs
        for norm in norms:
            replaced = _norm_of(with_one - with_other, norm)
            limit = bound.sensitivity(norm, Adjacency.REPLACE_ONE, dimension=entries)
            # The norm itself is computed in floats: 1e-13 is its error, not the bound's.
            assert replaced <= limit * (1 + 1e-13)
            reached[norm] = max(reached[norm], replaced / limit)
            added = _norm_of(with_one - without, norm)
            limit = bound.sensitivity(norm, Adjacency.ADD_OR_REMOVE, dimension=entries)
            assert added <= limit * (1 + 1e-13)
    # The search comes near the bounds it tests, or it would prove nothing.
    for norm in norms:
        assert reached[norm] > (0.35 if norm is Norm.L1 else 0.99)


@settings(max_examples=80, deadline=None)
@given(
    derivative=hnp.arrays(np.float64, (5, 2), elements=st.floats(-1e8, 1e8)),
    rows=hnp.arrays(np.float64, (5, 3), elements=st.floats(-1e8, 1e8)),
    radius=st.floats(1e-3, 1e3),
)
def test_gradients_of_linear_models_are_within_the_radius_and_add_up_exactly(
    derivative, rows, radius
):
    bound = RowGradientClip(radius)
    gradients = bound.of_linear(derivative, rows)
    for gradient in gradients:
        assert exact_squared_norm(gradient.ravel()) <= Fraction(radius) ** 2
    exact = [sum(map(Fraction, column.tolist())) for column in gradients.reshape(5, -1).T]
    assert [Fraction(x) for x in bound.aggregate(gradients).ravel()] == exact
    whole = derivative[:, :, None] * rows[:, None, :]
    short = np.linalg.norm(whole.reshape(5, -1), axis=1) <= radius * (1 - 1e-8)
    assert np.allclose(gradients[short], whole[short], rtol=0, atol=2.0**-28 * radius)


def test_gradients_of_several_outputs_are_clipped_jointly():
    gradients = RowGradientClip(1.0).of_linear(np.full((1, 4), 3.0), [[2.0]])
    assert np.linalg.norm(gradients) == pytest.approx(1.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_gradient_of_a_row_that_is_not_finite_is_zero(bad):
    gradients = RowGradientClip(1.0).of_linear([[bad], [0.5]], [[1.0, 0.0], [0.0, 1.0]])
    assert np.array_equal(gradients, [[[0.0, 0.0]], [[0.0, 0.5]]])


@given(
    hnp.arrays(np.float64, (2, 6), elements=st.floats(-1e9, 1e9)), st.sampled_from([0.3, 1.0, 40.0])
)
def test_non_negative_messages_are_nearer_to_each_other_than_any_two(messages, radius):
    bound = NonNegativeClip(radius)
    first, second = bound(messages)
    assert (first >= 0).all()
    assert np.linalg.norm(first) <= radius
    assert np.linalg.norm(first - second) <= bound.sensitivity("l2", "replace-one")
    assert bound.sensitivity("l2", "zero-out") == radius


def test_the_sensitivity_of_non_negative_messages_is_attained():
    bound = NonNegativeClip(1.0)
    moved = np.subtract(*bound(np.eye(2)))
    assert np.linalg.norm(moved) == pytest.approx(np.sqrt(2), rel=1e-8)
    assert bound.sensitivity("l2", "replace-one") == pytest.approx(np.sqrt(2), rel=1e-12)
    assert not bound(np.array([[np.nan, 1.0]])).any()
