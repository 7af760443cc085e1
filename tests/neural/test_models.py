"""Models: pure functions whose layers agree with XLA's own, and any user's pair of functions."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidInput

jax = pytest.importorskip("jax", reason="needs the extra neural")

import jax.numpy as jnp  # noqa: E402

from tacit.neural import (  # noqa: E402
    LocalTraining,
    Model,
    NoPull,
    StackedRows,
    image_cnn,
    mlp,
    multinomial_logistic,
    sensor_cnn,
    train_cohort,
)
from tacit.neural._layers import dense, halved, lines_first, rows_first  # noqa: E402

READY = {
    "logistic": (multinomial_logistic(12, 3), (12,), 3),
    "mlp": (mlp(12, 3, hidden=(8, 7)), (12,), 3),
    "image": (image_cnn(62), (784,), 62),
    "sensor": (sensor_cnn(6, length=30, n_channels=3), (30, 3), 6),
}


@pytest.mark.parametrize("name", READY)
def test_a_ready_model_maps_a_minibatch_to_outputs(name):
    model, shape, n_outputs = READY[name]
    params = model.opening()
    x = np.random.default_rng(0).random((5, *shape), dtype=np.float32)
    assert jax.jit(model.apply)(params, x).shape == (5, n_outputs)
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(params))


@pytest.mark.parametrize("name", READY)
def test_rows_of_a_minibatch_do_not_see_each_other(name):
    model, shape, _ = READY[name]
    params = model.opening(3)
    x = np.random.default_rng(1).random((4, *shape), dtype=np.float32)
    other = x.copy()
    other[1:] = 7.0
    apply = jax.jit(model.apply)
    np.testing.assert_array_equal(apply(params, x)[0], apply(params, other)[0])


def test_the_image_network_is_the_one_of_the_literature():
    params = image_cnn(62).opening()
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == 832 + 51_264 + 1_606_144 + 31_806


def pooled_by_xla(weight, x):
    layout = ("NHWC", "HWIO", "NHWC") if x.ndim == 4 else ("NHC", "HIO", "NHC")
    half = (1, *(2 for _ in x.shape[1:-1]), 1)
    rows = jax.lax.conv_general_dilated(
        x, weight, (1,) * (x.ndim - 2), "SAME", dimension_numbers=layout
    )
    return jax.lax.reduce_window(rows, -jnp.inf, jax.lax.max, half, half, "VALID")


def assert_close(found, expected, relative):
    for got, wanted in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=relative * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ((3, 14, 14, 32), (5, 5)),
        ((2, 9, 8, 12), (5, 5)),
        ((2, 2, 7, 8), (5, 5)),
        ((2, 16, 5, 9), (5, 5)),
        ((2, 9, 8, 3), (5, 5)),
        ((2, 9, 8, 1), (5, 3)),
        ((2, 9, 3), (4,)),
        ((2, 9, 1), (5,)),
    ],
)
def test_few_products_give_the_pooled_convolution_of_xla_and_its_gradients(shape, kernel):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32)
    weight = rng.standard_normal((*kernel, shape[-1], 6), dtype=np.float32)

    def found(weight, x):
        return rows_first(halved({"weight": weight}, lines_first(x)))

    def expected(weight, x):
        return pooled_by_xla(weight, x).reshape(len(x), -1)

    back = rng.standard_normal(expected(weight, x).shape, dtype=np.float32)

    def all_of(form):
        outputs, pull = jax.vjp(form, weight, x)
        return outputs, pull(back)

    (got, slopes), (wanted, wanted_slopes) = (
        jax.jit(all_of, static_argnums=0)(f) for f in (found, expected)
    )
    assert_close(got, wanted, 1e-5)
    assert_close(slopes, wanted_slopes, 2e-5)


def test_equal_entries_of_a_square_share_its_gradient():
    weight = np.zeros((5, 5, 1, 1), np.float32)
    weight[2, 2] = 1
    x = np.array([[3, 3], [1, 3]], np.float32).reshape(1, 2, 2, 1)
    slope = jax.grad(lambda x: jnp.sum(halved({"weight": weight}, lines_first(x))))(x)
    np.testing.assert_array_equal(slope.ravel(), [0.5, 0.25, 0, 0.25])


@pytest.mark.parametrize("n_rows", [3, 40])
def test_gradients_of_a_dense_layer_are_those_of_a_product(n_rows):
    rng = np.random.default_rng(0)
    x, weight, bias, back = (
        rng.standard_normal(shape, dtype=np.float32)
        for shape in ((n_rows, 7), (7, 5), (5,), (n_rows, 5))
    )
    layer = {"weight": weight, "bias": bias}
    found = jax.vjp(dense, layer, x)[1](back)
    expected = {"bias": back.sum(axis=0), "weight": x.T @ back}, back @ weight.T
    assert_close(found, expected, 1e-6)


def test_a_turn_of_the_image_network_is_that_of_plain_layers():
    def plain(params, x):
        x = x.reshape(-1, 28, 28, 1)
        for name in ("conv1", "conv2"):
            x = jax.nn.relu(pooled_by_xla(params[name]["weight"], x) + params[name]["bias"])
        x = x.reshape(len(x), -1)
        x = jax.nn.relu(x @ params["dense1"]["weight"] + params["dense1"]["bias"])
        return x @ params["dense2"]["weight"] + params["dense2"]["bias"]

    model = image_cnn(10)
    rng = np.random.default_rng(0)
    X, y = rng.random((5, 784), dtype=np.float32), rng.integers(0, 10, 5)
    rows = StackedRows.of(X, y, np.array([0, 5]))
    ends = []
    for network in (model, Model(model.init, plain)):
        training = LocalTraining(network, pull=NoPull(), batch_size=3)
        (turn,) = train_cohort(
            training,
            rows,
            np.arange(1),
            centre=model.opening(),
            models=None,
            keys=np.zeros((1, 2), np.uint32),
            turn=0,
            strength=0.0,
            learning_rate=0.05,
        )
        ends.append(turn.updates)
    assert_close(*ends, 1e-5)


def test_the_opening_is_a_constant_of_the_seed():
    first, again = (jax.tree.leaves(mlp(4, 2).opening(1)) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_model_of_the_same_sizes_is_the_same_object():
    assert mlp(4, 2, hidden=[3]) is mlp(4, 2, hidden=(3,))
    assert image_cnn(10) is image_cnn(10)


def test_a_parameter_that_is_not_float32_is_refused_by_name():
    model = Model(lambda key: {"w": jnp.zeros(3), "seen": jnp.zeros((), jnp.int32)}, lambda p, x: x)
    with pytest.raises(InvalidInput, match=r"\['seen'\] has dtype int32"):
        model.opening()


@pytest.mark.parametrize(
    "make",
    [
        lambda: multinomial_logistic(0, 3),
        lambda: mlp(3, 2, hidden=(0,)),
        lambda: image_cnn(10, size=3),
        lambda: sensor_cnn(2, length=3),
        lambda: image_cnn(1.5),
    ],
)
def test_impossible_sizes_are_refused(make):
    with pytest.raises(InvalidInput, match="="):
        make()
