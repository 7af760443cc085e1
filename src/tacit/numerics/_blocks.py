"""Compiled: what kernels are made of, and factors of small matrices, eight numbers at a time.

Imported by compiled kernels only: importing Numba takes most of a second.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from tacit._compiled import cached, compiled, reassociated
from tacit._types import AnyArray

__all__ = ["cached", "compiled", "dot", "factor", "inverse_rows", "ready", "reassociated", "solve"]
__all__ += ["take_off"]


def ready(kernel: Any, arguments: tuple[Any, ...]) -> None:
    """Compile a kernel, or load it from the cache, with the pass that makes vectors of `take_off`.

    That pass is off by default and makes factors three times faster. The setting is the process's;
    it is put back.
    """
    before = numba.config.SLP_VECTORIZE
    numba.config.SLP_VECTORIZE = 1
    try:
        kernel.compile(arguments)
    finally:
        numba.config.SLP_VECTORIZE = before


@compiled
def take_off(
    row: AnyArray,
    a: AnyArray,
    b: AnyArray,
    c: AnyArray,
    e: AnyArray,
    fa: float,
    fb: float,
    fc: float,
    fe: float,
    first: int,
) -> None:
    """Subtract a combination of four rows from a row, all (n/8, 8), from block ``first`` on.

    A block's numbers are all loaded before the first is stored, and their places are constants: the
    compiler need neither ask whether rows overlap nor whether a place is negative, and makes one
    vector of them.
    """
    for k in range(first, len(row)):
        x, p, q, r, s = row[k], a[k], b[k], c[k], e[k]
        x0 = x[0] - (fa * p[0] + fb * q[0] + fc * r[0] + fe * s[0])
        x1 = x[1] - (fa * p[1] + fb * q[1] + fc * r[1] + fe * s[1])
        x2 = x[2] - (fa * p[2] + fb * q[2] + fc * r[2] + fe * s[2])
        x3 = x[3] - (fa * p[3] + fb * q[3] + fc * r[3] + fe * s[3])
        x4 = x[4] - (fa * p[4] + fb * q[4] + fc * r[4] + fe * s[4])
        x5 = x[5] - (fa * p[5] + fb * q[5] + fc * r[5] + fe * s[5])
        x6 = x[6] - (fa * p[6] + fb * q[6] + fc * r[6] + fe * s[6])
        x7 = x[7] - (fa * p[7] + fb * q[7] + fc * r[7] + fe * s[7])
        x[0], x[1], x[2], x[3] = x0, x1, x2, x3
        x[4], x[5], x[6], x[7] = x4, x5, x6, x7


@compiled
def factor(A: AnyArray, n: int) -> bool:
    """Write the upper Cholesky factor of A, (n, n/8, 8), over its upper half; False if none.

    Rows are read and changed from the block of the diagonal on, and four at a time are taken off
    the rest. The diagonal holds the reciprocals of the factor's own; what lies below it in its
    block becomes zero.
    """
    for j in range(0, n, 4):
        a, b, c, e = A[j], A[j + 1], A[j + 2], A[j + 3]
        for i in range(j, j + 4):
            row, block, place = A[i], i // 8, i % 8
            fa = a[block, place] if i > j else 0.0
            fb = b[block, place] if i > j + 1 else 0.0
            fc = c[block, place] if i > j + 2 else 0.0
            if i > j:
                take_off(row, a, b, c, e, fa, fb, fc, 0.0, block)
            pivot = row[block, place]
            if not (pivot > 0.0 and pivot < np.inf):
                return False
            inverse = 1.0 / math.sqrt(pivot)
            for h in range(place):
                row[block, h] = 0.0
            for k in range(block, len(row)):
                for h in range(8):
                    row[k, h] *= inverse
            row[block, place] = inverse
        for i in range(j + 4, n):
            block, place = i // 8, i % 8
            fa, fb, fc, fe = a[block, place], b[block, place], c[block, place], e[block, place]
            take_off(A[i], a, b, c, e, fa, fb, fc, fe, block)
    return True


@compiled
def dot(a: AnyArray, b: AnyArray, first: int) -> float:
    """Return the product of two rows (n/8, 8), from block ``first`` on: eight sums, then theirs."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    for k in range(first, len(a)):
        p, q = a[k], b[k]
        s0 += p[0] * q[0]
        s1 += p[1] * q[1]
        s2 += p[2] * q[2]
        s3 += p[3] * q[3]
        s4 += p[4] * q[4]
        s5 += p[5] * q[5]
        s6 += p[6] * q[6]
        s7 += p[7] * q[7]
    return ((s0 + s4) + (s1 + s5)) + ((s2 + s6) + (s3 + s7))


@compiled
def solve(U: AnyArray, x: AnyArray, n: int) -> None:
    """Solve UᵀU x = x, U (n, n/8, 8) as `factor` leaves it and x (n/8, 8), in place."""
    for j in range(n):
        block, place, row = j // 8, j % 8, U[j]
        f = x[block, place] * row[block, place]
        for k in range(block, len(x)):
            for h in range(8):
                x[k, h] -= f * row[k, h]
        x[block, place] = f
    for j in range(n - 1, -1, -1):
        block, place, row = j // 8, j % 8, U[j]
        f = x[block, place]
        x[block, place] = 0.0
        x[block, place] = (f - dot(row, x, block)) * row[block, place]


@compiled
def inverse_rows(U: AnyArray, V: AnyArray, n: int) -> None:
    """Write U⁻¹ to V, both (n, n/8, 8): (UᵀU)⁻¹ is V Vᵀ."""
    for i in range(n - 1, -1, -1):
        row, factors = V[i], U[i]
        for k in range(len(row)):
            for h in range(8):
                row[k, h] = 0.0
        first = i + 1
        for j in range(first - first % 4, n, 4):
            block, place = j // 8, j % 8
            # A row that is not there yet counts for nothing; one that is stands in its place.
            fa = factors[block, place] if j >= first else 0.0
            fb = factors[block, place + 1] if j + 1 >= first else 0.0
            fc = factors[block, place + 2] if j + 2 >= first else 0.0
            fe = factors[block, place + 3]
            a, b, c = V[max(j, first)], V[max(j + 1, first)], V[max(j + 2, first)]
            take_off(row, a, b, c, V[j + 3], fa, fb, fc, fe, block)
        inverse = factors[i // 8, i % 8]
        row[i // 8, i % 8] = 1.0
        for k in range(i // 8, len(row)):
            for h in range(8):
                row[k, h] *= inverse
