"""Layers as plain functions; convolutions are matrix products over patches.

XLA's own convolution is an order of magnitude slower inside a loop on a CPU (jax-ml/jax#12868),
and local training is a loop. Between convolutions images stand lines first, (height, n, width,
channels): neighbouring lines of all images are then one block of memory. A signal is an image of
one line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from tacit.neural._winograd import WIDTH, squares

__all__ = ["Layer", "dense", "halved", "initial", "lines_first", "rows_first"]

Layer = Mapping[str, Any]
_ROWS = 16
_FEWEST = 8  # channels from which products over channels alone are wide enough


def initial(key: Any, *shape: int) -> Layer:
    """Return He-normal weights of ``shape`` (outputs last) and zero biases."""
    scale = math.sqrt(2 / math.prod(shape[:-1]))
    weight = scale * jax.random.normal(key, shape, jnp.float32)
    return {"weight": weight, "bias": jnp.zeros(shape[-1], jnp.float32)}


def _product_forward(x: Any, weight: Any) -> tuple[Any, Any]:
    return x @ weight, (x, weight)


def _by_weight(x: Any, slope: Any) -> Any:
    """Return the gradient by the weights; of few rows entry by entry.

    As a product it would be written, read again and taken off the weights; as a sum of outer
    products it is found where the weights are moved, and large weights pass the memory once.
    """
    if len(x) > _ROWS:
        return x.T @ slope
    return sum(row[:, None] * out for row, out in zip(x, slope, strict=True))


def _product_backward(kept: tuple[Any, Any], slope: Any) -> tuple[Any, Any]:
    x, weight = kept
    by_x = slope @ weight.T
    # Never true, but the compiler does not know: whoever moves the weights waits until they were
    # read, instead of keeping a copy.
    return by_x, _by_weight(x, jnp.where(by_x[:1, :1] > jnp.inf, 0.0, slope))


_product: Any = jax.custom_vjp(lambda x, weight: x @ weight)
_product.defvjp(_product_forward, _product_backward)
_product_of_data: Any = jax.custom_vjp(lambda x, weight: x @ weight)
_product_of_data.defvjp(
    lambda x, weight: (x @ weight, x), lambda x, slope: (None, _by_weight(x, slope))
)


def dense(layer: Layer, x: Any, *, data: bool = False) -> Any:
    """Return x W + b of rows x (n, d); of ``data``, which is not learned, no gradient is taken."""
    product = _product_of_data if data else _product
    return product(x, layer["weight"]) + layer["bias"]


def lines_first(x: Any) -> Any:
    """Return images (n, height, width, channels), or signals without height, lines first."""
    return x[None] if x.ndim == 3 else x.transpose(1, 0, 2, 3)


def rows_first(x: Any) -> Any:
    """Return what stands lines first as one vector an image, (n, height · width · channels)."""
    return x.transpose(1, 0, 2, 3).reshape(x.shape[1], -1)


def _larger_backward(axis: int, x: Any, slope: Any) -> tuple[Any]:
    a, b = (jax.lax.index_in_dim(x, k, axis, keepdims=False) for k in range(2))
    tie = jnp.where(a == b, 0.5, 0.0)
    # A stack, not an entry chosen by place: that compiles to vector loops.
    return (
        jnp.stack(
            [jnp.where(a > b, slope, tie * slope), jnp.where(b > a, slope, tie * slope)], axis
        ),
    )


def _larger_of(x: Any, axis: int) -> Any:
    return jnp.maximum(*(jax.lax.index_in_dim(x, k, axis, keepdims=False) for k in range(2)))


_larger: Any = jax.custom_vjp(_larger_of, nondiff_argnums=(1,))
_larger.defvjp(lambda x, axis: (_larger_of(x, axis), x), _larger_backward)


def _seen(x: Any, axis: int, width: int, step: int) -> Any:
    """Return beside every ``step``-th entry's channels all that ``step`` outputs see of ``axis``.

    The border is filled with zeros, and entries left over by ``step`` are cut.
    """
    count, before = x.shape[axis] // step, (width - 1) // 2
    padding = [(0, 0)] * x.ndim
    padding[axis] = (before, width - 1 - before)
    x, end = jnp.pad(x, padding), step * (count - 1) + 1
    taken = [
        jax.lax.slice_in_dim(x, tap, tap + end, step, axis=axis) for tap in range(width + step - 1)
    ]
    return jnp.concatenate(taken, axis=-1)  # (…, taps · channels), the weights' own order


def _by_patches(weight: Any, x: Any) -> Any:
    """Return `halved` as one product: all outputs of a square are columns of its patch.

    A patch is what the square's outputs see together, which is less than their patches one by one.
    """
    tall, wide, _, outputs = weight.shape
    high, broad = (1 if x.shape[axis] == 1 else 2 for axis in (0, 2))
    patches = _seen(_seen(x, 2, wide, broad), 0, tall, high)
    columns = jnp.stack(
        [
            jnp.pad(weight, ((i, high - 1 - i), (j, broad - 1 - j), (0, 0), (0, 0)))
            for i in range(high)
            for j in range(broad)
        ],
        axis=3,
    )
    flat = patches.reshape(-1, patches.shape[-1])
    found = flat @ columns.reshape(-1, high * broad * outputs)
    found = found.reshape(*patches.shape[:3], high, broad, outputs)
    found = found[:, :, :, 0] if high == 1 else _larger(found, 3)
    return found[:, :, :, 0] if broad == 1 else _larger(found, 3)


def _by_squares(weight: Any, x: Any) -> Any:
    """Return `halved` with the fewer products of `tacit.neural._winograd`."""
    lines, n, width, _ = x.shape
    found = squares(weight, x)
    _, _, tall, _, wide, outputs = found.shape
    found = _larger(_larger(found.reshape(2, 2, 2, 2, *found.shape[2:]), 3), 1)
    found = found.transpose(2, 0, 3, 4, 1, 5).reshape(2 * tall, n, 2 * wide, outputs)
    return found[: lines // 2, :, : width // 2]


def halved(layer: Layer, x: Any) -> Any:
    """Return the convolution of ``x``, lines first, halved by maximum pooling (no bias).

    Weights are (height, width, in, out), of a signal (width, in, out), whose one line stays one;
    there are zeros beyond the border, and an odd last line or column is cut after the convolution.
    """
    weight = layer["weight"]
    weight = weight if weight.ndim == 4 else weight[None]
    if weight.shape[:2] == (WIDTH, WIDTH) and weight.shape[2] >= _FEWEST:
        return _by_squares(weight, x)
    return _by_patches(weight, x)
