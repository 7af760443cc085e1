"""Goodness of fit of every sampler.

Each test rejects a correct sampler with probability at most `FALSE_ALARM`; system entropy, so every
run is a new experiment.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.privacy import SystemEntropy, mechanism
from tacit.privacy.noise import perturb as samplers
from tacit.privacy.noise.entropy import bernoulli, sample_without_replacement
from tacit.privacy.noise.rounding import grid_of

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
ENTROPY = SystemEntropy()
N = 1_000_000


def chi_square(observed, expected) -> float:
    """Return the p-value, with cells of less than 20 expected merged into their neighbours."""
    cells, merged = [], [0.0, 0.0]
    for o, e in zip(observed, expected, strict=True):
        merged[0] += o
        merged[1] += e
        if merged[1] >= 20:
            cells.append(tuple(merged))
            merged = [0.0, 0.0]
    last = cells.pop()
    cells.append((last[0] + merged[0], last[1] + merged[1]))
    o, e = np.array(cells).T
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(o) - 1))


def test_the_rounded_gaussian_agrees_with_opendp_on_floats():
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    n_draws = 60_000
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    reference = dp.m.make_gaussian(*space, scale=3.0)([0.0] * n_draws)
    ours = samplers.gaussian(3.0, n_draws, ENTROPY)
    assert stats.ks_2samp(ours, reference).pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [1e-3, 3.0])
def test_gaussian_noise_is_normal_down_to_its_low_bits_and_independent(scale):
    draws = samplers.gaussian(scale, N, ENTROPY)
    assert stats.kstest(draws / scale, "norm").pvalue > FALSE_ALARM / 4
    steps = np.rint(draws / grid_of(scale)).astype(np.int64)
    assert stats.chisquare(np.bincount(steps & 255)).pvalue > FALSE_ALARM / 4
    # Neighbours and Box–Muller partners (half a block apart): correlation N(0, 1/N) each.
    for lag in (1, 1 << 13):
        correlation = np.mean(draws[:-lag] * draws[lag:]) / scale**2
        assert 2 * stats.norm.sf(abs(correlation) * np.sqrt(N - lag)) > FALSE_ALARM / 4


def test_gaussian_tails_are_neither_cut_nor_heavy():
    draws = np.abs(samplers.gaussian(1.0, 4 * N, ENTROPY))
    for reach in (4.0, 4.8):
        count = int(np.sum(draws > reach))
        test = stats.binomtest(count, 4 * N, 2 * stats.norm.sf(reach))
        assert test.pvalue > FALSE_ALARM / 2


def test_laplace_noise_is_laplace():
    draws = samplers.laplace(0.7, N, ENTROPY)
    assert stats.kstest(draws / 0.7, "laplace").pvalue > FALSE_ALARM / 2
    steps = np.rint(draws / grid_of(0.7)).astype(np.int64)
    assert stats.chisquare(np.bincount(steps & 255)).pvalue > FALSE_ALARM / 2


@pytest.mark.parametrize("dimension", [1, 2, 3, 20])
def test_gamma_vectors_have_gamma_lengths_and_uniform_directions(dimension):
    n_draws = 100_000
    draws = samplers.perturb_gamma_vector(np.zeros((n_draws, dimension)), 2.0, ENTROPY, rows=True)
    lengths = np.linalg.norm(draws, axis=1)
    assert stats.kstest(lengths / 2, stats.gamma(dimension).cdf).pvalue > FALSE_ALARM / 3
    # A coordinate of a uniform direction: its square is Beta(1/2, (D − 1)/2), its sign fair.
    positive = int(np.sum(draws[:, 0] > 0))
    assert stats.binomtest(positive, n_draws).pvalue > FALSE_ALARM / 3
    if dimension > 1:
        squares = (draws[:, -1] / lengths) ** 2
        law = stats.beta(0.5, (dimension - 1) / 2)
        assert stats.kstest(squares, law.cdf).pvalue > FALSE_ALARM / 3


def test_one_gamma_vector_over_an_array_has_the_joint_length():
    lengths = [np.linalg.norm(samplers.gamma_vector(1.0, (3, 5), ENTROPY)) for _ in range(10_000)]
    assert stats.kstest(lengths, stats.gamma(15).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("d", [1, 2, 6])
def test_one_sided_wishart_noise_is_wishart(d):
    n_draws = 20_000
    draws = samplers.perturb_wishart(np.zeros((n_draws, d, d)), 1.5, ENTROPY, two_sided=False)
    traces = np.trace(draws, axis1=1, axis2=2) / 1.5
    assert stats.kstest(traces, stats.chi2(d * (d + 1)).cdf).pvalue > FALSE_ALARM / 3
    # The last pivot of a Cholesky factor: χ² with d + 1 − (d − 1) = 2 degrees (Bartlett).
    pivots = np.linalg.cholesky(draws)[:, -1, -1] ** 2 / 1.5
    assert stats.kstest(pivots, stats.chi2(2).cdf).pvalue > FALSE_ALARM / 3
    corners = draws[:, 0, 0] / 1.5
    assert stats.kstest(corners, stats.chi2(d + 1).cdf).pvalue > FALSE_ALARM / 3


def test_two_sided_wishart_noise_is_the_difference_of_two():
    n_draws = 20_000
    scalar = samplers.perturb_wishart(np.zeros((n_draws, 1, 1)), 1.5, ENTROPY).ravel()
    # In one dimension: the difference of two χ²_2, which is Laplace(2·scale).
    assert stats.kstest(scalar / 3.0, "laplace").pvalue > FALSE_ALARM / 2
    draws = samplers.perturb_wishart(np.zeros((n_draws, 4, 4)), 1.0, ENTROPY)
    traces = np.trace(draws, axis1=1, axis2=2)
    reference = stats.chi2(20).rvs(size=(2, n_draws))
    assert stats.ks_2samp(traces, reference[0] - reference[1]).pvalue > FALSE_ALARM / 2


def test_symmetric_gaussian_noise_has_goe_variances():
    n_draws, d = 40_000, 4
    made = mechanism("symmetric-gaussian", sensitivity=1.0, noise_multiplier=2.0)
    draws = made.release(np.zeros((n_draws, d, d)), ENTROPY).value
    assert stats.kstest(draws[:, 2, 2] / 2, "norm").pvalue > FALSE_ALARM / 3
    assert stats.kstest(draws[:, 0, 3] / np.sqrt(2), "norm").pvalue > FALSE_ALARM / 3
    # The Frobenius norm of a spherical Gaussian in d(d + 1)/2 dimensions.
    squares = np.sum(draws**2, axis=(1, 2)) / 4
    assert stats.kstest(squares, stats.chi2(d * (d + 1) // 2).cdf).pvalue > FALSE_ALARM / 3


def test_coins_and_cohorts_are_fair():
    heads = int(bernoulli(0.3, N, ENTROPY).sum())
    assert stats.binomtest(heads, N, 0.3).pvalue > FALSE_ALARM / 2
    draws = [tuple(sample_without_replacement(5, 2, ENTROPY)) for _ in range(20_000)]
    _, counts = np.unique(draws, axis=0, return_counts=True)
    assert counts.size == 10
    assert stats.chisquare(counts).pvalue > FALSE_ALARM / 2
