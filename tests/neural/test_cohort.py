"""Cohort training: the published update, and nothing of one task in another's bits."""

from __future__ import annotations

import os
from types import SimpleNamespace

import numpy as np
import pytest

from tacit.errors import InvalidInput

jax = pytest.importorskip("jax", reason="needs the extra neural")

from tacit.neural import (  # noqa: E402
    LocalTraining,
    Model,
    NoPull,
    StackedRows,
    image_cnn,
    mlp,
    multinomial_logistic,
    squared_error,
    train_cohort,
)
from tacit.privacy.bounds import VectorClip  # noqa: E402
from tacit.privacy.clipped_sums import ClippedSum  # noqa: E402

D, CLASSES = 6, 3
COUNTS = (12, 1, 30, 7, 25, 10)


def federation(counts=COUNTS, seed=0, n_features=D):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    X = rng.standard_normal((offsets[-1], n_features)).astype(np.float32)
    y = rng.integers(0, CLASSES, offsets[-1])
    keys = rng.integers(0, 2**32, (len(counts), 2), dtype=np.uint32)
    return SimpleNamespace(X=X, y=y, offsets=offsets, keys=keys)


def run(training, data, positions, *, models=None, centre=None, **changed):
    """Return updates and models by position."""
    given = {"turn": 0, "strength": 0.1, "learning_rate": 0.1, "clip": 1e6} | changed
    centre = training.model.opening() if centre is None else centre
    rows = StackedRows.of(data.X, data.y, data.offsets)
    done = {}
    for turn in train_cohort(
        training,
        rows,
        np.asarray(positions),
        centre=centre,
        models=models,
        keys=data.keys,
        **given,
    ):
        for slot, position in enumerate(turn.positions):
            pick = jax.tree.map(lambda leaf, s=slot: leaf[s], (turn.updates, turn.models))
            done[int(position)] = pick
    return done


def flat(tree):
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def personal(training, data, seed=5):
    rng = np.random.default_rng(seed)
    centre = training.model.opening()
    shape = (len(data.keys),)
    return jax.tree.map(
        lambda leaf: rng.standard_normal(shape + leaf.shape).astype(np.float32), centre
    )


def softmax_steps(X, y, start, centre, strength, rate, steps):
    """Full-batch steps of the published update, in float64."""
    w, c = (np.vstack([p["weight"], p["bias"]]).astype(float) for p in (start, centre))
    rows = np.column_stack([X, np.ones(len(X))]).astype(float)
    for _ in range(steps):
        outputs = rows @ w
        p = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        p[np.arange(len(y)), y] -= 1
        w = w - rate * (rows.T @ p / len(y) + strength * (w - c))
    return w


@pytest.mark.parametrize("n_outputs", [CLASSES, 10])
def test_a_turn_is_the_published_update_with_the_pull_in_every_step(n_outputs):
    training = LocalTraining(multinomial_logistic(D, n_outputs), batch_size=64, epochs=7)
    data = federation()
    models = personal(training, data)
    centre = jax.tree.map(lambda leaf: leaf + 0.3, training.model.opening())
    done = run(training, data, range(6), models=models, centre=centre, strength=0.8)
    for i, (update, model) in done.items():
        rows = slice(data.offsets[i], data.offsets[i + 1])
        start = jax.tree.map(lambda leaf, i=i: leaf[i], models)
        expected = softmax_steps(data.X[rows], data.y[rows], start, centre, 0.8, 0.1, 7)
        np.testing.assert_allclose(model["weight"], expected[:-1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(flat(update), flat(model) - flat(centre), rtol=1e-5, atol=1e-6)


def test_steps_count_steps_whatever_the_number_of_rows():
    data = federation()
    steps = LocalTraining(multinomial_logistic(D, CLASSES), batch_size=64, steps=3)
    epochs = LocalTraining(steps.model, batch_size=64, epochs=3)
    for i, (update, _) in run(steps, data, range(6)).items():
        np.testing.assert_array_equal(flat(update), flat(run(epochs, data, [i])[i][0]))


def test_an_update_is_clipped_to_the_radius():
    training = LocalTraining(multinomial_logistic(D, CLASSES))
    data = federation()
    free, clipped = (run(training, data, range(6), clip=clip) for clip in (1e6, 0.05))
    for i in free:
        whole, cut = flat(free[i][0]), flat(clipped[i][0])
        assert np.linalg.norm(cut) == pytest.approx(0.05, rel=1e-5)
        np.testing.assert_allclose(cut, 0.05 * whole / np.linalg.norm(whole), rtol=1e-4)


def network(**changed):
    return LocalTraining(mlp(D, CLASSES, hidden=(16,)), batch_size=4, epochs=2, **changed)


def test_a_task_gives_the_same_bits_in_every_cohort_and_stack():
    training, data = network(), federation()
    together = run(training, data, range(6), models=(models := personal(training, data)))
    backwards = run(training, data, [5, 2, 0], models=models)
    rows = slice(data.offsets[2], data.offsets[3])
    alone = SimpleNamespace(
        X=data.X[rows], y=data.y[rows], offsets=np.array([0, 30]), keys=data.keys[2:3]
    )
    by_itself = run(training, alone, [0], models=jax.tree.map(lambda leaf: leaf[2:3], models))
    for kind in (0, 1):
        expected = flat(together[2][kind])
        np.testing.assert_array_equal(flat(backwards[2][kind]), expected)
        np.testing.assert_array_equal(flat(by_itself[0][kind]), expected)


def test_the_image_network_gives_the_same_bits_in_every_cohort():
    training = LocalTraining(image_cnn(CLASSES, size=8), batch_size=4)
    data = federation((9, 4, 5, 6), n_features=64)
    together = run(training, data, range(4))
    for i in range(4):
        np.testing.assert_array_equal(flat(run(training, data, [i])[i][0]), flat(together[i][0]))


def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch):
    training, data = network(), federation((8,) * 600)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = run(training, data, range(600))
    monkeypatch.delenv("OMP_NUM_THREADS")
    many = run(training, data, range(600))
    assert len(one) == len(many) == 600
    for i in one:
        np.testing.assert_array_equal(flat(one[i][0]), flat(many[i][0]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e38])
def test_a_task_that_leaves_the_finite_numbers_is_silent_and_changes_nobody(bad):
    training, data = network(), federation()
    models = personal(training, data)
    before = run(training, data, range(6), models=models)
    data.X[data.offsets[2] : data.offsets[3]] = bad
    after = run(training, data, range(6), models=models)
    assert not flat(after[2][0]).any()
    np.testing.assert_array_equal(
        flat(after[2][1]), flat(jax.tree.map(lambda leaf: leaf[2], models))
    )
    for i in set(before) - {2}:
        for kind in (0, 1):
            np.testing.assert_array_equal(flat(after[i][kind]), flat(before[i][kind]))


def test_a_task_without_rows_says_how_far_its_model_is():
    training, data = network(), federation((5, 0, 4))
    models = personal(training, data)
    update, model = run(training, data, range(3), models=models)[1]
    np.testing.assert_array_equal(flat(model), flat(jax.tree.map(lambda leaf: leaf[1], models)))
    np.testing.assert_array_equal(flat(update), flat(model) - flat(training.model.opening()))


def test_tasks_without_models_start_at_the_centre():
    training, data = network(), federation()
    centre = training.model.opening()
    copies = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], 6, axis=0), centre)
    kept, none = run(training, data, range(6), models=copies), run(training, data, range(6))
    for i in kept:
        assert none[i][1] is None
        np.testing.assert_array_equal(flat(kept[i][0]), flat(none[i][0]))


def test_key_and_turn_choose_the_minibatches():
    training, data = network(), federation()
    first = flat(run(training, data, [2])[2][0])
    np.testing.assert_array_equal(flat(run(training, data, [2])[2][0]), first)
    assert (flat(run(training, data, [2], turn=1)[2][0]) != first).any()
    data.keys[2, 0] ^= 1
    assert (flat(run(training, data, [2])[2][0]) != first).any()


def test_every_task_may_have_its_own_strength():
    training, data = network(), federation()
    strengths = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    models = personal(training, data)
    mixed = run(training, data, range(6), models=models, strength=strengths)
    for i, strength in enumerate(strengths):
        single = run(training, data, [i], models=models, strength=float(strength))
        np.testing.assert_array_equal(flat(mixed[i][1]), flat(single[i][1]))
    free = run(network(pull=NoPull()), data, [0], models=models)
    np.testing.assert_allclose(flat(mixed[0][1]), flat(free[0][1]), rtol=1e-5, atol=1e-6)


def test_rounds_cohorts_sizes_and_numbers_compile_nothing_again():
    traced = []
    inner = mlp(D, CLASSES, hidden=(5,))

    def apply(params, x):
        traced.append(x.shape)
        return inner.apply(params, x)

    training = LocalTraining(Model(inner.init, apply))
    data = federation()
    run(training, data, [0])
    once = len(traced)
    for turn in range(1, 4):
        run(training, data, range(turn + 2), turn=turn, learning_rate=0.1 / turn, clip=1.0 / turn)
    run(training, data, [1], strength=np.linspace(0, 1, 6))
    assert len(traced) == once


def test_regression_and_any_pytree_of_parameters_work():
    model = Model(
        lambda key: (jax.random.normal(key, (D, 1)), [jax.numpy.zeros(1)]),
        lambda params, x: x @ params[0] + params[1][0],
    )
    training = LocalTraining(model, loss=squared_error, epochs=200)
    data = federation((40, 40))
    data.y = (data.X @ np.arange(D)).astype(np.float32)
    copies = jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], 2, 0), model.opening())
    done = run(training, data, range(2), models=copies, strength=0.0, learning_rate=0.05)
    np.testing.assert_allclose(done[1][1][0][:, 0], np.arange(D), atol=1e-3)


def test_impossible_schedules_are_refused():
    with pytest.raises(InvalidInput, match="batch_size=0"):
        LocalTraining(mlp(2, 2), batch_size=0)
    with pytest.raises(InvalidInput, match="steps=0"):
        LocalTraining(mlp(2, 2), steps=0)


def summed(training, data, positions, total, **changed):
    """Return the turns of a cohort whose updates go to ``total``."""
    given = {"models": None, "turn": 3, "strength": 0.5, "learning_rate": 0.1} | changed
    rows = StackedRows.of(data.X, data.y, data.offsets)
    centre = training.model.opening(seed=1)
    return list(
        train_cohort(
            training, rows, np.asarray(positions), centre=centre, keys=data.keys, total=total,
            **given,
        )
    )  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="processors are Linux's to give")
@pytest.mark.parametrize("keep", [False, True])
def test_updates_are_added_up_where_they_are_trained_and_processors_are_given_back(keep):
    training = LocalTraining(mlp(D, CLASSES, (9,)))  # a size of its own, so that it is compiled
    data, allowed, bound = federation(), os.sched_getaffinity(0), VectorClip(0.01)
    centre = training.model.opening(seed=1)
    shapes = [leaf.shape for leaf in jax.tree.leaves(centre)]
    models = personal(training, data) if keep else None
    apart, total = (ClippedSum(bound, shapes) for _ in range(2))
    turns = summed(training, data, [4, 0, 2], total, models=models)
    assert os.sched_getaffinity(0) == allowed
    assert [int(i) for turn in turns for i in turn.positions] == [4, 0, 2]
    assert all(turn.updates is None and (turn.models is None) != keep for turn in turns)
    for turn in summed(training, data, [2, 4, 0], None, models=models):
        apart.add(jax.tree.leaves(turn.updates))
    assert total.value.any()
    np.testing.assert_array_equal(total.value, apart.value)
