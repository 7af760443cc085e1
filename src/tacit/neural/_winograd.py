"""Convolutions 5×5 with 36 products for every 2×2 square of outputs instead of 100.

Two outputs of a filter of five numbers are coefficients of a product of polynomials of degree five,
known from its values at six points (Winograd 1980; Lavin and Gray 2016, *Fast algorithms for
convolutional neural networks*): y = Aᵀ[(G w) ∘ (Bᵀ x)] for six inputs x, in both directions one
after the other. Summed over channels, the products are 36 matrix products. Coefficients are small,
so that rounding errors are those of the plain sum, up to a factor of ten. Gradients are taken
through the same form, hence as cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray

__all__ = ["WIDTH", "corners"]

WIDTH = 5
_POINTS = 6  # 0, 1, −1, 2, −2 and infinity
_INPUT = np.array(  # Bᵀ
    [
        [4, 0, -5, 0, 1, 0],
        [0, -4, -4, 1, 1, 0],
        [0, 4, -4, -1, 1, 0],
        [0, -2, -1, 2, 1, 0],
        [0, 2, -1, -2, 1, 0],
        [0, 4, 0, -5, 0, 1],
    ]
)
_FILTER = np.array(  # G
    [
        [1 / 4, 0, 0, 0, 0],
        [-1 / 6, -1 / 6, -1 / 6, -1 / 6, -1 / 6],
        [-1 / 6, 1 / 6, -1 / 6, 1 / 6, -1 / 6],
        [1 / 24, 1 / 12, 1 / 6, 1 / 3, 2 / 3],
        [1 / 24, -1 / 12, 1 / 6, -1 / 3, 2 / 3],
        [0, 0, 0, 0, 1],
    ]
)
_OUTPUT = np.array([[1, 1, 1, 1, 1, 0], [0, 1, -1, 2, -2, 1]])  # Aᵀ
_FILTERS = np.kron(_FILTER, _FILTER).astype(np.float32)


def _combined(row: AnyArray, values: Sequence[Any]) -> Any:
    """Return the sum of ``values`` times the small whole numbers of ``row``."""
    terms = [
        value if factor == 1 else float(factor) * value
        for factor, value in zip(row, values, strict=True)
        if factor
    ]
    return sum(terms[1:], start=terms[0])


def _windows(x: Any, axis: int) -> list[Any]:
    """Return entries 2t, 2t + 1, … 2t + 5 along ``axis``, for every t, as six arrays."""
    half = x.shape[axis] // 2
    pairs = x.reshape(*x.shape[:axis], half, 2, *x.shape[axis + 1 :])
    return [
        jax.lax.index_in_dim(
            jax.lax.slice_in_dim(pairs, shift, shift + half - 2, axis=axis), k, axis + 1, False
        )
        for shift in range(3)
        for k in range(2)
    ]


def corners(weight: Any, x: Any) -> list[Any]:
    """Return the convolution (zeros beyond the border) at the four places of every 2×2 square.

    ``weight`` is (5, 5, in, out), ``x`` (lines, n, width, in); the four are (lines // 2, n,
    width // 2, out), and an odd last line or column has no square.
    """
    lines, n, width, channels = x.shape
    tall, wide, outputs = lines // 2, width // 2, weight.shape[-1]
    border = [(2, 2 * half + 2 - length) for half, length in ((tall, lines), (wide, width))]
    x = jnp.pad(x, (border[0], (0, 0), border[1], (0, 0)))
    filters = (_FILTERS @ weight.reshape(WIDTH**2, -1)).reshape(_POINTS, _POINTS, channels, outputs)
    # A barrier keeps a stage from being computed again for every one of the next.
    taps = _windows(x, 0)
    by_line = jax.lax.optimization_barrier(jnp.stack([_combined(row, taps) for row in _INPUT]))
    taps = _windows(by_line, 3)  # (6, tall, n, wide, channels) each
    values = [_combined(row, taps).reshape(_POINTS, -1, channels) for row in _INPUT]
    products = [value @ filters[:, column] for column, value in enumerate(values)]
    halves = jax.lax.optimization_barrier([_combined(row, products) for row in _OUTPUT])
    return [
        _combined(row, list(half)).reshape(tall, n, wide, outputs)
        for row in _OUTPUT
        for half in halves
    ]
