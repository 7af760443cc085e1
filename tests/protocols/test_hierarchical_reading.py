"""Public readings of the hierarchical prior: what is in a release beside noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.privacy.bounds import VectorClip
from tacit.privacy.mechanisms.laws import Coordinates, Semicircle
from tacit.protocols._hierarchical_evidence import Comparisons, WholeGrid, asked
from tacit.protocols._hierarchical_home import centres
from tacit.protocols._hierarchical_plan import Loudness, compared, plan
from tacit.protocols._hierarchical_reading import (
    CENTRE_RADIUS,
    SPREAD_WEIGHT,
    MeanReading,
    cast_levels,
    cast_votes,
    kept_of,
    low_rank_shapes,
    read_centre,
    read_diagonal,
    read_level,
    read_spreads,
    read_votes,
    shaped_mean,
    sparse_mean,
    sparse_shapes,
)
from tacit.protocols._shrinkage import shrink_spectrum
from tacit.tasks import TaskSet


def _plan(noise=0.1, **changes):
    """Return the plan at which a mean of nine numbers has noise of that norm."""
    asked = {"n_tasks": 50, "n_features": 8, "loss": "squared", "intercept": True} | changes
    return plan(Loudness(noise / 3), **asked)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=2, max_size=2))
def test_a_replaced_vote_moves_the_count_by_at_most_root_two(values):
    first, second = cast_votes(np.array(values))
    assert (first >= 0).all()
    assert np.linalg.norm(first - second) <= math.sqrt(2) * (1 + 1e-12)


def test_the_bound_on_votes_is_attained():
    first, second = cast_votes(np.array([2.0**-16, 2.0**16]))
    assert np.linalg.norm(first - second) == pytest.approx(math.sqrt(2), abs=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1.0, 37.0])
def test_votes_find_the_size_most_tasks_agree_on(size):
    rng = np.random.default_rng(0)
    counts = cast_votes(size * np.exp(0.5 * rng.normal(size=100))).sum(axis=0)
    found = read_votes(counts + 8 * rng.normal(size=33), 8.0)
    assert found == pytest.approx(size, rel=0.7)


def test_noise_alone_is_taken_for_a_size_less_than_once_in_eight():
    rng = np.random.default_rng(1)
    found = [read_votes(rng.normal(size=33), 1.0) for _ in range(2000)]
    # 250 of 2000 would be one in eight; about 140 are expected.
    assert sum(value is not None for value in found) < 250


def test_where_a_size_is_usual_there_is_always_one():
    far = cast_votes(np.full(50, 1024.0)).sum(axis=0)
    assert read_votes(far, 1.0, usual=1.0, n_tasks=50) == pytest.approx(1024.0, rel=0.1)
    noisy = read_votes(far, 200.0, usual=1.0, n_tasks=50)
    assert noisy is not None
    assert noisy < 2.0
    nothing = np.zeros(33)
    assert read_votes(nothing, 1.0) is None
    assert read_votes(nothing, 1.0, usual=4.0) == pytest.approx(4.0)


def test_noisy_spreads_are_equal_and_clear_ones_are_kept():
    rng = np.random.default_rng(2)
    truth = np.array([4.0, 1.0, 1.0, 1.0, 0.9, 1.1])
    unit = truth / np.linalg.norm(truth)
    total = SPREAD_WEIGHT * 100 * unit
    clear = read_spreads(total, 1e-3, 2.0, 100)
    np.testing.assert_allclose(clear / clear[1], np.sqrt(truth / truth[1]), rtol=1e-2)
    assert np.sqrt((clear**2).mean()) == pytest.approx(2.0)
    noisy = read_spreads(total + 80 * rng.normal(size=6), 200.0, 2.0, 100)
    np.testing.assert_allclose(noisy, 2.0)


def test_an_origin_that_noise_explains_is_zero():
    scale = np.array([1.0, 2.0, 0.5])
    centre = np.array([3.0, -4.0, 0.2]) / (2 * scale * math.sqrt(3))
    origin = read_centre(50 * centre, 1e-6, scale, 50)
    np.testing.assert_allclose(origin, [3.0, -4.0, 0.2], rtol=1e-6)
    assert not read_centre(50 * centre, 200.0, scale, 50).any()


def test_a_level_is_told_by_votes_or_not_at_all():
    rng = np.random.default_rng(4)
    levels = 0.7 + 0.05 * rng.normal(size=100)
    counts = cast_levels(levels).sum(axis=0)
    assert read_level(counts, 1e-6, 20.0) == pytest.approx(14.0, abs=0.5)
    # A mean of levels clipped to one, with noise of the same budget, is off by 2.3.
    told = [read_level(counts + 16 * rng.normal(size=33), 16.0, 20.0) for _ in range(50)]
    assert np.std(told) < 1.2
    assert read_level(np.zeros(33), 1.0, 20.0) == 0.0


def test_votes_on_levels_move_a_sum_by_the_root_of_two_at_most():
    levels = np.array([0.0, 0.7, -0.7, 9.0, -9.0, np.nan, np.inf])
    votes = cast_levels(levels)
    assert (votes >= 0).all()
    assert not votes[5:].any()
    apart = votes[:, None] - votes[None]
    assert np.sqrt((apart**2).sum(axis=2)).max() <= math.sqrt(2) * (1 + 1e-12)


def test_noise_alone_makes_no_mean():
    rng = np.random.default_rng(5)
    found = [sparse_mean(rng.normal(size=50), 1.0) for _ in range(100)]
    assert sum(values.any() for values in found) <= 10


def test_score_rounds_without_noise_find_where_the_scores_vanish():
    rng = np.random.default_rng(3)
    target, root = rng.normal(size=9), np.r_[np.full(8, 0.5), 1.0]
    pull = np.linspace(0.3, 1.0, 9)
    design = _plan(noise=0.0)
    reading = MeanReading.at(np.zeros(9))
    for _ in range(design.n_scores):
        scores = 100 * pull * (target - reading.mean) / root
        reading = reading.after(scores, 0.0, root, 100, design, 8)
    np.testing.assert_allclose(reading.mean, target, atol=0.05)
    settled, noise = reading.settled(0.0, root, 100, design, 8)
    np.testing.assert_allclose(settled, reading.mean)
    assert noise == 0


def test_a_mean_that_is_all_noise_is_nearly_all_shrunk_away():
    rng = np.random.default_rng(4)
    design, root, kept = _plan(noise=0.3), np.ones(9), []
    for _ in range(200):
        reading = MeanReading.at(np.zeros(9))
        for _ in range(design.n_scores):
            pulled = -0.5 / design.step * reading.mean
            noise = 2.0 * rng.normal(size=9)
            reading = reading.after(100 * (pulled + noise), 200.0, root, 100, design, 8)
        mean, _ = reading.settled(200.0, root, 100, design, 8)
        kept.append(0.0 if mean is None else np.linalg.norm(mean) / np.linalg.norm(reading.mean))
    # Positive-part James–Stein keeps about 2/p = 0.22 of pure noise on average.
    assert np.mean(kept) < 0.35
    assert np.mean(np.array(kept) == 0) > 0.25


def _walked(pull, noise, rng, *, level=0.0, size=40):
    """Return a reading of labels whose slopes have no mean, pulled back by ``pull``."""
    design, root = _plan(noise=0.1, loss="logistic"), np.ones(size + 1)
    reading, target = MeanReading.at(np.zeros(size + 1)), np.r_[np.zeros(size), level]
    for _ in range(design.n_scores):
        scores = pull * (target - reading.mean) + noise * rng.normal(size=size + 1)
        reading = reading.after(100 * scores, 100 * noise, root, 100, design, size)
    return reading, root, design


def test_a_level_far_off_does_not_carry_noise_into_the_slopes():
    """Rare labels: the level moves by six, tasks know next to nothing of slopes."""
    reading, root, design = _walked(0.1, 0.15, np.random.default_rng(40), level=-6.0)
    assert np.linalg.norm(reading.mean[:-1]) > 0.8
    mean, _ = reading.settled(15.0, root, 100, design, 40)
    # Shrunk as one with the level nearly all of it would be kept.
    assert np.linalg.norm(mean[:-1]) < 0.4 * np.linalg.norm(reading.mean[:-1])
    assert mean[-1] < 0.9 * reading.mean[-1]


@pytest.mark.parametrize("pull", [0.06, 0.15, 0.4])
def test_noise_left_in_the_mean_of_labels_is_read_off_the_scores(pull):
    rng, told, true = np.random.default_rng(41), [], []
    for _ in range(30):
        reading, root, design = _walked(pull, 0.15, rng)
        told.append(reading.settled(15.0, root, 100, design, 40)[1] / design.shorten)
        true.append(np.sqrt(np.mean(reading.mean[:-1] ** 2)))
    assert np.mean(told) == pytest.approx(np.mean(true), rel=0.4)


def _scored(pull, noise, rng, target, *, loudness=0.01, loss="logistic"):
    """Return score rounds that take back ``pull`` of an error in slopes, and their plan."""
    design, size = _plan(noise=loudness, loss=loss), target.size - 1
    reading, root = MeanReading.at(np.zeros(size + 1)), np.ones(size + 1)
    for _ in range(design.n_scores):
        scores = pull * (target - reading.mean) + noise * rng.normal(size=size + 1)
        reading = reading.after(100 * scores, 100 * noise, root, 100, design, size)
    return reading, design


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("pull", [0.03, 0.1, 0.5])
def test_tasks_of_a_few_rows_find_their_mean_too(pull, loss):
    """Steps of one length would leave three quarters where tasks know next to nothing."""
    target = np.r_[np.random.default_rng(43).normal(size=40), 0.0]
    reading, _ = _scored(pull, 0.001, np.random.default_rng(44), target, loss=loss)
    assert np.linalg.norm(reading.mean - target) < 0.15 * np.linalg.norm(target)


def test_labels_steps_are_no_longer_than_their_noise_allows():
    rng, target = np.random.default_rng(45), np.zeros(41)
    for noise in (0.05, 0.5):
        reading, design = _scored(0.03, noise, rng, target, loudness=0.3)
        step = reading.steps[-1][0]
        assert design.step <= step
        assert step == design.step or step * noise / math.sqrt(design.n_scores) < 0.11


def test_numbers_of_many_rows_keep_the_usual_steps():
    target = np.random.default_rng(48).normal(size=41)
    for pull in (0.3, 0.6):
        reading, design = _scored(pull, 0.01, np.random.default_rng(49), target, loss="squared")
        assert all((steps == design.step).all() for steps in reading.steps)


def test_a_level_keeps_its_step():
    reading, design = _scored(0.03, 0.001, np.random.default_rng(46), np.zeros(41))
    assert reading.steps[-1][0] > 5 * design.step
    assert {steps[-1] for steps in reading.steps} == {design.step}


def test_the_mean_of_labels_is_shortened_by_what_a_wide_prior_adds():
    narrow, wide = _plan(noise=0.3, loss="logistic"), _plan(noise=0.01, loss="logistic")
    assert narrow.shorten == 1.0
    assert _plan(noise=0.01).shorten == 1.0  # numbers
    target = np.r_[np.full(40, 0.5), -3.0]
    reading, _ = _scored(0.3, 1e-9, np.random.default_rng(47), target)
    mean, _ = reading.settled(1e-7, np.ones(41), 100, wide, 40)
    np.testing.assert_allclose(mean[:-1], wide.shorten * reading.mean[:-1], rtol=1e-6)
    assert mean[-1] == pytest.approx(reading.mean[-1])
    assert wide.shorten == pytest.approx(math.sqrt((1 + 0.346 * 2) / (1 + 0.346 * 10)), rel=1e-3)


def test_a_sparse_mean_keeps_the_few_and_an_even_one_all():
    rng = np.random.default_rng(42)
    few = np.r_[6.0, -5.0, np.zeros(28)]
    seen = few + rng.normal(size=30)
    found = sparse_mean(seen, 1.0)
    size = seen @ seen
    stein = seen * (1 - 28 / size)
    assert np.sum((found - few) ** 2) < 0.6 * np.sum((stein - few) ** 2)
    even = 3 * rng.normal(size=30)
    seen = even + rng.normal(size=30)
    stein = seen * (1 - 28 / (seen @ seen))
    assert np.sum((sparse_mean(seen, 1.0) - even) ** 2) < 1.1 * np.sum((stein - even) ** 2)
    np.testing.assert_array_equal(sparse_mean(seen, 0.0), seen)


def test_a_low_rank_and_a_sparse_moment_show_their_shapes():
    rng = np.random.default_rng(6)
    noise = Semicircle.of_gaussian(1.0, 12)
    for basis in (rng.normal(size=(2, 12)), np.eye(12)[:2]):
        rows = rng.normal(size=(300, 2)) @ basis
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        moment = rows.T @ rows
        rank = shrink_spectrum(moment, noise, trace=300.0, n_tasks=300)
        diagonal = read_diagonal(np.diag(moment).copy(), Coordinates(1.0), 300)
        shapes = low_rank_shapes(rank) + sparse_shapes(diagonal)
        assert len(shapes) >= 3
        covariance = shapes[2] @ shapes[2].T
        inside = np.trace(np.linalg.pinv(basis) @ basis @ covariance) / np.trace(covariance)
        assert inside > 0.95


def test_an_even_moment_shows_no_shape():
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(300, 12))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    moment = rows.T @ rows
    noise = Semicircle.of_gaussian(10.0, 12)
    rank = shrink_spectrum(moment, noise, trace=300.0, n_tasks=300)
    diagonal = read_diagonal(np.diag(moment).copy(), Coordinates(10.0), 300)
    assert low_rank_shapes(rank) + sparse_shapes(diagonal) == ()


def test_reach_is_how_far_one_more_score_in_every_round_moves_the_mean():
    """The tasks' mean score is 0.3·(target − place), and one task's 0.01 is added to it or not."""
    design, root = _plan(), np.full(9, 2.0)
    target, more = np.linspace(-1, 1, 9), 0.01
    ends = []
    for added in (0.0, more):
        reading = MeanReading.at(np.zeros(9))
        for _ in range(design.n_scores):
            score = 0.3 * (target - reading.mean / root) + added
            reading = reading.after(100 * score, 0.0, root, 100, design, 8)
        ends.append(reading.mean)
    assert design.pull == 0.3
    moved = reading.reach(0.0, root, 100, design, 8) * root * more
    np.testing.assert_allclose(ends[1] - ends[0], moved, rtol=0.1)


def test_what_was_kept_is_a_part_of_the_slopes_and_one_of_the_level():
    moved = np.array([1.0, -2.0, 4.0])
    kept = kept_of(np.array([0.5, -1.0, 1.0]), moved, 2)
    np.testing.assert_allclose(kept, [0.5, 0.5, 0.25])
    assert not kept_of(np.zeros(3), moved, 2).any()
    assert not kept_of(np.ones(3), np.zeros(3), 2).any()


def test_the_plan_leaves_out_what_cannot_be_seen_or_is_not_there():
    assert _plan(0.05).moment
    assert not _plan(0.15, n_features=30).moment
    assert not _plan(0.05, pattern="mean").moment
    for pattern in ("any", "low-rank", "related"):
        assert _plan(0.0, n_tasks=8, pattern=pattern).moment
        assert not _plan(0.0, n_tasks=7, pattern=pattern).moment
    assert _plan(0.0, n_tasks=4, pattern="group-sparse").moment
    names = [name for name, _ in _plan(loss="logistic").shares]
    assert "magnitude" not in names
    assert "centre" in names
    names = [name for name, _ in _plan(intercept=False).shares]
    assert not {"magnitude", "centre"} & set(names)


def test_where_no_vote_could_stand_out_nothing_is_asked():
    assert _plan(0.17).shares
    assert not _plan(0.2).shares
    for noise in (0.17, 0.1, 0.03, 0.01, 1e-3, 0.0):  # once open, open at every lower noise
        assert _plan(noise).shares
    loud = {"n_features": 8, "loss": "squared", "intercept": True}
    assert plan(Loudness(0.001, pure=True), **loud).shares
    assert not plan(Loudness(0.1, pure=True), **loud).shares


def test_votes_take_a_smaller_share_as_noise_falls():
    shares = [dict(_plan(noise=noise).shares)["length"] for noise in (0.17, 0.1, 0.01)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] == pytest.approx(0.105)


def test_where_tasks_never_differ_noise_is_not_taken_for_a_mean():
    rng = np.random.default_rng(8)
    root = np.diag(np.sqrt([10.0, 10.0, *[0.01] * 18]))
    shift = np.array([3.0, -2.0, *[0.0] * 18])
    moved = shift + 0.5 * rng.normal(size=20)
    found = shaped_mean(moved, 0.5, root)
    assert np.linalg.norm(found[:2] - shift[:2]) < 1.2
    assert np.linalg.norm(found[2:]) < 0.2 * np.linalg.norm(moved[2:])


def test_without_noise_a_mean_stays_what_it_is():
    moved = np.array([3.0, -2.0, 0.1])
    np.testing.assert_allclose(shaped_mean(moved, 0.0, np.eye(3)), moved, rtol=1e-6)


def test_a_mean_that_noise_explains_is_none():
    moved = 0.3 * np.random.default_rng(9).normal(size=40)
    assert np.linalg.norm(shaped_mean(moved, 0.5, np.eye(40))) < 0.1 * np.linalg.norm(moved)


def test_patterns_look_for_their_own_shapes_only():
    asked = {"n_tasks": 50, "loss": "squared", "intercept": True}
    shapes = {
        pattern: compared(_plan(0.02), Loudness(0.01), pattern=pattern, **asked).n_shapes
        for pattern in ("any", "low-rank", "group-sparse")
    }
    assert shapes == {"any": 6, "low-rank": 4, "group-sparse": 3}
    assert _plan(0.02, pattern="group-sparse").moment
    assert not _plan(0.02, pattern="any", n_features=3).moment
    names = dict(_plan(1e-4, pattern="related", n_tasks=50).shares)
    assert "own models" in names
    assert "own models" not in dict(_plan(0.1, pattern="related", n_tasks=50).shares)
    assert "own models" not in dict(_plan(1e-4, pattern="any", n_tasks=50).shares)


def test_an_origin_may_lie_far_off_where_noise_is_low_enough_to_tell_it():
    """Rows eight deviations from zero: cut short at two, slopes would speak for the level."""
    assert _plan(0.1, n_tasks=1000).centre == 2.0
    assert _plan(0.0).centre == 64.0
    assert 2.0 < _plan(1e-4).centre < 64.0
    mean, scale = np.full(8, 8.0), np.ones(8)
    tasks = TaskSet.from_arrays(np.tile(mean, (5, 1)), np.zeros(5), np.arange(5))
    for far, read in ((2.0, 2.0), (64.0, 8.0)):
        said = VectorClip(CENTRE_RADIUS)(centres(tasks, scale, far)).sum(axis=0)
        np.testing.assert_allclose(read_centre(said, 0.0, scale, 5, far), read, rtol=1e-3)


def test_the_whole_grid_is_asked_for_where_the_noise_of_few_tasks_is_below_a_nat():
    asking = {"n_slopes": 8, "n_levels": 4, "n_shapes": 1, "loss": "logistic"}
    assert isinstance(asked(**asking, noise=0.002, n_tasks=4), WholeGrid)
    assert isinstance(asked(**asking, noise=0.002, n_tasks=40), Comparisons)
    assert isinstance(asked(**asking, noise=0.0005, n_tasks=40), WholeGrid)
