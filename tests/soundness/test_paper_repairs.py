"""Repairs of how the papers' algorithms were built, each seen to fail before: through the API."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import tacit
from tacit.audit import audit_mechanism
from tacit.datasets import make_group_sparse, make_low_rank
from tacit.errors import PrivacyWarning
from tacit.privacy import SeededEntropy, mechanism

SIMULATED = "simulated-sensitivity-laplace-published"


@pytest.fixture(scope="module")
def paper_data():
    """The paper's synthetic tasks, fewer of them."""
    return {
        "low-rank": make_low_rank(160, n_test_rows=30, random_state=3),
        "group-sparse": make_group_sparse(160, n_test_rows=30, random_state=3),
    }


def _fitted(model, data):
    train = data.train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return model.fit(train.X, train.y, tasks=train.task_of_row)


def _error(model, data):
    """Return the normalised mean squared error on test rows."""
    test = data.test
    predicted = _fitted(model, data).predict(test.X, tasks=test.task_of_row)
    return float(np.mean((predicted - test.y) ** 2) / np.var(test.y))


@pytest.fixture(scope="module")
def alone(paper_data):
    return {name: _error(tacit.SingleTaskRegressor(), data) for name, data in paper_data.items()}


# 1. f(p + q) has curvature 2L in (p, q).


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("shrinkage", ["optimal", "soft-threshold"])
@pytest.mark.parametrize("own", ["entries", "tasks", "ridge"])
def test_decomposed_gradient_rounds_do_not_diverge(paper_data, alone, own, shrinkage, accelerated):
    model = tacit.LowRankSparseRegressor(
        100.0,
        own=own,
        update="proximal",
        shrinkage=shrinkage,
        accelerated=accelerated,
        n_rounds=60,
        random_state=0,
    )
    assert _error(model, paper_data["low-rank"]) < alone["low-rank"]


def test_a_decomposed_fit_keeps_learning_alone_among_its_choices(paper_data, alone):
    for epsilon in (0.5, 1.0):
        model = tacit.LowRankSparseRegressor(epsilon, random_state=0)
        assert _error(model, paper_data["low-rank"]) < 1.01 * alone["low-rank"]


# 2. Noise deletes no direction, and rounds under noise are single-task learning (Proposition 1).


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
@pytest.mark.parametrize("shrinkage", ["optimal", "soft-threshold"])
@pytest.mark.parametrize("name", ["LowRank", "GroupSparse", "LowRankSparse"])
@pytest.mark.parametrize("delta", ["auto", 0.0])
def test_gradient_rounds_are_never_below_learning_alone(
    paper_data, alone, name, shrinkage, epsilon, delta
):
    for accelerated, n_rounds in ((True, 30), (False, 10)):
        for data in paper_data:
            model = getattr(tacit, f"{name}Regressor")(
                epsilon,
                delta=delta,
                update="proximal",
                shrinkage=shrinkage,
                accelerated=accelerated,
                n_rounds=n_rounds,
                random_state=0,
            )
            assert _error(model, paper_data[data]) < 1.01 * alone[data]


@pytest.mark.parametrize(
    ("name", "delta"), [("LowRank", 1e-5), ("LowRank", 0.0), ("GroupSparse", 0.0)]
)
def test_soft_thresholding_pure_noise_is_learning_alone(paper_data, name, delta):
    # 20 runs of 10 rounds: before, one round in ten deleted a direction.
    data = paper_data["low-rank"]
    expected = _fitted(tacit.SingleTaskRegressor(), data).coef_
    for seed in range(20):
        model = getattr(tacit, f"{name}Regressor")(
            1e-9, delta=delta, update="proximal", shrinkage="soft-threshold", random_state=seed
        )
        moved = np.abs(_fitted(model, data).coef_ - expected).max()
        assert moved < 2e-3 * np.abs(expected).max()


def test_soft_thresholding_is_exact_for_a_classifier_too():
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(20), 15)
    X = rng.standard_normal((300, 6))
    y = (X[:, 0] + rng.standard_normal(300) > 0).astype(int)
    expected = tacit.SingleTaskClassifier().fit(X, y, tasks=tasks)
    model = tacit.LowRankClassifier(
        1e-9, delta=0.0, update="proximal", shrinkage="soft-threshold", n_rounds=30, random_state=0
    ).fit(X, y, tasks=tasks)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-3, atol=1e-3)


# 3. The printed Wishart noise is priced as it is allocated, and large budgets do not overflow.


@pytest.fixture(scope="module")
def few():
    return make_low_rank(6, 10, 4, n_test_rows=2, group_size=3, random_state=0)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0, 50.0, 1e3, 1e7])
@pytest.mark.parametrize("delta", [1e-6, 1e-3, 0.0])
@pytest.mark.parametrize("accelerated", [True, False])
def test_the_printed_noise_fits_the_budget_it_was_allocated_from(few, epsilon, delta, accelerated):
    for n_rounds in (1, 2, 3, 7, 30):
        model = tacit.LowRankRegressor(
            epsilon,
            delta=delta,
            mechanism="wishart-published",
            update="proximal",
            clip=5.0,
            n_rounds=n_rounds,
            accelerated=accelerated,
        )
        stated = _fitted(model, few).privacy_
        assert 0.9 * epsilon / n_rounds < stated.epsilon <= epsilon
        assert not stated.sound


@pytest.mark.parametrize("epsilon", [1e8, 1e12, 1e30, 1e100])
@pytest.mark.parametrize("noise", ["wishart-published", "two-sided-wishart"])
def test_wishart_noise_of_a_huge_budget_does_not_overflow(few, noise, epsilon):
    for n_rounds in (2, 7):
        for delta in (1e-6, 0.0):
            model = tacit.LowRankRegressor(
                epsilon,
                delta=delta,
                mechanism=noise,
                update="proximal",
                clip=5.0,
                n_rounds=n_rounds,
            )
            assert np.isfinite(_fitted(model, few).coef_).all()
            assert model.privacy_.epsilon <= epsilon


# 4. With δ = 0 budgets grow over rounds as Theorem 11 says, with δ > 0 as Theorem 6.


@pytest.mark.parametrize(
    ("delta", "accelerated", "exponent"),
    [(0.0, True, 2 / 3), (0.0, False, 0.0), (1e-6, True, 2 / 5), (1e-6, False, 0.0)],
)
def test_budgets_grow_by_the_papers_exponent(few, delta, accelerated, exponent):
    model = tacit.LowRankRegressor(
        1.0,
        delta=delta,
        mechanism="two-sided-wishart",
        update="proximal",
        n_rounds=8,
        accelerated=accelerated,
    )
    scales = np.array([row["scale"] for row in _fitted(model, few).history_])
    np.testing.assert_allclose(scales[0] / scales, np.arange(1, 9) ** exponent, rtol=1e-9)


@pytest.mark.parametrize(
    ("delta", "accelerated", "exponent"),
    [(0.0, True, 1 / 3), (0.0, False, 2 / 3), (1e-6, True, 1 / 5), (1e-6, False, 2 / 5)],
)
def test_budgets_grow_by_the_papers_ratio_under_strong_convexity(few, delta, accelerated, exponent):
    model = tacit.LowRankRegressor(
        1.0,
        delta=delta,
        mechanism="two-sided-wishart",
        update="proximal",
        n_rounds=5,
        strong_convexity=0.1,
        accelerated=accelerated,
    )
    rate = 0.1 / 1.1
    base = (1 - math.sqrt(rate) if accelerated else 1 - rate) ** exponent
    scales = np.array([row["scale"] for row in _fitted(model, few).history_])
    np.testing.assert_allclose(scales[1:] / scales[:-1], base, rtol=1e-9)


# 5. A given strength of the pull is used in private fits.


@pytest.mark.parametrize("kind", ["Regressor", "Classifier"])
@pytest.mark.parametrize("clip", ["auto", 10.0])
def test_a_stronger_pull_brings_private_models_together(kind, clip):
    rng = np.random.default_rng(0)
    tasks = np.repeat(np.arange(200), 10)
    W = np.array([2.0, -1.0, 1.0]) + 0.3 * rng.standard_normal((200, 3))
    X = rng.standard_normal((2000, 3))
    y = np.einsum("nd,nd->n", X, W[tasks]) + rng.standard_normal(2000)
    target = y if kind == "Regressor" else (y > 0).astype(int)
    spreads = []
    for alpha in (0.01, 10.0, 1e4):
        model = getattr(tacit, f"MeanRegularized{kind}")(
            5.0, alpha=alpha, clip=clip, random_state=0
        ).fit(X, target, tasks=tasks)
        spreads.append(float(np.std(model.coef_, axis=0).max()))
    assert spreads[0] > 1.3 * spreads[1] > 1.3**2 * spreads[2]
    assert spreads[2] < 0.02


# 6. Private logistic regression by feature groups, without any source (PLR-FS).


def test_feature_groups_alone_are_a_private_classifier():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 6))
    y = (X[:, 0] + X[:, 5] > 0).astype(int)
    importance = np.array([0.3, 0.1, 0.1, 0.1, 0.1, 0.3])
    model = tacit.FeatureSplitTransferClassifier(5.0, importance=importance, n_groups=3).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.groups_[0] == model.groups_[5]
    assert model.group_intercept_.shape[-1] == 3
    assert model.privacy_.holds
    assert model.privacy_.epsilon <= 5.0


# A peer's mechanism: Laplace noise for a sensitivity simulated on the data.


def _simulated(epsilon):
    with pytest.warns(PrivacyWarning, match=SIMULATED):
        return mechanism(SIMULATED, epsilon=epsilon)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
@pytest.mark.parametrize(
    "pair",
    [
        "rows alike against one that differs",
        "rows that differ against one further out",
        "rows that differ against one of another loss",
    ],
)
def test_the_audit_refutes_noise_for_a_simulated_sensitivity(pair, epsilon):
    # A true claim would be called violated with probability at most 1e-6.
    found = audit_mechanism(
        SIMULATED,
        epsilon=epsilon,
        n_features=5,
        pair=pair,
        n_trials=4000,
        confidence=1 - 1e-6,
        random_state=0,
    )
    assert found.violated
    assert found.epsilon_lower > epsilon


def test_one_row_is_seen_with_certainty_among_rows_alike():
    rows = np.zeros((30, 5))
    other = rows.copy()
    other[7, 2] = 1.0
    target, entropy = _simulated(0.01), SeededEntropy(0)
    quiet = target.release(np.broadcast_to(rows, (200, 30, 5)), entropy)
    loud = target.release(np.broadcast_to(other, (200, 30, 5)), entropy)
    assert not quiet.sound
    np.testing.assert_array_equal(quiet.value, 0.0)
    assert (loud.value[:, 2] != 0).all()


def test_the_objective_value_is_released_as_it_is():
    rows = np.random.default_rng(0).standard_normal((30, 5))
    released = _simulated(0.01).release(rows, SeededEntropy(0)).value
    assert released[-1] == rows[:, -1].mean()
    assert np.abs(released[:-1] - rows[:, :-1].mean(axis=0)).min() > 0.01
