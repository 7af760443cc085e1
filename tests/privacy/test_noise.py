"""The samplers' exactness machinery: error bounds, enclosures, grids, entropy."""

from __future__ import annotations

import dataclasses
import math
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tacit.privacy
from tacit.errors import InvalidInput
from tacit.privacy.noise import perturb as samplers
from tacit.privacy.noise.entropy import (
    Entropy,
    KeyedEntropy,
    SeededEntropy,
    SystemEntropy,
    bernoulli,
    entropy_from,
    sample_without_replacement,
)
from tacit.privacy.noise.reals import (
    EXPONENTIAL_ERROR,
    NORMAL_ERROR,
    LazyExponentials,
    LazyNormals,
    LazyUniforms,
    endpoints,
    settle,
)
from tacit.privacy.noise.rounding import add_noise, grid_of


class Scripted(Entropy):
    """Entropy that says what it is told first, and ones and zeros in turn after that."""

    system = False

    def __init__(self, *words: int) -> None:
        self.left = list(words)

    def words(self, count):
        drawn = [self.left.pop(0) if self.left else 0xAAAA_AAAA_AAAA_AAAA for _ in range(count)]
        return np.array(drawn, dtype=np.uint64)


def middle(interval) -> float:
    low, high = endpoints(interval)
    return (low + high) / 2


def test_system_entropy_never_repeats_and_seeded_entropy_does():
    assert SystemEntropy.system
    assert not SeededEntropy.system
    assert not np.array_equal(SystemEntropy().words(4), SystemEntropy().words(4))
    assert np.array_equal(SeededEntropy(3).words(4), SeededEntropy(3).words(4))
    assert SystemEntropy().words(5).dtype == np.uint64


def test_a_random_state_chooses_the_entropy():
    source = SeededEntropy(1)
    assert entropy_from(None).system
    assert entropy_from(source) is source
    for state in (0, np.int64(7), np.random.default_rng(1), np.random.RandomState(1)):
        assert not entropy_from(state).system
    assert np.array_equal(entropy_from(5).words(3), SeededEntropy(5).words(3))
    for bad in ("seed", -1, 1.5, True):
        with pytest.raises(InvalidInput, match=r"random_state=|seed="):
            entropy_from(bad)


def test_numpy_random_appears_only_where_seeds_are_handled():
    package = Path(tacit.privacy.__file__).parent
    users = [
        path.name
        for path in package.rglob("*.py")
        if re.search(r"np\.random|numpy\.random|import random", path.read_text(encoding="utf-8"))
    ]
    assert users == ["entropy.py"]


def test_a_coin_compares_endless_bits_with_the_probability():
    half = 1 << 63
    assert bernoulli(0.5, 2, Scripted(half - 1, half)).tolist() == [True, False]
    assert bernoulli(1.0, 2, Scripted()).tolist() == [True, True]
    assert bernoulli(0.0, 2, Scripted(0, 1)).tolist() == [False, False]
    # 2⁻⁷⁰: the first word must be 0 and the second below 2⁵⁸.
    assert bernoulli(2.0**-70, 1, Scripted(0, (1 << 58) - 1)).tolist() == [True]
    assert bernoulli(2.0**-70, 1, Scripted(0, 1 << 58)).tolist() == [False]
    assert bernoulli(2.0**-70, 1, Scripted(1)).tolist() == [False]
    with pytest.raises(InvalidInput, match="probability"):
        bernoulli(1.5, 1, Scripted())


def test_a_cohort_is_drawn_again_when_keys_tie():
    cohort = sample_without_replacement(3, 2, Scripted(5, 5, 1, 9, 2, 4))
    assert cohort.tolist() == [1, 2]
    with pytest.raises(InvalidInput, match="size=4"):
        sample_without_replacement(3, 4, Scripted())


def test_more_bits_refine_the_same_uniform():
    uniforms = LazyUniforms(2, SeededEntropy(0))
    short, long = (endpoints(uniforms.enclosure(1, bits)) for bits in (64, 256))
    assert short[0] <= long[0] < long[1] <= short[1]
    assert long[1] - long[0] == Fraction(1, 2**256)
    assert endpoints(uniforms.enclosure(1, 256)) == long


EXTREME = (0, 1, 2, 1 << 44, 1 << 45, 1 << 63, 2**64 - 2**45, 2**64 - 2**44, 2**64 - 2, 2**64 - 1)


@pytest.mark.parametrize("word", EXTREME)
def test_normals_and_exponentials_stay_within_their_error_bound_at_extreme_words(word):
    for angle in (0, 1 << 61, 1 << 62, 3 << 62, 2**64 - 1):
        normals = LazyNormals(2, Scripted(word, angle))
        for index in range(2):
            gap = abs(Fraction(normals.approximate[index]) - middle(normals.enclosure(index, 256)))
            assert gap <= NORMAL_ERROR / 2
    exponential = LazyExponentials(1, Scripted(word))
    gap = abs(Fraction(exponential.approximate[0]) - middle(exponential.enclosure(0, 256)))
    assert gap <= EXPONENTIAL_ERROR / 2


def test_the_error_bounds_hold_with_room_to_spare_on_random_words():
    normals = LazyNormals(400, SeededEntropy(1))
    exponentials = LazyExponentials(200, SeededEntropy(2))
    for reals, bound in ((normals, NORMAL_ERROR), (exponentials, EXPONENTIAL_ERROR)):
        for index, value in enumerate(reals.approximate):
            assert abs(Fraction(value) - middle(reals.enclosure(index, 256))) <= bound / 8


def test_a_uniform_without_a_set_bit_is_resolved_by_further_bits():
    # The first 128 bits are zero, so that the logarithm has no lower bound yet.
    normals = LazyNormals(1, Scripted(0, 0, 0, 0))
    assert 13 < normals.approximate[0] < 14


def test_the_grid_depends_on_the_scale_alone():
    for scale in (1e-9, 0.3, 1.0, 2.0, 1e12):
        step = grid_of(scale)
        assert 2**20 <= scale / step < 2**21
        assert math.frexp(step)[0] == 0.5
        for draws in (
            samplers.gaussian(scale, 50, SystemEntropy()),
            samplers.perturb_laplace(np.full(50, np.pi), scale, SystemEntropy()),
        ):
            assert np.array_equal(np.rint(draws / step), draws / step)


def test_a_release_is_the_rounding_of_value_plus_the_exact_real():
    values = np.random.default_rng(0).normal(size=60) * 10.0 ** np.arange(-30, 30)
    scale = 1.7
    released = samplers.perturb_gaussian(values, scale, SeededEntropy(3))
    normals = LazyNormals(60, SeededEntropy(3))
    step = Fraction(grid_of(scale))
    for index, value in enumerate(values):
        noise = Fraction(scale) * middle(normals.enclosure(index, 256))
        steps = math.floor((Fraction(value) + noise) / step + Fraction(1, 2))
        assert released[index] == float(steps * step)


def _noises(entropy_of_seed):
    upper = np.triu_indices(4)
    yield samplers._gamma_noise(2.0**19, 3, 2, entropy_of_seed(4))
    yield samplers._wishart_noise(2.0**18, 4, upper, entropy_of_seed(5), True)
    yield samplers._wishart_noise(2.0**18, 4, upper, entropy_of_seed(6), False)


def test_floats_and_enclosures_settle_on_the_same_grid_points():
    for noise, doubted in zip(_noises(SeededEntropy), _noises(SeededEntropy), strict=True):
        value = np.linspace(-3, 3, noise.steps.size)
        # With an error of one half nothing is read off the floats.
        exact = add_noise(value, 1.0, dataclasses.replace(doubted, error=0.5))
        assert np.array_equal(add_noise(value, 1.0, noise), exact)


def test_composed_noise_stays_within_its_error_bound():
    for noise in _noises(SeededEntropy):
        bounds = np.broadcast_to(noise.error, noise.steps.shape)
        for index, (value, bound) in enumerate(zip(noise.steps, bounds, strict=True)):
            assert abs(Fraction(value) - middle(noise.enclosure(index, 256))) <= bound / 2
        assert bounds.max() < 1e-3


def test_sums_at_the_midpoint_of_two_grid_points_are_settled_by_further_bits():
    # Values chosen so that value + noise is a midpoint as far as floats can tell.
    scale, step = 1.7, grid_of(1.7)
    noise = scale / step * LazyNormals(60, SeededEntropy(3)).approximate
    values = (np.floor(noise) + 0.5 - noise) * step
    released = samplers.perturb_gaussian(values, scale, SeededEntropy(3))
    normals = LazyNormals(60, SeededEntropy(3))
    ups = 0
    for index, value in enumerate(values):
        exact = Fraction(scale) * middle(normals.enclosure(index, 128))
        steps = math.floor((Fraction(value) + exact) / Fraction(step) + Fraction(1, 2))
        assert released[index] == steps * step
        ups += steps > np.floor(noise[index])
    # Both neighbours are reached: the floats alone could not have known.
    assert 10 < ups < 50


def test_values_beyond_the_exact_range_round_once_more():
    released = samplers.perturb_gaussian([2.0**80, -(2.0**80)], 1.0, SystemEntropy())
    assert released.tolist() == [2.0**80, -(2.0**80)]


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_value_that_is_not_finite_is_refused(bad):
    with pytest.raises(InvalidInput, match="value"):
        samplers.perturb_gaussian([0.0, bad], 1.0, SystemEntropy())


@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, 1e-200])
def test_a_bad_scale_is_refused(scale):
    with pytest.raises(InvalidInput, match="scale="):
        samplers.gaussian(scale, 3, SystemEntropy())


def test_shapes_are_kept_and_empty_arrays_pass():
    assert samplers.gaussian(1.0, (2, 0, 3), SystemEntropy()).shape == (2, 0, 3)
    assert samplers.laplace(1.0, (), SystemEntropy()).shape == ()
    assert samplers.gamma_vector(1.0, (2, 3), SystemEntropy()).shape == (2, 3)
    rows = samplers.perturb_gamma_vector(np.zeros((70_000, 1)), 1.0, SystemEntropy(), rows=True)
    assert rows.shape == (70_000, 1)
    assert samplers.wishart(1.0, 3, SystemEntropy()).shape == (3, 3)


def test_seeded_draws_repeat_and_system_draws_do_not():
    for draw in (
        lambda e: samplers.gaussian(1.0, 9, e),
        lambda e: samplers.laplace(1.0, 9, e),
        lambda e: samplers.gamma_vector(1.0, 9, e),
        lambda e: samplers.wishart(1.0, 3, e),
    ):
        assert np.array_equal(draw(SeededEntropy(8)), draw(SeededEntropy(8)))
        assert not np.array_equal(draw(SystemEntropy()), draw(SystemEntropy()))


class Shared(Entropy):
    """Words that are handed to whoever asks, once each; remembers who got which."""

    system, repeats = False, False

    def __init__(self, count: int) -> None:
        self.stream, self.next, self.pieces = SeededEntropy(4).words(count), 0, []
        self.threads, self.lock = set(), threading.Lock()

    def words(self, count):
        with self.lock:
            start, self.next = self.next, self.next + count
            self.pieces.append(self.stream[start : start + count])
            self.threads.add(threading.get_ident())
        time.sleep(0.01)  # let others ask
        return self.stream[start : start + count]


def test_every_entry_has_words_of_its_own_whichever_thread_draws(monkeypatch):
    monkeypatch.setattr("tacit.numerics.threads.n_threads", lambda: 3)
    size = 5 * samplers._SHARE + 7
    entropy = Shared(2 * size)
    released = samplers.perturb_gaussian(np.zeros(size), 1.0, entropy)
    assert len(entropy.threads) > 1
    assert entropy.next == size + 1  # pairs
    counts = [samplers._SHARE] * 5 + [7]
    step, expected = grid_of(1.0), []
    for words in entropy.pieces:
        count = min(counts, key=lambda n: abs(n + n % 2 - len(words)))
        normals = LazyNormals(count, Scripted(*words.tolist()))
        expected.append(np.rint(normals.approximate / step) * step)
    np.testing.assert_array_equal(np.sort(released), np.sort(np.concatenate(expected)))


def test_a_source_that_repeats_gives_the_same_bits_on_any_number_of_threads(monkeypatch):
    assert SeededEntropy.repeats
    assert KeyedEntropy.repeats
    assert not SystemEntropy.repeats
    value, found = np.linspace(0, 1, 2 * samplers._BLOCK + 3), []
    for threads in (1, 4):
        monkeypatch.setattr("tacit.numerics.threads.n_threads", lambda threads=threads: threads)
        found.append(samplers.perturb_laplace(value, 1.0, SeededEntropy(3)))
    np.testing.assert_array_equal(*found)


def test_doubtful_numbers_are_settled_one_at_a_time():
    inside, most = [], []

    def attempt(bits):
        inside.append(bits)
        most.append(len(inside))
        time.sleep(0.002)
        inside.pop()
        return bits if bits > 200 else None

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: settle(attempt), range(12))) == [256] * 12
    assert max(most) == 1


def test_asymmetric_matrices_are_refused():
    for value in (np.zeros((2, 3)), np.array([[0.0, 1.0], [0.0, 0.0]])):
        with pytest.raises(InvalidInput, match=r"square|symmetric"):
            samplers.perturb_wishart(value, 1.0, SystemEntropy())
