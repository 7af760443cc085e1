"""Rates of convergence without noise (Theorems 3 and 5 of the paper, σ = 0, everybody takes part).

With the centre at the mean of the personal models, one full-batch step of everybody is a step of
gradient descent on G(w) = Σ_k ℓ_k(w_k) + (λ/2) Σ_k ‖w_k − w̄‖², since ∂G/∂w_k is the gradient of
task k's own objective at that centre; and moving the centre to the new mean only lowers it. G is
(L + λ)-smooth, and μ-strongly convex where every ℓ_k is: with steps η ≤ 1/(L + λ),
G(wᵗ⁺¹) − G* ≤ (1 − ημ)(G(wᵗ) − G*) (Theorem 5) and Σ_t ‖∇G(wᵗ)‖² ≤ (2/η)(G(w⁰) − G*) (Theorem 3).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs the extra neural")
optax = pytest.importorskip("optax", reason="needs the extra neural")

from tacit.neural import (  # noqa: E402
    CohortProtocol,
    Ending,
    FixedRadius,
    LocalTraining,
    mlp,
    multinomial_logistic,
    squared_error,
)
from tacit.privacy.mechanisms import Exact  # noqa: E402
from tacit.privacy.schedule import Call  # noqa: E402
from tacit.tasks import TaskSet  # noqa: E402

M, N, D, STRENGTH = 5, 60, 3, 0.4


def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((M, N, D)).astype(np.float32)
    W = rng.standard_normal(D) + rng.standard_normal((M, D))
    y = np.einsum("mnd,md->mn", X, W) + 0.3 * rng.standard_normal((M, N)) + 1.0
    return X, y


def course(network, rate, turns):
    """Yield the kept models (m, P) after every turn of the protocol without noise."""
    X, y = rows()
    training = LocalTraining(network, squared_error, batch_size=N)
    protocol = CohortProtocol(
        training,
        M,
        turns,
        FixedRadius(100.0),
        optax.sgd(1.0),
        strength=STRENGTH,
        learning_rate=rate,
        ending=Ending(None),
        classes=False,
    )
    tasks = TaskSet.from_arrays(X.reshape(-1, D), y.ravel(), np.repeat(np.arange(M), N))
    home, public = protocol.start(tasks, np.arange(M)), protocol.opening()
    (asked,) = protocol.rounds()
    yield protocol, np.tile(public.value, (M, 1))
    for turn in range(turns):
        call = Call(turn, 0, turn=turn)
        home, said = protocol.speak(home, public, call, None)
        public = protocol.read(public, asked.bound.total(said), call, Exact())
        np.testing.assert_allclose(public.value, home.models.mean(axis=0), atol=1e-4)
        yield protocol, home.models.copy()


def joint(network, layout, models):
    """Return G at models (m, P) and the squared norm of its gradient, in float64."""
    X, y = rows()

    def value(flat):
        own = sum(
            squared_error(network.apply(layout.tree(flat[i]), X[i]), y[i]).mean() for i in range(M)
        )
        return own + STRENGTH / 2 * ((flat - flat.mean(axis=0)) ** 2).sum()

    with jax.enable_x64(True):
        found, gradient = jax.value_and_grad(value)(jax.numpy.asarray(models, dtype=float))
        return float(found), float((gradient**2).sum())


def test_strongly_convex_losses_converge_at_the_rate_of_theorem_5():
    X, y = rows()
    full = np.concatenate([X, np.ones((M, N, 1))], axis=2).astype(float)
    moments = np.einsum("mnd,mne->mde", full, full) / N
    spectrum = np.linalg.eigvalsh(moments)
    rate = 1 / (spectrum.max() + STRENGTH)
    # The minimum of G: one linear system for all tasks together.
    mean = np.full((M, M), 1 / M)
    system = np.kron(STRENGTH * (np.eye(M) - mean), np.eye(D + 1))
    for i in range(M):
        own = slice(i * (D + 1), (i + 1) * (D + 1))
        system[own, own] += moments[i]
    aim = np.einsum("mnd,mn->md", full, y) / N
    best = np.linalg.solve(system, aim.ravel()).reshape(M, D + 1)
    network = multinomial_logistic(D, 1)
    gaps, least = [], None
    for protocol, models in course(network, rate, 40):
        if least is None:
            ordered = np.stack(
                [
                    protocol.layout.flat({"weight": b[:D, None], "bias": b[D:]}).astype(float)
                    for b in best
                ]
            )
            least = joint(network, protocol.layout, ordered)[0]
        gaps.append(joint(network, protocol.layout, models)[0] - least)
    factor = 1 - rate * spectrum.min()
    assert gaps[0] > 1.0
    assert gaps[-1] < 1e-3
    for before, after in pairwise(gaps):
        assert after <= factor * before + 1e-4


def test_the_gradients_of_a_network_add_up_to_no_more_than_theorem_3_allows():
    network, rate, turns = mlp(D, 1, hidden=(4,)), 0.05, 40
    values, squares = [], []
    for protocol, models in course(network, rate, turns):
        value, square = joint(network, protocol.layout, models)
        values.append(value)
        squares.append(square)
    assert values[-1] < 0.7 * values[0]
    assert sum(squares[:-1]) <= 2 / rate * (values[0] - values[-1])
