"""The fused sum of clipped messages: the bits of clipping, then adding."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import InvalidInput
from tacit.privacy import clipped_sums
from tacit.privacy.bounds import VectorClip
from tacit.privacy.clipped_sums import ClippedSum, clipped_sum


@pytest.fixture(params=[False, True], ids=["numpy", "compiled"], autouse=True)
def passes(request, monkeypatch):
    """Take messages of any length by one of the two ways."""
    monkeypatch.setattr(clipped_sums, "_COMPILED", range(10**9 if request.param else 0))


def messages(seed, scale, b=5):
    rng = np.random.default_rng(seed)
    parts = [(b, 3, 4), (b, 7), (b, 1)]
    return [(scale * rng.standard_normal(shape)).astype(np.float32) for shape in parts]


def flat(parts):
    return np.concatenate([part.reshape(len(part), -1) for part in parts], axis=1)


@given(
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-30, 0.01, 0.2, 1.0, 1e6, 1e37]),
    radius=st.sampled_from([0.3, 1.0, 2.0**40]),
)
def test_the_sum_is_that_of_clipped_messages(seed, scale, radius):
    parts = messages(seed, scale)
    bound = VectorClip(radius)
    got = np.concatenate([part.ravel() for part in clipped_sum(bound, parts)])
    expected = bound.aggregate(bound(flat(parts)))
    # The two take norms in another order, so a message may land one step (2⁻³⁰) apart.
    np.testing.assert_allclose(got, expected, rtol=0, atol=5 * 2.0**-29 * radius)


@given(seed=st.integers(0, 10_000), scale=st.sampled_from([0.2, 1.0, 1e6]))
def test_one_message_moves_the_sum_by_the_radius_at_most(seed, scale):
    parts = messages(seed, scale)
    without = [part[1:] for part in parts]
    bound = VectorClip(0.7)
    both = zip(clipped_sum(bound, parts), clipped_sum(bound, without), strict=True)
    moved = [total - rest for total, rest in both]
    exact = sum(int(v * 2.0**60) ** 2 for part in moved for v in part.ravel())
    assert exact <= int(0.7 * 2.0**60) ** 2


def test_sums_of_parcels_add_up_exactly_in_any_order():
    parts = messages(1, 3.0, b=9)
    bound = VectorClip(1.0)
    whole = clipped_sum(bound, parts)
    cut = [clipped_sum(bound, [part[rows] for part in parts]) for rows in (slice(5, 9), slice(5))]
    for total, first, second in zip(whole, *cut, strict=True):
        np.testing.assert_array_equal(total, first + second)


@pytest.mark.parametrize("radius", [1.0, 0.3, np.inf])
def test_earlier_sums_are_added_to_in_place(radius):
    parts = messages(1, 3.0, b=9)
    bound = VectorClip(radius)
    sums = clipped_sum(bound, [part[:4] for part in parts])
    again = clipped_sum(bound, [part[4:] for part in parts], into=sums)
    for total, same, whole in zip(sums, again, clipped_sum(bound, parts), strict=True):
        assert same is total
        exact = radius < np.inf
        np.testing.assert_allclose(total, whole, rtol=0 if exact else 1e-12, atol=0)


def test_messages_of_several_threads_add_up_to_the_sum_of_all():
    parts, bound = messages(1, 3.0, b=60), VectorClip(1.0)
    total = ClippedSum(bound, [part.shape[1:] for part in parts])
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda i: total.add([part[i : i + 1] for part in parts]), range(40)))
    rest = ClippedSum(bound, [part.shape[1:] for part in parts])
    rest.add([part[40:] for part in parts])
    total.merge(rest.parts, rest.count)
    assert total.count == 60
    whole = clipped_sum(bound, parts)
    np.testing.assert_array_equal(total.value, np.concatenate([part.ravel() for part in whole]))
    assert all(np.shares_memory(part, total.value) for part in total.parts)
    total.clear()
    assert not total.value.any()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda sums: sums[:2],
        lambda sums: [*sums[:2], np.zeros(2)],
        lambda sums: [*sums[:2], sums[2].astype(np.float32)],
        lambda sums: [np.zeros((4, 3)).T, *sums[1:]],
    ],
)
def test_sums_that_do_not_fit_are_refused_and_not_touched(wrong):
    parts = messages(1, 3.0)
    sums = wrong([np.zeros(part.shape[1:]) for part in parts])
    with pytest.raises(InvalidInput, match="into: must be contiguous float64"):
        clipped_sum(VectorClip(1.0), parts, into=sums)
    assert not any(total.any() for total in sums)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("radius", [1.0, np.inf])
def test_a_message_that_is_not_finite_counts_as_zero(bad, radius):
    parts = messages(0, 1.0)
    others = [np.delete(part, 3, axis=0) for part in parts]
    parts[1][3, 2] = bad
    bound = VectorClip(radius)
    got, expected = clipped_sum(bound, parts), clipped_sum(bound, others)
    for total, rest in zip(got, expected, strict=True):
        np.testing.assert_array_equal(total, rest)


def test_a_bound_takes_float32_messages_this_way():
    message = messages(2, 3.0)[0]
    expected = clipped_sum(VectorClip(1.0), [message])[0]
    np.testing.assert_array_equal(VectorClip(1.0).total(message), expected)
    wide = VectorClip(1.0).total(message.astype(float))
    np.testing.assert_allclose(wide, expected, rtol=0, atol=5 * 2.0**-29)


def test_both_ways_add_up_to_the_same_and_their_length_chooses(monkeypatch):
    monkeypatch.undo()
    assert clipped_sums._passes(10)[0] is clipped_sums._square
    assert clipped_sums._passes(50_000)[0] is not clipped_sums._square
    assert clipped_sums._passes(2_000_000)[0] is clipped_sums._square
    rng = np.random.default_rng(0)
    part = rng.standard_normal((4, 50_000)).astype(np.float32)
    part[1] *= 1e-4  # not clipped: the same bits
    bound = VectorClip(1.0)
    compiled = clipped_sum(bound, [part])[0]
    only = clipped_sum(bound, [part[1:2]])[0]
    monkeypatch.setattr(clipped_sums, "_COMPILED", range(0))
    np.testing.assert_allclose(clipped_sum(bound, [part])[0], compiled, rtol=0, atol=4 * 2.0**-29)
    np.testing.assert_array_equal(clipped_sum(bound, [part[1:2]])[0], only)


def test_only_float32_parts_of_equal_length_are_taken():
    parts = messages(0, 1.0)
    for wrong in ([], [parts[0], parts[1][:2]], [parts[0].astype(float)]):
        with pytest.raises(InvalidInput, match="float32"):
            clipped_sum(VectorClip(1.0), wrong)
