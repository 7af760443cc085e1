"""Layers as plain functions; convolutions are matrix products over patches.

XLA's own convolution is an order of magnitude slower inside a loop on a CPU (jax-ml/jax#12868),
and local training is a loop. Between convolutions images stand lines first, (height, n, width,
channels): neighbouring lines of all images are then one block of memory, and a kernel's lines are
products with shifted views of one matrix instead of copies. A signal is an image of one line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from tacit.neural._winograd import WIDTH, corners

__all__ = ["Layer", "convolve", "dense", "halved", "initial", "lines_first", "pool", "rows_first"]

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


def _padded(x: Any, axis: int, width: int) -> Any:
    before = (width - 1) // 2
    padding = [(0, 0)] * x.ndim
    padding[axis] = (before, width - 1 - before)
    return jnp.pad(x, padding)


def _shifted(x: Any, axis: int, width: int) -> Any:
    """Return beside every entry's channels those of the next ``width`` − 1 along ``axis``."""
    length = x.shape[axis] - width + 1
    shifts = [jax.lax.slice_in_dim(x, s, s + length, axis=axis) for s in range(width)]
    return jnp.concatenate(shifts, axis=-1)  # (…, width · channels), the weights' own order


def convolve(layer: Layer, x: Any) -> Any:
    """Return the convolution (same size, no bias) of ``x``, lines first, zeros beyond the border.

    Weights are (height, width, in, out), of a signal (width, in, out).
    """
    weight = layer["weight"]
    weight = weight if weight.ndim == 4 else weight[None]
    tall, wide, channels, outputs = weight.shape
    lines, n, width, _ = x.shape
    patches = _shifted(_padded(_padded(x, 0, tall), 2, wide), 2, wide)
    if channels == 1:  # a line of the kernel alone would be too narrow a product
        patches, weight = _shifted(patches, 0, tall), weight.reshape(1, -1, 1, outputs)
    block = n * width
    flat = patches.reshape(len(patches) * block, -1)
    sums = sum(
        flat[line * block : (line + lines) * block] @ part.reshape(-1, outputs)
        for line, part in enumerate(weight)
    )
    return sums.reshape(lines, n, width, outputs)


def pool(x: Any) -> Any:
    """Halve height and width of ``x``, lines first, by the maximum; an odd last entry is cut."""
    for axis in (0, 2):
        if x.shape[axis] == 1:
            continue
        half = x.shape[axis] // 2
        x = jax.lax.slice_in_dim(x, 0, 2 * half, axis=axis)
        pairs = x.reshape(*x.shape[:axis], half, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(
            jax.lax.index_in_dim(pairs, 0, axis + 1, keepdims=False),
            jax.lax.index_in_dim(pairs, 1, axis + 1, keepdims=False),
        )
    return x


def halved(layer: Layer, x: Any) -> Any:
    """Return the convolution of ``x``, lines first, halved by maximum pooling (no bias)."""
    weight = layer["weight"]
    if weight.shape[:-2] == (WIDTH, WIDTH) and weight.shape[-2] >= _FEWEST:
        a, b, c, d = corners(weight, x)
        return jnp.maximum(jnp.maximum(a, b), jnp.maximum(c, d))
    return pool(convolve(layer, x))
