"""The kernel of large logistic models: the plain steps' numbers, and every task's bits its own."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="needs the extra neural")

from tacit.neural import (  # noqa: E402
    ElasticWeights,
    LocalTraining,
    NoPull,
    Quadratic,
    StackedRows,
    _softmax,
    multinomial_logistic,
    train_cohort,
)
from tacit.privacy.bounds import VectorClip  # noqa: E402
from tacit.privacy.clipped_sums import ClippedSum  # noqa: E402

D, CLASSES = 37, 6
COUNTS = (12, 1, 40, 0, 7, 150, 64, 25, 10)


def federation(seed=0):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(COUNTS)])
    X = rng.standard_normal((offsets[-1], D)).astype(np.float32)
    keys = rng.integers(0, 2**32, (len(COUNTS), 2), dtype=np.uint32)
    y = rng.integers(0, CLASSES, offsets[-1])
    return SimpleNamespace(X=X, y=y, offsets=offsets, keys=keys)


def params(seed, *shape):
    rng = np.random.default_rng(seed)
    return {
        "weight": 0.1 * rng.standard_normal((*shape, D, CLASSES)).astype(np.float32),
        "bias": 0.1 * rng.standard_normal((*shape, CLASSES)).astype(np.float32),
    }


def run(training, data, positions, models=None, **changed):
    """Return updates and models, flat, by position."""
    given = {"turn": 3, "strength": 0.7, "learning_rate": 0.2, "clip": 1e6} | changed
    rows = StackedRows.of(data.X, data.y, data.offsets)
    found = {}
    for turn in train_cohort(
        training, rows, np.asarray(positions), centre=params(1), models=models, keys=data.keys,
        **given,
    ):  # fmt: skip
        for slot, position in enumerate(turn.positions):
            found[int(position)] = [
                None if tree is None else np.concatenate([leaf[slot].ravel() for leaf in leaves])
                for tree in (turn.updates, turn.models)
                for leaves in [jax.tree.leaves(tree)]
            ]
    return found


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(_softmax, "_FROM", 1)


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize("pull", [NoPull(), Quadratic()])
@pytest.mark.parametrize(
    "how",
    [
        {"batch_size": 10},
        {"batch_size": 3, "epochs": 3},
        {"batch_size": 70, "epochs": 2},
        {"batch_size": 10, "steps": 7},
    ],
    ids=str,
)
def test_the_kernel_takes_the_plain_steps(monkeypatch, how, pull, personal):
    training = LocalTraining(multinomial_logistic(D, CLASSES), pull=pull, **how)
    data, models = federation(), params(2, len(COUNTS)) if personal else None
    rates = {"learning_rate": np.linspace(0.05, 0.4, len(COUNTS)), "clip": 0.5}
    plain = run(training, data, range(len(COUNTS)), models, **rates)
    monkeypatch.setattr(_softmax, "_FROM", 1)
    monkeypatch.setattr("tacit.neural.cohort._traced", None)  # nobody else is asked
    found = run(training, data, range(len(COUNTS)), models, **rates)
    for i in plain:
        np.testing.assert_allclose(found[i][0], plain[i][0], rtol=1e-4, atol=2e-6)
        assert np.linalg.norm(found[i][0]) <= 0.5 * (1 + 1e-6)
        if personal:
            np.testing.assert_allclose(found[i][1], plain[i][1], rtol=1e-4, atol=2e-6)
    assert not found[3][0].any() or personal


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize("hostile", [np.nan, np.inf, 3e38, None])
def test_a_task_ends_in_the_same_bits_whoever_trains_beside_it(kernel, personal, hostile):
    training = LocalTraining(multinomial_logistic(D, CLASSES), batch_size=8, epochs=2)
    models = params(2, len(COUNTS)) if personal else None
    alone, data = federation(), federation()
    changed = [2, 5]
    for i in changed:
        own = slice(data.offsets[i], data.offsets[i + 1])
        data.y[own] = 0
        data.X[own] = 1.0 if hostile is None else hostile
    order = [5, 0, 2, 1, 3, 4, 5, 2, 6, 7, 8]  # the changed ones in front of others, and again
    found = run(training, data, order, models)
    for i in range(len(COUNTS)):
        if i in changed:
            continue
        expected = run(training, alone, [i], models)[i]
        np.testing.assert_array_equal(found[i][0], expected[0])
        if personal:
            np.testing.assert_array_equal(found[i][1], expected[1])
    if hostile in (np.inf,) or (hostile is not None and np.isnan(hostile)):
        for i in changed:
            assert not found[i][0].any()
            if personal:
                start = [leaf[i].ravel() for leaf in jax.tree.leaves(models)]
                np.testing.assert_array_equal(found[i][1], np.concatenate(start))


@pytest.mark.parametrize("personal", [False, True])
@pytest.mark.parametrize("radius", [1e-3, 1e3])
def test_a_sum_is_that_of_the_updates_one_by_one(kernel, personal, radius):
    training = LocalTraining(multinomial_logistic(D, CLASSES), batch_size=8)
    data, models = federation(), params(2, len(COUNTS)) if personal else None
    data.X[data.offsets[2] : data.offsets[3]] = np.nan  # counts as zero
    shapes = [leaf.shape for leaf in jax.tree.leaves(params(1))]
    apart, total = (ClippedSum(VectorClip(radius), shapes) for _ in range(2))
    order = [5, 0, 2, 1, 3, 4, 6, 7, 8]
    for update, _ in run(training, data, order, models).values():
        apart.add([update[None, :CLASSES], update[CLASSES:].reshape(1, D, CLASSES)])
    rows = StackedRows.of(data.X, data.y, data.offsets)
    for turn in train_cohort(
        training, rows, np.asarray(order), centre=params(1), models=models, keys=data.keys, turn=3,
        strength=0.7, learning_rate=0.2, clip=1e6, total=total,
    ):  # fmt: skip
        assert turn.updates is None
    assert total.value.any()
    # Padding counts as numbers of a message, so a clipped one may land a step (2⁻³⁰) apart.
    step = radius * 2.0**-29
    np.testing.assert_allclose(
        total.value, apart.value, rtol=0, atol=len(COUNTS) * step if radius < 1 else 0
    )


def test_the_model_and_the_training_alone_choose_the_kernel():
    centre = params(1)
    large = {"weight": np.zeros((1000, 10), np.float32), "bias": np.zeros(10, np.float32)}
    training = LocalTraining(multinomial_logistic(1000, 10))
    assert _softmax.suits(training, large, "cpu")
    assert not _softmax.suits(training, large, "gpu")
    assert not _softmax.suits(LocalTraining(multinomial_logistic(D, CLASSES)), centre, "cpu")
    for other in ({"pull": ElasticWeights()}, {"full_batch": True}):
        changed = LocalTraining(training.model, **other)
        assert not _softmax.suits(changed, large, "cpu")


def test_exponentials_are_within_two_units_in_the_last_place(kernel):
    from tacit.neural._softmax_kernel import _exponentials

    x = np.linspace(-86.5, 0, 100_003).astype(np.float32)
    found, power = x.copy(), np.empty(len(x), np.int32)
    _exponentials(found, np.float32(0), power, power.view(np.float32))
    exact = np.exp(x.astype(float))
    assert np.abs(found / exact - 1).max() < 2 * 2.0**-23
    ends = np.array([np.nan, -1e30, -np.inf], np.float32)
    _exponentials(ends, np.float32(0), power[:3], power[:3].view(np.float32))
    assert np.isnan(ends[0])
    assert (ends[1:] < 1e-37).all()
