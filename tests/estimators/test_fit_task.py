"""A party that comes later: its own model from the billboard, free to everyone else."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.errors import InvalidInput
from tacit.methods import methods
from tacit.privacy import Ledger

METHODS = sorted(methods())
SPEAKING = ("SharedPrior", "MeanRegularized", "LowRank", "GroupSparse")


def _rows(kind, seed=0, m=30, n=12, d=4):
    random = np.random.default_rng(seed)
    X, tasks = random.normal(size=(m * n, d)), np.repeat(range(m), n)
    W = np.array([1.0, -1.0, 0.5, 0.0]) + 0.1 * random.normal(size=(m, d))
    score = np.einsum("nd,nd->n", X, W[tasks]) + 0.3 * random.normal(size=m * n)
    return X, score if kind == "regression" else np.where(score > 0, "yes", "no"), tasks


@pytest.fixture(params=[(name, kind) for name in METHODS for kind in sorted(methods()[name])])
def fitted(request):
    name, kind = request.param
    estimator = methods()[name][kind]
    settings = {"epsilon": 8.0} if "epsilon" in estimator._get_param_names() else {}
    X, y, tasks = _rows(kind)
    return estimator(**settings).fit(X, y, tasks=tasks), kind


def test_a_later_party_gets_the_model_of_one_that_was_there(fitted, tmp_path):
    model, kind = fitted
    X, y, tasks = _rows(kind)
    before, own = model.coef_.copy(), tasks == 7
    model.save(tmp_path / "model")
    for late in (model, tacit.load(tmp_path / "model")):
        late.fit_task(X[own], y[own], name="late")
        np.testing.assert_array_equal(late.coef_[:-1], before)
        assert late.task_names_[-1] == "late"
        answers = late.predict(X[own], tasks=["late"] * int(own.sum()))
        assert len(answers) == own.sum()
        if type(model).__name__.startswith(("Asynchronous", "TaskRelationship", "SharedMoments")):
            continue  # those who released something of their own read it otherwise
        # Who spoke takes its own word out of a hierarchical prior's mean: one part in m − 1.
        near = {"rtol": 1e-6, "atol": 0.2 if type(model).__name__.startswith(SPEAKING) else 1e-9}
        np.testing.assert_allclose(late.coef_[-1], before[7], **near)
        np.testing.assert_allclose(late.intercept_[-1], late.intercept_[7], **near)


def test_a_later_party_learns_from_what_was_released():
    X, y, tasks = _rows("regression", m=400, n=6)
    model = tacit.SharedPriorRegressor(epsilon=20.0).fit(X, y, tasks=tasks)
    alone = tacit.SingleTaskRegressor().fit(X, y, tasks=tasks)
    fresh, target, _ = _rows("regression", seed=5, m=1, n=6)
    test, truth, _ = _rows("regression", seed=5, m=1, n=500)
    errors = []
    for late in (model, alone):
        late.fit_task(fresh, target, name="late")
        answers = late.predict(test, tasks=["late"] * 500)
        errors.append(np.mean((answers - truth) ** 2))
    assert errors[0] < 0.7 * errors[1]


def test_joining_charges_nothing(tmp_path):
    X, y, tasks = _rows("regression")
    ledger = Ledger(tmp_path / "ledger.db", epsilon=2.0, delta=1e-4)
    model = tacit.LowRankRegressor(epsilon=1.0, ledger=ledger).fit(X, y, tasks=tasks)
    head, board = ledger.head, model.billboard_.head
    model.fit_task(X[:9], y[:9], name="late")
    assert (ledger.head, model.billboard_.head) == (head, board)


def test_a_party_with_one_class_only_may_join():
    X, y, tasks = _rows("classification")
    model = tacit.SharedPriorClassifier(epsilon=8.0).fit(X, y, tasks=tasks)
    model.fit_task(X[:5], ["yes"] * 5, name="late")
    assert np.isfinite(model.coef_[-1]).all()
    with pytest.raises(InvalidInput, match="'maybe' is none of the model's classes"):
        model.fit_task(X[:5], ["maybe"] * 5, name="other")
    assert model.task_names_[-1] == "late"


def test_who_cannot_join_is_told_why(tmp_path):
    X, y, tasks = _rows("regression")
    model = tacit.LowRankRegressor(epsilon=1.0).fit(X, y, tasks=tasks)
    with pytest.raises(InvalidInput, match="name=3"):
        model.fit_task(X, y, name=3)
    model.save(tmp_path / "model")
    (tmp_path / "model" / "billboard.npz").unlink()
    with pytest.raises(InvalidInput, match="billboard"):
        tacit.load(tmp_path / "model").fit_task(X, y, name="late")
    joint = tacit.MeanRegularizedRegressor(epsilon=float("inf")).fit(X, y, tasks=tasks)
    with pytest.raises(InvalidInput, match="finite epsilon"):
        joint.fit_task(X, y, name="late")
    alone = tacit.PrivateLogisticRegression().fit(X, y > 0)
    with pytest.raises(InvalidInput, match="released nothing has no model"):
        alone.fit_task(X, y > 0, name="late")


def test_the_number_of_rows_is_kept_only_where_it_is_public(tmp_path):
    X, y, tasks = _rows("regression")
    protected = {"epsilon_rows": 5.0, "target_bound": 3.0}
    for name, model, known in (
        ("tasks", tacit.LowRankRegressor(epsilon=1.0), None),
        ("both", tacit.LowRankRegressor(epsilon=1.0, **protected), None),
        ("rows", tacit.SharedMomentsRegressor(epsilon=1.0), len(X)),
    ):
        model.fit(X, y, tasks=tasks).save(tmp_path / name)
        assert tacit.load(tmp_path / name)._sizes.n_rows == known
