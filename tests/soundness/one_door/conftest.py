"""What an attack on bits needs: every multi-task estimator, and fits that hear frozen releases."""

from __future__ import annotations

import dataclasses

import pytest

import tacit
from tacit.privacy.billboard import Billboard

_ROWS = {"epsilon_rows": 50.0, "target_bound": 5.0}
_VARIANTS = {
    "Averaged": ({}, {"clip": 3.0}),
    "MeanRegularized": ({}, {"clip": 3.0, "n_rounds": 2}),
    "SharedPrior": ({}, {"clip": 3.0}, {"delta": 0.0}, {"unknown_task": "shared"}),
    "TaskRelationship": ({}, {"clip": 3.0}),
    "LowRank": ({}, {"clip": 3.0}, {"update": "proximal", "clip": 3.0, "n_rounds": 3}, _ROWS),
    "GroupSparse": ({}, {"delta": 0.0}, {"update": "proximal", "n_rounds": 3}),
    "LowRankSparse": (
        {},
        {"shared": "group-sparse", "own": "tasks"},
        {"update": "proximal", "clip": 3.0, "n_rounds": 3},
    ),
}


def _private():
    for name in tacit.ESTIMATORS:
        family = name.removesuffix("Regressor").removesuffix("Classifier")
        if family in ("SingleTask", "Pooled", "PrivateLogisticRegression"):
            continue
        if family in ("Transfer", "FeatureSplitTransfer"):  # one data set, not many tasks
            continue
        for parameters in _VARIANTS.get(family, ({},)):
            yield pytest.param(name, parameters, id=f"{name}-{'-'.join(parameters) or 'default'}")


def pytest_generate_tests(metafunc):
    if "private" in metafunc.fixturenames:
        metafunc.parametrize(("private", "parameters"), list(_private()))


@pytest.fixture
def sizes_are_public(private):
    """Whether the estimator declares everybody's number of rows public."""
    return private.startswith(("SharedMoments", "Asynchronous"))


@pytest.fixture
def fit(monkeypatch):
    """Return a function that fits by name; given ``releases``, everybody hears those instead."""
    post = Billboard.post

    def fitted(name, parameters, data, releases=None):
        def frozen(self, value, event, **facts):
            posting = post(self, value, event, **facts)
            return dataclasses.replace(posting, value=releases[posting.number])

        monkeypatch.setattr(Billboard, "post", post if releases is None else frozen)
        # A large budget, so that what is released is used and not fallen back from.
        model = getattr(tacit, name)(epsilon=200.0, random_state=0, **parameters)
        X, y, labels = data
        return model.fit(X, y, tasks=labels)

    return fitted
