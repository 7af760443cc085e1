"""The model-protected paper's theorems: its two lemmas hold, and its orders are what users get."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit
from tacit.datasets import make_low_rank
from tacit.errors import InvalidInput
from tacit.protocols._theory import theory_rounds, theory_tasks, theory_threshold
from tacit.protocols.proximal_protected import SharedMap

SEEDS = st.integers(0, 10_000)


def _objective(W, C, threshold, norm):
    return 0.5 * np.sum((W - C) ** 2) + threshold * norm(W)


def _trace_norm(W):
    return float(np.linalg.svd(W, compute_uv=False).sum())


def _group_norm(W):
    return float(np.linalg.norm(W, axis=1).sum())


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, d=st.integers(2, 6), m=st.integers(2, 12), share=st.floats(0.05, 0.95))
def test_lemma_1_bounds_the_error_of_the_noisy_trace_norm_step(seed, d, m, share):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((d, m)) * np.geomspace(4, 0.2, d)[:, None]
    values = np.linalg.svd(C, compute_uv=False)
    threshold = share * values[0]
    k = int(np.sum(values > threshold))
    # The assumption as the proof has it: on the eigenvalues of CCᵀ (the statement drops a square).
    squares = np.append(values**2, 0.0)
    gaps = squares[:k] - squares[1 : k + 1]
    noise = rng.standard_normal((d, d))
    E = noise @ noise.T
    E *= rng.uniform(0, 0.5) * gaps.min() / np.linalg.norm(E, 2)
    edge = np.linalg.norm(E, 2)
    exact, noisy = (
        SharedMap.soft_threshold(S, threshold, 0.0)(C.T).T for S in (C @ C.T, C @ C.T + E)
    )
    excess = _objective(noisy, C, threshold, _trace_norm) - _objective(
        exact, C, threshold, _trace_norm
    )
    rank = len(values)
    bound = (values[0] ** 2 / threshold + values[0]) * (
        (k**2 / threshold + 2 * k) * edge + max(0, rank - k) * math.sqrt(edge)
    )
    assert -1e-9 <= excess <= bound + 1e-9


@settings(deadline=None, max_examples=60)
@given(seed=SEEDS, d=st.integers(2, 8), m=st.integers(2, 12), share=st.floats(0.05, 0.95))
def test_lemma_2_bounds_the_error_of_the_noisy_group_step(seed, d, m, share):
    rng = np.random.default_rng(seed)
    C = rng.standard_normal((d, m)) * np.geomspace(4, 0.1, d)[:, None]
    rows = np.linalg.norm(C, axis=1)
    threshold = share * rows.max()
    k = int(np.sum(rows >= threshold))
    E = rng.exponential(size=d) * rng.uniform(0, 2) * rows.max() ** 2
    exact, noisy = (
        SharedMap.soft_threshold(S, threshold, 0.0)(C.T).T for S in (rows**2, rows**2 + E)
    )
    excess = _objective(noisy, C, threshold, _group_norm) - _objective(
        exact, C, threshold, _group_norm
    )
    bound = (d / threshold * rows.max() ** 2 + rows.max()) * (
        k / (2 * threshold) * E.max() + max(0, d - k) * math.sqrt(E.max())
    )
    assert -1e-9 <= excess <= bound + 1e-9


def test_rounds_follow_the_printed_orders():
    # Theorem 2 at its optimal α: T = (4/M)^(2/5) is written out here once more.
    m, d, epsilon, delta = 10**8, 10, 1.0, 1e-5
    cost = math.sqrt(math.log(math.e + epsilon / (math.sqrt(2) * delta)) + 2 * epsilon) / epsilon
    size = d * math.log(d) / math.sqrt(m)
    plain = math.ceil((1 / (cost * size)) ** (2 / 5))
    fast = math.ceil((3.24 * math.sqrt(1.8) / (cost * size)) ** (2 / 9))
    given = {"diagonal": False, "epsilon": epsilon, "delta": delta}
    assert theory_rounds(m, d, accelerated=False, **given) == plain > 1
    assert theory_rounds(m, d, accelerated=True, exponent=0.4, **given) == fast
    # Claim 2: acceleration needs fewer rounds.
    assert fast < plain


@pytest.mark.parametrize("accelerated", [True, False])
@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("diagonal", [True, False])
def test_more_tasks_never_want_fewer_rounds(accelerated, delta, diagonal):
    counts = [
        theory_rounds(10**power, 8, 1.0, delta, diagonal=diagonal, accelerated=accelerated)
        for power in range(1, 10)
    ]
    assert counts == sorted(counts)
    assert counts[0] >= 1
    strong = [
        theory_rounds(
            10**power,
            8,
            1.0,
            delta,
            diagonal=diagonal,
            accelerated=accelerated,
            ratio=0.9,
            rate=0.3,
        )
        for power in range(1, 10)
    ]
    assert strong == sorted(strong)


def test_assumption_1_is_what_the_plan_answers():
    # m > d² log² d (log(e + ε/(√2 δ)) + 2ε)/ε², and without the squares for groups.
    inside = math.log(math.e + 0.5 / (math.sqrt(2) * 1e-4)) + 1.0
    wanted = (30 * math.log(30)) ** 2 * inside / 0.25
    assert theory_tasks(30, 0.5, 1e-4, diagonal=False) == pytest.approx(wanted)
    model = tacit.LowRankRegressor(0.5, delta=1e-4)
    few, many = model.plan(1000, 30), model.plan(10**7, 30)
    assert few.tasks_needed == pytest.approx(wanted)
    assert "enough tasks" in few.table()
    assert "not by the theorems" in few.table()
    assert "yes: Assumption 1" in many.table()
    groups = tacit.GroupSparseRegressor(0.5, delta=1e-4).plan(1000, 30)
    assert groups.tasks_needed == pytest.approx(math.log(30) * math.sqrt(inside) / 0.5)
    assert tacit.SharedPriorRegressor().plan(1000, 30).tasks_needed is None


def test_theory_is_a_setting_of_the_rounds():
    model = tacit.GroupSparseRegressor(
        1.0, update="proximal", shrinkage="soft-threshold", n_rounds="theory", alpha="theory"
    )
    planned = model.plan(200, 6)
    asked = theory_rounds(200, 6, 1.0, 1e-5, diagonal=True, accelerated=True, exponent=0.4)
    assert len(planned.releases) == asked > 1
    data = make_low_rank(40, 10, 6, random_state=0).train
    model.set_params(random_state=0).fit(data.X, data.y, tasks=data.task_of_row)
    assert model.privacy_.holds is False  # seeded
    assert np.isfinite(model.coef_).all()
    assert theory_threshold(400, 4, 2.0) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "given",
    [
        {"n_rounds": "theory"},
        {"alpha": "theory"},
        {"alpha": "theory", "update": "proximal"},
        {"iterate": "average"},
        {"iterate": "first"},
        {
            "alpha": "theory",
            "update": "proximal",
            "shrinkage": "soft-threshold",
            "epsilon": math.inf,
        },
    ],
)
def test_theory_where_it_has_no_meaning_is_refused(given):
    data = make_low_rank(5, 6, 3, random_state=0).train
    with pytest.raises(InvalidInput, match=r"theory|average|iterate"):
        tacit.LowRankRegressor(**given).fit(data.X, data.y, tasks=data.task_of_row)


def test_the_averaged_iterate_is_the_mean_over_rounds():
    data = make_low_rank(30, 12, 5, random_state=1).train
    common = {"update": "proximal", "shrinkage": "soft-threshold", "random_state": 3}
    given = {"epsilon": 5.0, "fit_intercept": False, "accelerated": False, **common}

    def fitted(n_rounds, iterate):
        # One budget a round, whatever the number of rounds: noise and steps then agree.
        model = tacit.LowRankRegressor(n_rounds=n_rounds, iterate=iterate, **given)
        return model.fit(data.X, data.y, tasks=data.task_of_row).coef_

    np.testing.assert_allclose(fitted(1, "average"), fitted(1, "last"))
    assert np.abs(fitted(4, "average") - fitted(4, "last")).max() > 1e-3
