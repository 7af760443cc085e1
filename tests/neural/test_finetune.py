"""Fine-tuning: four objectives, each against its formula."""

from __future__ import annotations

import numpy as np
import pytest

import tacit
from tacit.engines import Local
from tacit.errors import InvalidInput

jax = pytest.importorskip("jax", reason="needs the extra neural")

import jax.numpy as jnp  # noqa: E402

from tacit.neural import (  # noqa: E402
    LocalTraining,
    PrivateFedAvgClassifier,
    StackedRows,
    fine_tune,
    multinomial_logistic,
)
from tacit.neural.finetune import FINE_TUNING  # noqa: E402

D, CLASSES, ROWS, RATE, STRENGTH = 4, 3, 12, 0.2, 0.7


def setting():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2 * ROWS, D)).astype(np.float32)
    y = rng.integers(0, CLASSES, 2 * ROWS)
    draw = lambda *shape: rng.standard_normal(shape).astype(np.float32)  # noqa: E731
    centre = {"weight": draw(D, CLASSES), "bias": draw(CLASSES)}
    models = {"weight": draw(2, D, CLASSES), "bias": draw(2, CLASSES)}
    keys = rng.integers(0, 2**32, (2, 2), dtype=np.uint32)
    return X, y, centre, models, keys


def tuned(method, epochs=1, strength=STRENGTH, models="own", rate=RATE):
    X, y, centre, own, keys = setting()
    training = LocalTraining(multinomial_logistic(D, CLASSES), batch_size=2 * ROWS, epochs=epochs)
    return fine_tune(
        method,
        training,
        StackedRows.of(X, y, np.array([0, ROWS, 2 * ROWS])),
        centre=centre,
        models=own if models == "own" else None,
        keys=keys,
        turn=9,
        strength=strength,
        learning_rate=rate,
    )


def log_softmax(outputs):
    outputs = outputs.astype(float)
    top = outputs.max(axis=1, keepdims=True)
    return outputs - top - np.log(np.exp(outputs - top).sum(axis=1, keepdims=True))


def penalty(method, w, X, y, centre):
    """Return the pull at ``w`` in float64, from its formula."""
    c = np.vstack([centre["weight"], centre["bias"]]).astype(float)
    own, shared = log_softmax(X @ w), log_softmax(X @ c)
    p, q = np.exp(own), np.exp(shared)
    if method == "vanilla":
        return 0.0
    if method == "mean-regularized":
        return 0.5 * np.sum((w - c) ** 2)
    if method == "kl":
        return 0.5 * np.mean((p * (own - shared)).sum(1) + (q * (shared - own)).sum(1))
    errors = q - np.eye(CLASSES)[y]
    fisher = np.mean((X[:, :, None] * errors[:, None, :]) ** 2, axis=0)
    return 0.5 * np.sum(fisher * (w - c) ** 2)


@pytest.mark.parametrize("method", FINE_TUNING)
def test_one_step_follows_the_gradient_of_the_objective(method):
    X, y, centre, models, _ = setting()
    after = tuned(method)
    for i in range(2):
        rows = slice(ROWS * i, ROWS * (i + 1))
        full = np.column_stack([X[rows], np.ones(ROWS)]).astype(float)
        start = np.vstack([models["weight"][i], models["bias"][i]]).astype(float)

        def objective(w, full=full, rows=rows):
            fit = -np.mean(log_softmax(full @ w)[np.arange(ROWS), y[rows]])
            return fit + STRENGTH * penalty(method, w, full, y[rows], centre)

        gradient = np.zeros_like(start)
        for entry in np.ndindex(*start.shape):
            step = np.zeros_like(start)
            step[entry] = 1e-5
            gradient[entry] = (objective(start + step) - objective(start - step)) / 2e-5
        expected = start - RATE * gradient
        got = np.vstack([after["weight"][i], after["bias"][i]])
        np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("method", sorted(set(FINE_TUNING) - {"vanilla"}))
def test_a_strong_pull_keeps_the_predictions_of_the_centre(method):
    X, _, centre, _, _ = setting()
    shared = log_softmax(X @ centre["weight"] + centre["bias"])

    def moved(strength):
        after = tuned(method, epochs=40, strength=strength, models="centre", rate=0.01)
        own = [log_softmax(X @ after["weight"][i] + after["bias"][i]) for i in range(2)]
        return np.abs(np.exp(own) - np.exp(shared)).mean()

    assert moved(60.0) < 0.7 * moved(0.0)


def test_tasks_without_models_start_at_the_centre():
    _, _, centre, _, _ = setting()
    still = tuned("vanilla", models="centre", rate=1e-30)
    np.testing.assert_array_equal(still["weight"][1], jnp.asarray(centre["weight"]))


def test_fine_tuning_a_task_reads_no_other_task():
    X, y, centre, models, keys = setting()
    training = LocalTraining(multinomial_logistic(D, CLASSES), batch_size=5, epochs=3)

    def second(X, y, models):
        rows = StackedRows.of(X, y, np.array([0, ROWS, 2 * ROWS]))
        given = {"centre": centre, "models": models, "keys": keys, "turn": 0}
        return fine_tune("ewc", training, rows, **given, learning_rate=0.1)["weight"][1]

    expected = second(X, y, models)
    other_X, other_y, other = X.copy(), y.copy(), jax.tree.map(np.copy, models)
    other_X[:ROWS] = np.nan
    other_y[:ROWS] = 0
    other["weight"][0] = 1e30
    np.testing.assert_array_equal(second(other_X, other_y, other), expected)


def test_an_unknown_method_is_refused_with_the_known_ones():
    with pytest.raises(InvalidInput, match="method='l2': must be one of 'ewc'"):
        tuned("l2")


def test_every_method_ends_a_global_model_in_its_own_way():
    X, y, *_ = setting()
    ends = [
        PrivateFedAvgClassifier(np.inf, n_rounds=1, fine_tune=method)
        .fit(X, y, tasks=np.repeat([0, 1], ROWS))
        .models_
        for method in FINE_TUNING
    ]
    for number, one in enumerate(ends):
        for other in ends[number + 1 :]:
            assert np.abs(one - other).max() > 1e-6


@pytest.mark.parametrize("name", ["NeuralMeanRegularizedClassifier", "PrivateFedAvgRegressor"])
@pytest.mark.parametrize("engine", ["local", Local(max_rows=3)], ids=["stack", "batches"])
def test_tasks_of_one_row_fit_whoever_has_more(name, engine):
    for counts in ([1, 1, 1], [9, 1, 1]):
        task = np.repeat(np.arange(3), counts)
        X = np.random.default_rng(0).standard_normal((len(task), 4))
        y = X[:, 0] if name.endswith("Regressor") else (X[:, 0] > 0).astype(int)
        classes = {} if name.endswith("Regressor") else {"classes": (0, 1)}
        model = getattr(tacit, name)(1.0, n_rounds=2, engine=engine, random_state=0, **classes).fit(
            X, y, tasks=task
        )
        assert np.isfinite(model.predict(X, tasks=task)).all()
