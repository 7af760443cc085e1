"""No mechanism releases −0.0: only a value of −0.0 with noise below zero could become it.

Neighbours of other values can never release it, so under pure ε the sign of a zero would give the
data away. An entropy whose words make every noise tiny shows within a few draws what the system's
would show once in some million.
"""

from __future__ import annotations

import numpy as np
import pytest

from tacit.privacy import mechanisms
from tacit.privacy.noise.perturb import Entropy, SeededEntropy


class _TinyNoise(Entropy):
    """Words at the ends and in the middle of their range: uniforms near 1 and ½."""

    system = False

    def __init__(self, seed):
        self._choices = SeededEntropy(seed)
        self._ends = np.array([2**64 - 1, 2**63, 2**64 - 2**42], dtype=np.uint64)

    def words(self, count):
        return self._ends[self._choices.words(count) % np.uint64(3)]


GAUSSIAN = {"sensitivity": 1.0, "noise_multiplier": 1.0}
SHARES = {**GAUSSIAN, "n_shares": 3, "min_honest": 2}
VECTORS = {
    "distributed-gaussian": SHARES,
    "fixed-size-gaussian": {**GAUSSIAN, "n_units": 8, "cohort_size": 2},
    "gamma-vector": {"sensitivity_l2": 1.0, "epsilon": 1.0},
    "gaussian": GAUSSIAN,
    "laplace": {"sensitivity_l1": 1.0, "epsilon": 1.0},
    "poisson-gaussian": {**GAUSSIAN, "sampling_rate": 0.5},
}
MATRICES = {
    "distributed-symmetric-gaussian": SHARES,
    "symmetric-gaussian": GAUSSIAN,
    "two-sided-wishart": {"sensitivity_trace": 1.0, "epsilon": 1.0},
}


@pytest.mark.parametrize("name", [*VECTORS, *MATRICES])
def test_a_released_zero_has_no_sign(name):
    mechanism = mechanisms.MECHANISMS[name](**{**VECTORS, **MATRICES}[name])
    value = np.full((30,) if name in VECTORS else (4, 4), -0.0)
    zeros = []
    for seed in range(8):
        released = mechanism.release(value, _TinyNoise(seed)).value
        zeros.append(released[released == 0])
    zeros = np.concatenate(zeros)
    assert len(zeros) > 10
    assert not np.signbit(zeros).any()


def test_every_mechanism_with_noise_is_looked_at():
    assert {*VECTORS, *MATRICES} == set(mechanisms.MECHANISMS) - {"exact"}
