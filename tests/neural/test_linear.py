"""Linear models: a turn minimises the task's own objective, whatever the scale of its rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

jax = pytest.importorskip("jax", reason="needs the extra neural")

from tacit.neural import (  # noqa: E402
    LocalTraining,
    StackedRows,
    cross_entropy,
    multinomial_logistic,
    squared_error,
    train_cohort,
)
from tacit.neural._linear import Extent  # noqa: E402
from tacit.neural._outputs import lost  # noqa: E402
from tacit.neural.losses import CURVATURE  # noqa: E402

D, COUNTS = 5, (40, 1, 70, 9)


def federation(scale=1.0, loss=cross_entropy, seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(COUNTS)])
    X = scale * (rng.standard_normal((offsets[-1], D)) + 1.0)
    scores = X / scale @ rng.standard_normal((D, 3)) + 0.5 * rng.standard_normal((len(X), 3))
    y = scores.argmax(axis=1) if loss is cross_entropy else scores[:, 0]
    return X.astype(np.float32), y, offsets


def descended(X, y, offsets, loss, *, relative=1 / 16, steps=60, starts=None, stretch=1.0):
    training = LocalTraining(
        multinomial_logistic(D, 3 if loss is cross_entropy else 1),
        loss,
        steps=steps,
        full_batch=True,
    )
    rows = StackedRows.of(X, y, offsets)
    extent = Extent.of(rows)
    strength = extent.strength(relative)
    centre = jax.tree.map(lambda leaf: leaf + 0.1, training.model.opening())
    m = len(offsets) - 1
    first = jax.tree.map(lambda leaf: np.zeros((m, *leaf.shape), np.float32), centre)
    (turn,) = train_cohort(
        training,
        rows,
        np.arange(m),
        centre=centre,
        models=first if starts is None else starts,
        keys=np.zeros((m, 2), np.uint32),
        turn=0,
        strength=strength,
        learning_rate=extent.rate(CURVATURE[loss], strength),
        stretch=stretch,
    )
    models = np.concatenate([turn.models["weight"], turn.models["bias"][:, None]], axis=1)
    return models, strength


def objective(flat, X, y, loss, strength, centre):
    w = flat.reshape(D + 1, -1)
    outputs = np.column_stack([X, np.ones(len(X))]).astype(float) @ w
    if loss is cross_entropy:
        top = outputs.max(axis=1)
        total = top + np.log(np.exp(outputs - top[:, None]).sum(axis=1))
        fit = total - outputs[np.arange(len(y)), y]
    else:
        fit = 0.5 * (outputs[:, 0] - y) ** 2
    return fit.mean() + strength / 2 * np.sum((w - centre) ** 2)


@pytest.mark.parametrize("loss", [cross_entropy, squared_error])
@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
def test_a_turn_ends_at_the_minimum_whatever_the_scale(loss, scale):
    X, y, offsets = federation(scale, loss)
    stretch = np.array([1.0, 2.0, 0.5, 3.0])
    models, strength = descended(X, y, offsets, loss, stretch=stretch)
    for i in range(len(COUNTS)):
        own = slice(offsets[i], offsets[i + 1])
        given = (X[own], y[own], loss, strength[i], np.float32(0.1) * stretch[i])
        found = objective(models[i].astype(float).ravel(), *given)
        best = minimize(objective, models[i].astype(float).ravel(), given, tol=1e-12).fun
        assert best <= found <= best + 1e-4 * (1 + abs(best))


def test_steps_never_end_above_where_they_began():
    X, y, offsets = federation()
    high = {"weight": np.full((4, D, 3), 3.0, np.float32), "bias": np.zeros((4, 3), np.float32)}
    high["weight"][:, :, 0] = -3.0
    for steps in (1, 2, 3, 5):
        models, strength = descended(X, y, offsets, cross_entropy, steps=steps, starts=high)
        for i in range(len(COUNTS)):
            own = slice(offsets[i], offsets[i + 1])
            given = (X[own], y[own], cross_entropy, strength[i], 0.1)
            start = np.vstack([high["weight"][i], high["bias"][i]]).astype(float)
            after = objective(models[i].astype(float).ravel(), *given)
            assert after < objective(start.ravel(), *given)


def test_the_extent_is_that_of_the_rows_with_their_constant():
    X, y, offsets = federation(3.0)
    extent = Extent.of(StackedRows.of(X, y, offsets))
    for i in range(len(COUNTS)):
        own = np.column_stack([X[offsets[i] : offsets[i + 1]], np.ones(COUNTS[i])]).astype(float)
        assert extent.square[i] == pytest.approx((own**2).sum(axis=1).mean(), rel=1e-5)
        largest = np.linalg.eigvalsh(own.T @ own / COUNTS[i])[-1]
        assert 0.9 * largest <= extent.largest[i] <= largest * (1 + 1e-5)


def test_a_task_without_rows_stays_where_it_is():
    X, y, _ = federation()
    models, _ = descended(X, y, np.array([0, 60, 60, 120]), cross_entropy)
    assert np.array_equal(models[1], np.zeros((D + 1, 3)))
    assert np.isfinite(models).all()
    assert models[0].any()


def test_what_a_task_measures_and_loses_is_the_same_to_the_bit_in_every_stack():
    X, y, offsets = federation()
    model = multinomial_logistic(D, 3)
    rng = np.random.default_rng(1)
    m = len(COUNTS)
    models = jax.tree.map(
        lambda leaf: rng.standard_normal((m, *leaf.shape)).astype(np.float32), model.opening()
    )
    training = LocalTraining(model)

    def found(tasks):
        own = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in tasks])
        ends = np.concatenate([[0], np.cumsum([COUNTS[i] for i in tasks])])
        rows = StackedRows.of(X[own], y[own], ends)
        extent = Extent.of(rows)
        chosen = jax.tree.map(lambda leaf: leaf[list(tasks)], models)
        losses = lost(training, chosen, rows, (0.5, 1.0, 1.7))
        return np.vstack([extent.largest, extent.square, losses])

    together = found(range(m))
    for tasks in ([0], [2], [3, 1], [2, 0, 3]):
        np.testing.assert_array_equal(found(tasks), together[:, tasks])
