"""Every distinguisher finds the leak it is made for, on plain numpy noise."""

import numpy as np
import pytest

from tacit.audit.attack import Claim, Contest, attack
from tacit.audit.distinguishers import (
    Distance,
    LikelihoodRatio,
    Linear,
    LinearDiscriminant,
    Quadratic,
    Support,
    TrainedClassifier,
    summaries,
    with_entries,
)

ZERO, ONE = np.zeros(4), np.array([1.0, 0, 0, 0])


def contest(noise, distinguisher, first=ZERO, second=ONE, seed=0):
    rng = np.random.default_rng(seed)

    def draw(which, n):
        return noise(rng, which, n) + (first, second)[which]

    return Contest("zero against one", draw, (distinguisher,), chunk=3000)


def normal(scale):
    return lambda rng, which, n: scale * rng.standard_normal((n, 4))


def audit(one, claim=None, n_trials=8000):
    claim = claim or Claim("numpy noise", 1.0, 0.0)
    return attack([one], claim, n_trials=n_trials, confidence=0.999)


@pytest.mark.parametrize(
    "distinguisher",
    [
        Linear(ZERO, ONE),
        LinearDiscriminant(),
        LikelihoodRatio(lambda releases: releases[:, 0]),
        TrainedClassifier(with_entries(summaries(ZERO, ONE))),
        Quadratic(summaries(ZERO, ONE)),
    ],
    ids=lambda distinguisher: distinguisher.name,
)
def test_too_little_noise_is_caught_by(distinguisher):
    result = audit(contest(normal(0.3), distinguisher))
    assert result.violated
    assert result.epsilon_lower > 3
    assert result.delta_lower > 0.5
    assert distinguisher.name in result.event


@pytest.mark.parametrize(
    "distinguisher",
    [
        Distance(ZERO),
        Quadratic(summaries(ZERO, np.full(4, 1e-9))),
        TrainedClassifier(with_entries(summaries(ZERO, ONE))),
    ],
    ids=lambda distinguisher: distinguisher.name,
)
def test_noise_whose_scale_leaks_is_caught_by(distinguisher):
    one = contest(
        lambda rng, which, n: (1 + 2 * which) * rng.standard_normal((n, 4)),
        distinguisher,
        second=ZERO,
    )
    assert audit(one).violated


def test_the_support_test_sees_noise_that_only_adds():
    first, second = np.zeros((3, 3)), np.diag([1.0, 0, 0])

    def wishart(rng, which, n):
        factors = rng.standard_normal((n, 3, 4))
        return factors @ factors.transpose(0, 2, 1)

    result = audit(contest(wishart, Support(second), first, second))
    assert result.violated
    assert "smallest eigenvalue" in result.event
    # Event and threshold are the proof's: not positive semidefinite, impossible under the second.
    assert "first data set" in result.event


@pytest.mark.parametrize("seed", range(8))
def test_a_true_claim_is_never_refuted_by_all_of_them_together(seed):
    rng = np.random.default_rng(seed)
    rivals = (
        Linear(ZERO, ONE),
        Distance(ZERO),
        Quadratic(summaries(ZERO, ONE)),
        TrainedClassifier(summaries(ZERO, ONE)),
    )

    def draw(which, n):
        return rng.laplace(size=(n, 4)) + (ZERO, ONE)[which]

    result = attack(
        [Contest("zero against one", draw, rivals)],
        Claim("laplace", 1.0, 0.0),
        n_trials=4000,
        confidence=0.999,
    )
    assert not result.violated
    assert result.epsilon_lower > 0.4


def test_the_gaussian_curve_gives_a_tighter_bound_than_one_point_of_it():
    claim = Claim("gaussian", 1.0, 1e-5, gaussian=True)
    result = audit(contest(normal(3.73), Linear(ZERO, ONE)), claim, n_trials=100_000)
    assert result.mu_lower < 1 / 3.73
    assert result.epsilon_direct < result.epsilon_lower < 1.0
    assert result.epsilon_lower > 0.75


def test_the_most_promising_pair_is_attacked():
    near = contest(normal(1.0), Linear(ZERO, ONE), second=0.01 * ONE)
    far = contest(normal(1.0), Linear(ZERO, ONE))
    far = Contest("far apart", far.draw, far.distinguishers)
    claim = Claim("gaussian", 1.0, 0.0)
    result = attack([near, far], claim, n_trials=4000, confidence=0.999)
    assert result.pair == "far apart"


def test_a_result_reads_as_a_sentence_and_as_json():
    result = audit(contest(normal(0.3), Linear(ZERO, ONE)))
    assert "VIOLATED" in str(result)
    assert '"violated": true' in result.to_json()
    assert result.tightness == result.epsilon_lower
