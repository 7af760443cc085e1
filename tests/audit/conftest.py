"""Small task sets to attack."""

import numpy as np
import pytest

from tacit.tasks import TaskSet


def make_tasks(n_tasks=8, n_rows=6, n_features=4, binary=False, seed=0):
    rng = np.random.default_rng(seed)
    counts = rng.integers(n_rows, 2 * n_rows, n_tasks)
    counts[0] = 3 * n_rows  # the canary has more rows than the others
    task = np.repeat(np.arange(n_tasks), counts)
    X = rng.standard_normal((len(task), n_features))
    W = rng.standard_normal((n_tasks, n_features)) + 1.0
    y = np.einsum("nd,nd->n", X, W[task]) + 0.3 * rng.standard_normal(len(task))
    return TaskSet.from_arrays(X, (y > 0).astype(float) if binary else y, task)


@pytest.fixture
def tasks():
    return make_tasks()


@pytest.fixture
def labelled_tasks():
    return make_tasks(binary=True)
