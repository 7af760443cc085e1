"""Rows of a few tasks whose models lie in a plane, with a mean of their own."""

import numpy as np


def rows_of(*, n_tasks=30, n_rows=14, d=5, classes=None, seed=0):
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n_rows)
    X = rng.standard_normal((len(task), d))
    W = rng.standard_normal((n_tasks, 2)) @ rng.standard_normal((2, d)) + 1.0
    score = np.einsum("nd,nd->n", X, W[task]) + 0.5 * rng.standard_normal(len(task)) + 2.0
    if classes is not None:
        edges = np.quantile(score, np.linspace(0, 1, classes + 1)[1:-1])
        score = np.digitize(score, edges)
    return X, score, task
