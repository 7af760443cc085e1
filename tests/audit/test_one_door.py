"""Nothing crosses between tasks but the releases: with those frozen, others do not move."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tacit
from tacit.privacy.billboard import Billboard

PRIVATE = [
    (name, parameters)
    for name in tacit.ESTIMATORS
    if not name.startswith(("SingleTask", "Pooled", "PrivateLogistic", "Transfer", "FeatureSplit"))
    for parameters in ({}, {"clip": 3.0}, {"update": "proximal", "clip": 3.0})
    if "update" not in parameters or name.startswith(("LowRank", "GroupSparse"))
]


def _data(classify, *, replaced):
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), 12)
    X = rng.normal(size=(480, 4))
    y = X @ [2.0, -1.0, 0.5, 0.0] + rng.normal(size=480)
    if replaced:  # task 7 gets other rows, other targets, and more of them
        keep = labels != 7
        X = np.vstack([X[keep], 1e4 * rng.normal(size=(29, 4))])
        y = np.concatenate([y[keep], 1e6 * rng.normal(size=29)])
        labels = np.concatenate([labels[keep], np.full(29, 7)])
    return X, (y > 0).astype(int) if classify else y, labels


@pytest.mark.parametrize(("name", "parameters"), PRIVATE)
def test_others_keep_their_models_when_a_task_is_replaced_and_releases_are_frozen(
    name, parameters, monkeypatch
):
    classify = name.endswith("Classifier")

    def fitted(**which):
        X, y, labels = _data(classify, **which)
        # A large budget, so that what is released is used and not fallen back from.
        model = getattr(tacit, name)(epsilon=200.0, random_state=0, **parameters)
        return model.fit(X, y, tasks=labels)

    before = fitted(replaced=False)
    recorded = [posting.value for posting in before.billboard_]
    post = Billboard.post

    def frozen(self, value, event, **facts):
        posting = post(self, value, event, **facts)
        return dataclasses.replace(posting, value=recorded[posting.number])

    monkeypatch.setattr(Billboard, "post", frozen)
    after = fitted(replaced=True)
    others = [task != 7 for task in before.task_names_]
    np.testing.assert_allclose(after.coef_[others], before.coef_[others], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(
        after.intercept_[others], before.intercept_[others], rtol=1e-7, atol=1e-9
    )
