"""Convolutions 5×5 with 64 products for every 4×4 square of outputs instead of 400.

Four outputs of a filter of five numbers are coefficients of a product of polynomials of degree
seven, known from its values at eight points (Winograd 1980; Lavin and Gray 2016, *Fast algorithms
for convolutional neural networks*): y = Aᵀ[(G w) ∘ (Bᵀ x)] for eight inputs x, in both directions
one after the other. Summed over channels, the products are 64 matrix products. Rounding errors are
about twenty times those of the plain sum, 2·10⁻⁶ of the outputs' size where that has 10⁻⁷.

Gradients go back through the same form, written out: what was transformed on the way there is kept,
and a sum of overlapping windows is a stack of sums, which compiles to vector loops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray

__all__ = ["WIDTH", "squares"]

WIDTH = 5
_SIDE = 4  # outputs of a square
_AT = np.array([0, 1, -1, 2, -2, 1 / 2, -1 / 2])  # and infinity
_INPUT = np.array(  # Bᵀ
    [
        [1, 0, -21 / 4, 0, 21 / 4, 0, -1, 0],
        [0, 1, 1, -17 / 4, -17 / 4, 1, 1, 0],
        [0, -1, 1, 17 / 4, -17 / 4, -1, 1, 0],
        [0, 1 / 2, 1 / 4, -5 / 2, -5 / 4, 2, 1, 0],
        [0, -1 / 2, 1 / 4, 5 / 2, -5 / 4, -2, 1, 0],
        [0, 2, 4, -5 / 2, -5, 1 / 2, 1, 0],
        [0, -2, 4, 5 / 2, -5, -1 / 2, 1, 0],
        [0, -1, 0, 21 / 4, 0, -21 / 4, 0, 1],
    ],
    np.float32,
)


def _powers(n: int) -> AnyArray:
    """Return the powers 0 … n − 1 of every point; of infinity the last alone counts."""
    return np.vstack([np.vander(_AT, n, increasing=True), np.eye(n)[-1]])


_OUTPUT = _powers(_SIDE).T.astype(np.float32)  # Aᵀ
_SCALES = np.array([1, -2 / 9, -2 / 9, 1 / 90, 1 / 90, 32 / 45, 32 / 45, 1])
_FILTER = _SCALES[:, None] * _powers(WIDTH)  # G
_FILTERS = np.kron(_FILTER, _FILTER).astype(np.float32)
_POINTS = len(_FILTER)


def _combined(row: AnyArray, values: Sequence[Any]) -> Any:
    """Return the sum of ``values`` times the numbers of ``row``."""
    terms = [
        value if factor == 1 else float(factor) * value
        for factor, value in zip(row, values, strict=True)
        if factor
    ]
    return sum(terms[1:], start=terms[0])


def _stacked(rows: AnyArray, values: Sequence[Any], axis: int = 0) -> Any:
    """Return the product of a small matrix with ``values``, stacked along ``axis``."""
    return jnp.stack([_combined(row, values) for row in rows], axis)


def _mixed(rows: AnyArray, values: Any) -> Any:
    """Return `_stacked` of an array's first axis, as a matrix product."""
    flat = values.reshape(len(values), -1)
    mixed = jnp.matmul(rows, flat, precision=jax.lax.Precision.HIGHEST)
    return mixed.reshape(len(rows), *values.shape[1:])


def _windows(x: Any, axis: int) -> list[Any]:
    """Return entries 4t, 4t + 1, … 4t + 7 along ``axis``, for every t, as eight arrays."""
    n = x.shape[axis] // _SIDE
    fours = x.reshape(*x.shape[:axis], n, _SIDE, *x.shape[axis + 1 :])
    return [
        jax.lax.index_in_dim(
            jax.lax.slice_in_dim(fours, shift, shift + n - 1, axis=axis), k, axis + 1, False
        )
        for shift in range(2)
        for k in range(_SIDE)
    ]


def _overlapped(windows: Any, axis: int) -> Any:
    """Return the sum of what `_windows` took apart; ``axis`` is that of one window."""

    def shifted(part: Any, by: int) -> Any:
        padding = [(0, 0)] * part.ndim
        padding[axis] = (by, 1 - by)
        return jnp.pad(part, padding)

    pairs = zip(windows[:_SIDE], windows[_SIDE:], strict=True)
    fours = jnp.stack([shifted(a, 0) + shifted(b, 1) for a, b in pairs], axis + 1)
    return fours.reshape(*fours.shape[:axis], -1, *fours.shape[axis + 2 :])


def _forward(weight: Any, x: Any) -> tuple[Any, tuple[Any, Any]]:
    channels, outputs = weight.shape[2:]
    filters = _FILTERS @ weight.reshape(WIDTH**2, -1)
    filters = filters.reshape(_POINTS, _POINTS, channels, outputs)
    by_column = _stacked(_INPUT, _windows(x, 2))  # (8, lines, n, wide, channels)
    # A barrier keeps a stage from being computed again for every one of the next.
    by_column = jax.lax.optimization_barrier(by_column)
    values = _stacked(_INPUT, _windows(by_column, 1))  # (8, 8, tall, n, wide, channels)
    products = values.reshape(_POINTS, _POINTS, -1, channels) @ filters
    by_line = _mixed(_OUTPUT, products)
    found = _stacked(_OUTPUT, [by_line[:, point] for point in range(_POINTS)], axis=1)
    found = found.reshape(_SIDE, _SIDE, *values.shape[2:5], outputs)
    return jax.lax.optimization_barrier(found), (values, filters)


def _backward(kept: tuple[Any, Any], slope: Any) -> tuple[Any, Any]:
    values, filters = kept
    channels, outputs = filters.shape[2:]
    columns = [slope[:, column] for column in range(_SIDE)]
    by_point = _mixed(_OUTPUT.T, _stacked(_OUTPUT.T, columns, axis=1))
    by_point = by_point.reshape(_POINTS, _POINTS, -1, outputs)
    flat = values.reshape(_POINTS, _POINTS, -1, channels)
    by_filter = jnp.swapaxes(flat, 2, 3) @ by_point
    by_value = (by_point @ jnp.swapaxes(filters, 2, 3)).reshape(values.shape)
    by_column = _overlapped(_mixed(_INPUT.T, by_value), 1)
    by_weight = _FILTERS.T @ by_filter.reshape(_POINTS**2, -1)
    return (
        by_weight.reshape(WIDTH, WIDTH, channels, outputs),
        _overlapped(_mixed(_INPUT.T, by_column), 2),
    )


_whole: Any = jax.custom_vjp(lambda weight, x: _forward(weight, x)[0])
_whole.defvjp(_forward, _backward)


def squares(weight: Any, x: Any) -> Any:
    """Return the convolution (zeros beyond the border) as 4×4 squares.

    ``weight`` is (5, 5, in, out), ``x`` (lines, n, width, in). Returned is (4, 4, tall, n, wide,
    out): line and column within a square, then the squares, which reach beyond ``x`` where its
    lines or columns are no multiple of four.
    """
    border = [(0, 0)] * 4
    for axis in (0, 2):
        length = x.shape[axis]
        border[axis] = (2, -length % _SIDE + 2)
    return _whole(weight, jnp.pad(x, border))
