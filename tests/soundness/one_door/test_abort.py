"""The abort attack: whatever one task's data are, the run ends as it does without them.

A run that stops, warns or moves somebody else's bits for one task's data tells neighbouring data
sets apart with certainty, whatever noise it adds.
"""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.tuning import PrivateSearch

HOSTILE, SIZE, D = 2, 9, 5
OPEN = [
    name
    for name in tacit.ESTIMATORS
    if not name.startswith(("PrivateLogistic", "Transfer", "FeatureSplit"))
]


def _alternating(shape):
    return np.where(np.indices(shape).sum(axis=0) % 2 == 0, 1.0, -1.0)


def _one_huge(X):
    X = X.copy()
    X[1, 2] = 1.7e308
    return X


KINDS = {
    "huge": lambda X, y: (1e160 * X, 1e200 * y),
    "at the end of the range": lambda X, y: (
        1.7e308 * _alternating(X.shape),
        1.7e308 * _alternating(y.shape),
    ),
    "one huge number": lambda X, y: (_one_huge(X), y),
    "huge targets": lambda X, y: (X, np.full_like(y, 1.7e308)),
    "large": lambda X, y: (1e44 * X, 1e44 * y),
    "denormal": lambda X, y: (np.full_like(X, 5e-324), np.full_like(y, 5e-324)),
    "tiny rows with huge models": lambda X, y: (1e-170 * X, 1e40 * y),
    "constant": lambda X, y: (np.full_like(X, 7.0), np.full_like(y, 7.0)),
    "zero": lambda X, y: (np.zeros_like(X), np.zeros_like(y)),
    "one direction only": lambda X, y: (np.outer(X[:, 0], np.ones(D)), y),
    "one row": lambda X, y: (X[:1], y[:1]),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def _data(name, kind=None):
    """Return six tasks; with a kind, task 2 is of that kind."""
    rng = np.random.default_rng(0)
    parts = []
    for task in range(6):
        X = rng.normal(size=(SIZE + task, D))
        y = X @ np.arange(1.0, D + 1) + rng.normal(size=len(X))
        classes = (y > 0).astype(float)
        if task == HOSTILE and kind is not None:
            X, y = KINDS[kind](X, y)
            classes = classes[: len(X)]
            classes = np.ones_like(classes) if kind in ("constant", "zero") else classes
        parts.append((X, classes if name.endswith("Classifier") else y))
    labels = np.repeat(np.arange(6), [len(X) for X, _ in parts])
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts]), labels


def _finite(model):
    return np.isfinite(model.coef_).all() and np.isfinite(model.intercept_).all()


def test_a_hostile_task_changes_no_bit_of_others_once_the_releases_are_frozen(
    private, parameters, sizes_are_public, fit
):
    before = fit(private, parameters, _data(private))
    releases = [posting.value for posting in before.billboard_]
    others = np.arange(6) != HOSTILE
    for kind in KINDS:
        if kind == "one row" and sizes_are_public:
            continue
        after = fit(private, parameters, _data(private, kind), releases)  # and does not warn
        np.testing.assert_array_equal(after.coef_[others], before.coef_[others], err_msg=kind)
        np.testing.assert_array_equal(
            after.intercept_[others], before.intercept_[others], err_msg=kind
        )
        assert _finite(after), kind
        assert all(np.isfinite(posting.value).all() for posting in after.billboard_), kind


@kinds
@pytest.mark.parametrize("name", ["SingleTaskRegressor", "SingleTaskClassifier"])
def test_a_hostile_task_changes_no_bit_of_others_that_learn_alone(name, kind):
    X, y, labels = _data(name)
    before = getattr(tacit, name)().fit(X, y, tasks=labels)
    X, y, labels = _data(name, kind)
    after = getattr(tacit, name)().fit(X, y, tasks=labels)
    others = np.arange(6) != HOSTILE
    np.testing.assert_array_equal(after.coef_[others], before.coef_[others])
    np.testing.assert_array_equal(after.intercept_[others], before.intercept_[others])
    assert _finite(after)


@pytest.mark.parametrize("kind", ["huge", "at the end of the range", "large", "constant"])
@pytest.mark.parametrize("name", OPEN)
def test_a_run_without_privacy_ends_too(name, kind):
    parameters = {} if name.startswith(("SingleTask", "Pooled")) else {"epsilon": float("inf")}
    X, y, labels = _data(name, kind)
    assert _finite(getattr(tacit, name)(**parameters).fit(X, y, tasks=labels))


@pytest.mark.parametrize("kind", ["huge", "at the end of the range", "huge targets"])
def test_a_search_ends_and_its_score_is_finite(kind):
    X, y, labels = _data("Regressor", kind)
    search = PrivateSearch(
        tacit.AveragedRegressor(),
        {"clip": ["auto", 1.0]},
        epsilon=20.0,
        mean_runs=2.0,
        random_state=0,
    )
    search.fit(X, y, tasks=labels)
    assert np.isfinite(search.best_score_)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name", ["SharedPriorRegressor", "TaskRelationshipRegressor", "SingleTask"]
)
def test_a_model_beyond_single_precision_neither_warns_nor_reaches_others(name):
    """Rows next to nothing make slopes that single precision cannot hold."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 8)
    X, y = rng.normal(size=(48, 3)).astype(np.float32), rng.normal(size=48)
    private = {"epsilon": 500.0, "random_state": 0}
    kind, given = (tacit.SingleTaskRegressor, {}) if name == "SingleTask" else (None, private)
    model = (kind or getattr(tacit, name))(**given)
    X[labels == 3] *= np.float32(1e-44)
    model.fit(X, y, tasks=labels)
    assert model.coef_.dtype == np.float32
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    if kind is None:
        model.fit_task(X[labels == 3], y[labels == 3], name="later")
        assert np.isfinite(model.coef_[-1]).all()
