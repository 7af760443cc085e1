"""Small ragged task sets with known structure."""

import numpy as np
import pytest

from tacit.tasks import TaskSet


@pytest.fixture
def ragged():
    """Return a maker of ragged tasks; ``labels`` makes the targets 0 or 1."""

    def make(sizes, d, *, labels=False, seed=0, dtype=np.float64):
        rng = np.random.default_rng(seed)
        sizes = np.asarray(sizes)
        N = int(sizes.sum())
        X = (rng.standard_normal((N, d)) + 0.3).astype(dtype)
        y = X @ rng.standard_normal(d) + rng.standard_normal(N) + 0.5
        y = (y > 0).astype(dtype) if labels else y.astype(dtype)
        return TaskSet.from_arrays(X, y, np.repeat(np.arange(len(sizes)), sizes))

    return make


@pytest.fixture
def by_task():
    """Return the rows and targets of every task, one after the other."""

    def split(tasks):
        cuts = tasks.offsets[1:-1]
        return list(zip(np.split(tasks.X, cuts), np.split(tasks.y, cuts), strict=True))

    return split
