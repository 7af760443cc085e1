"""Compiled kernels: one pass over the rows for the gradients of all tasks.

Imported only by `tacit.numerics.kernels`, and only when the data are large enough: importing
Numba and compiling cost about a second, which a small fit must not pay.
"""

from __future__ import annotations

import math

import numpy as np

from tacit._types import AnyArray
from tacit.numerics._blocks import reassociated

__all__ = ["fused_gradient"]


@reassociated
def fused_gradient(
    X: AnyArray,
    y: AnyArray,
    starts: AnyArray,
    owner: AnyArray,
    first: int,
    last: int,
    W: AnyArray,
    scale: AnyArray,
    keep: AnyArray,
    logistic: bool,
    out: AnyArray,
) -> None:
    """Write ``keep_s · w + scale · Σ_r ℓ'(x_rᵀw) x_r`` for segments ``first`` to ``last``.

    Rows are taken in blocks that fit the first-level cache: predictions of the block, then the
    loss's derivative, then the block's share of the gradient, so main memory is read once. Four
    rows at a time amortise the loads of ``w`` and the loads and stores of the gradient.

    Rows are named by unsigned numbers: of a signed one every use asks whether it counts from the
    end, which here costs a sixth of the time.
    """
    d = X.shape[1]
    block = 64
    r = np.empty(block, X.dtype)
    one = X.dtype.type(1.0)
    for s in range(first, last):
        w = W[owner[s]]
        g = out[s]
        for j in range(d):
            g[j] = 0
        top = starts[s + 1]
        low = starts[s]
        while low < top:
            n = min(block, top - low)
            full = n - n % 4
            for i in range(0, full, 4):
                a = X[np.uintp(low + i)]
                b = X[np.uintp(low + i + 1)]
                c = X[np.uintp(low + i + 2)]
                e = X[np.uintp(low + i + 3)]
                za = zb = zc = ze = X.dtype.type(0.0)
                for j in range(d):
                    wj = w[j]
                    za += a[j] * wj
                    zb += b[j] * wj
                    zc += c[j] * wj
                    ze += e[j] * wj
                r[i] = za
                r[i + 1] = zb
                r[i + 2] = zc
                r[i + 3] = ze
            for i in range(full, n):
                a = X[np.uintp(low + i)]
                za = X.dtype.type(0.0)
                for j in range(d):
                    za += a[j] * w[j]
                r[i] = za
            if logistic:
                for i in range(n):
                    r[i] = one / (one + math.exp(-r[i])) - y[low + i]
            else:
                for i in range(n):
                    r[i] -= y[low + i]
            for i in range(0, full, 4):
                a = X[np.uintp(low + i)]
                b = X[np.uintp(low + i + 1)]
                c = X[np.uintp(low + i + 2)]
                e = X[np.uintp(low + i + 3)]
                ra = r[i]
                rb = r[i + 1]
                rc = r[i + 2]
                re = r[i + 3]
                for j in range(d):
                    g[j] += ra * a[j] + rb * b[j] + rc * c[j] + re * e[j]
            for i in range(full, n):
                a = X[np.uintp(low + i)]
                ra = r[i]
                for j in range(d):
                    g[j] += ra * a[j]
            low += n
        factor = scale[owner[s]]
        kept = keep[s]
        if kept != 0:
            for j in range(d):
                g[j] = kept * w[j] + factor * g[j]
        else:
            for j in range(d):
                g[j] *= factor
