"""Layers as plain functions; convolutions are matrix products over patches.

XLA's own convolution is an order of magnitude slower inside a loop on a CPU (jax-ml/jax#12868),
and local training is a loop. Images are (n, height, width, channels), signals (n, time, channels).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

__all__ = ["Layer", "convolve", "dense", "initial", "pool"]

Layer = Mapping[str, Any]


def initial(key: Any, *shape: int) -> Layer:
    """Return He-normal weights of ``shape`` (outputs last) and zero biases."""
    scale = math.sqrt(2 / math.prod(shape[:-1]))
    weight = scale * jax.random.normal(key, shape, jnp.float32)
    return {"weight": weight, "bias": jnp.zeros(shape[-1], jnp.float32)}


def dense(layer: Layer, x: Any) -> Any:
    """Return x W + b."""
    return x @ layer["weight"] + layer["bias"]


def _patches(x: Any, kernel: tuple[int, ...]) -> Any:
    """Return for every position the values the kernel covers, zeros beyond the border."""
    for axis, width in enumerate(kernel, start=1):
        before = (width - 1) // 2
        padding = [(0, 0)] * x.ndim
        padding[axis] = (before, width - 1 - before)
        length = x.shape[axis]
        padded = jnp.pad(x, padding)
        shifted = [jax.lax.slice_in_dim(padded, s, s + length, axis=axis) for s in range(width)]
        x = jnp.stack(shifted, axis=-2)  # ends as (…, *kernel, channels), the weights' own order
    return x


def convolve(layer: Layer, x: Any) -> Any:
    """Return the convolution (same size, no bias) of ``x`` with weights (*kernel, in, out)."""
    *kernel, channels, outputs = layer["weight"].shape
    columns = math.prod(kernel) * channels
    patches = _patches(x, tuple(kernel)).reshape(-1, columns)
    flat = patches @ layer["weight"].reshape(columns, outputs)
    return flat.reshape(*x.shape[:-1], outputs)


def pool(x: Any) -> Any:
    """Halve every axis between the first and the last by the maximum; an odd last entry is cut."""
    for axis in range(1, x.ndim - 1):
        half = x.shape[axis] // 2
        x = jax.lax.slice_in_dim(x, 0, 2 * half, axis=axis)
        pairs = x.reshape(*x.shape[:axis], half, 2, *x.shape[axis + 1 :])
        x = jnp.maximum(
            jax.lax.index_in_dim(pairs, 0, axis + 1, keepdims=False),
            jax.lax.index_in_dim(pairs, 1, axis + 1, keepdims=False),
        )
    return x
