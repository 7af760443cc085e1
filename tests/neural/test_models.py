"""Models: pure functions whose layers agree with XLA's own, and any user's pair of functions."""

from __future__ import annotations

import numpy as np
import pytest

from tacit.errors import InvalidInput

jax = pytest.importorskip("jax", reason="needs the extra neural")

import jax.numpy as jnp  # noqa: E402

from tacit.neural import Model, image_cnn, mlp, multinomial_logistic, sensor_cnn  # noqa: E402
from tacit.neural._layers import convolve, lines_first, pool, rows_first  # noqa: E402

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


@pytest.mark.parametrize(
    ("shape", "kernel", "layout"),
    [
        ((2, 9, 8, 3), (5, 5), "NHWC/HWIO"),
        ((2, 9, 8, 1), (5, 3), "NHWC/HWIO"),
        ((2, 9, 3), (4,), "NHC/HIO"),
        ((2, 9, 1), (5,), "NHC/HIO"),
    ],
)
def test_patches_and_a_product_are_the_convolution_of_xla(shape, kernel, layout):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32)
    weight = rng.standard_normal((*kernel, shape[-1], 4), dtype=np.float32)
    rows, weights = layout.split("/")
    expected = jax.lax.conv_general_dilated(
        x, weight, (1,) * len(kernel), "SAME", dimension_numbers=(rows, weights, rows)
    )
    found = convolve({"weight": weight}, lines_first(jnp.asarray(x)))
    np.testing.assert_allclose(rows_first(found), expected.reshape(len(x), -1), atol=2e-5)


def test_pooling_takes_the_maximum_of_squares_and_cuts_an_odd_edge():
    x = np.random.default_rng(0).standard_normal((2, 5, 4, 3)).astype(np.float32)
    expected = x[:, :4].reshape(2, 2, 2, 2, 2, 3).max(axis=(2, 4))
    found = rows_first(pool(lines_first(jnp.asarray(x))))
    np.testing.assert_array_equal(found, expected.reshape(2, -1))


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
