"""Tasks of a few labels, often all of one class, under penalties on all models."""

import numpy as np
import pytest

import tacit


@pytest.mark.parametrize("method", ["LowRank", "GroupSparse", "LowRankSparse", "TaskRelationship"])
def test_a_task_with_one_class_is_not_certain_of_it(method):
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 6, size=120)
    tasks = np.repeat(np.arange(120), 2 * counts)
    X = rng.normal(size=(len(tasks), 4))
    z = X @ np.array([1.0, -1.0, 0.5, 0.0]) + rng.normal(size=120)[tasks]
    y = (rng.uniform(size=len(z)) < 1 / (1 + np.exp(-z))).astype(int)
    train = np.arange(len(tasks)) % 2 == 0
    models = getattr(tacit, f"{method}Classifier")(np.inf), tacit.SingleTaskClassifier()
    losses = []
    for model in models:
        model.fit(X[train], y[train], tasks=tasks[train])
        chances = model.predict_proba(X[~train], tasks=tasks[~train])
        losses.append(-np.log(chances[np.arange((~train).sum()), y[~train]]).mean())
    assert losses[0] < 1.01 * losses[1]
