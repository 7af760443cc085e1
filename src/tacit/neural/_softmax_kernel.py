"""Compiled: stochastic steps of multinomial logistic models, a few minibatches at a time.

A step on a minibatch adds a combination of its rows to the weights. So the weights of a task need
not be touched at every step: the scores of the next minibatch are those at the start, plus the
inner products of its rows with the rows before, times what those were given. For some rows that fit
the cache, that is one product with the weights before all steps and one after them, and the numbers
are those of the plain steps up to rounding.

Imported by `tacit.neural._softmax` only: importing Numba takes most of a second. Every sum over
features or rows has an order of its own that no other task changes.
"""

from __future__ import annotations

import math

import numpy as np

from tacit._compiled import compiled, reassociated
from tacit._types import AnyArray

__all__ = ["BLOCK", "leave", "lines", "turns"]

BLOCK = 64  # rows whose steps are taken together, unless a minibatch has more


# Blocks of 4 rows by 3 outputs: twelve sums and what they are made of fill the sixteen vector
# registers that every x86-64 processor with AVX2 has, and no sum is put aside.
@reassociated
def _inner(A: AnyArray, B: AnyArray, out: AnyArray) -> None:
    """Write A @ Bᵀ to ``out``; A has a multiple of 4 rows, B one of 3."""
    for i in range(0, A.shape[0], 4):
        a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
        for n in range(0, B.shape[0], 3):
            t, u, v = B[n], B[n + 1], B[n + 2]
            at = au = av = bt = bu = bv = np.float32(0)
            ct = cu = cv = dt = du = dv = np.float32(0)
            for k in range(A.shape[1]):
                tk, uk, vk = t[k], u[k], v[k]
                ak, bk, ck, dk = a[k], b[k], c[k], d[k]
                at += ak * tk
                au += ak * uk
                av += ak * vk
                bt += bk * tk
                bu += bk * uk
                bv += bk * vk
                ct += ck * tk
                cu += ck * uk
                cv += ck * vk
                dt += dk * tk
                du += dk * uk
                dv += dk * vk
            out[i, n], out[i, n + 1], out[i, n + 2] = at, au, av
            out[i + 1, n], out[i + 1, n + 1], out[i + 1, n + 2] = bt, bu, bv
            out[i + 2, n], out[i + 2, n + 1], out[i + 2, n + 2] = ct, cu, cv
            out[i + 3, n], out[i + 3, n + 1], out[i + 3, n + 2] = dt, du, dv


@compiled
def lines(n: int, width: int) -> AnyArray:
    """Return zeros (n, width) that begin with a line of the cache, for the sake of speed."""
    room = np.zeros(n * width + 16, np.float32)
    start = (-room.ctypes.data) % 64 // 4
    return room[start : start + n * width].reshape(n, width)


@compiled
def _clear(A: AnyArray, low: int, high: int) -> None:
    """Set rows to zero."""
    for i in range(low, high):
        for j in range(A.shape[1]):
            A[i, j] = 0


@compiled
def _write(A: AnyArray, B: AnyArray, factor: int, out: AnyArray) -> None:
    """Write A + factor · B; A itself for 0, whatever B is."""
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            out[i, j] = A[i, j] + np.float32(factor) * B[i, j] if factor else A[i, j]


@compiled
def _add_outer(A: AnyArray, B: AnyArray, keep: float, out: AnyArray) -> None:
    """Write keep · out + Aᵀ @ B to ``out``; rows are a multiple of 4, A's columns one of 3."""
    width = B.shape[1]
    for k in range(0, A.shape[1], 3):
        p, q, r = out[k], out[k + 1], out[k + 2]
        if keep == 0:  # whatever an earlier task left there, NaN too
            _clear(out, k, k + 3)
        elif keep != 1:
            for j in range(width):
                p[j] *= keep
                q[j] *= keep
                r[j] *= keep
        for i in range(0, A.shape[0], 4):
            a, b, c, d = A[i], A[i + 1], A[i + 2], A[i + 3]
            t, u, v, w = B[i], B[i + 1], B[i + 2], B[i + 3]
            at, bt, ct, dt = a[k], b[k], c[k], d[k]
            au, bu, cu, du = a[k + 1], b[k + 1], c[k + 1], d[k + 1]
            av, bv, cv, dv = a[k + 2], b[k + 2], c[k + 2], d[k + 2]
            for j in range(width):
                tj, uj, vj, wj = t[j], u[j], v[j], w[j]
                p[j] = p[j] + at * tj + bt * uj + ct * vj + dt * wj
                q[j] = q[j] + au * tj + bu * uj + cu * vj + du * wj
                r[j] = r[j] + av * tj + bv * uj + cv * vj + dv * wj


@compiled
def _exponentials(values: AnyArray, highest: float, power: AnyArray, factor: AnyArray) -> None:
    """Replace values by exp(value − highest); ``factor`` is the whole numbers ``power``, as floats.

    Cody and Waite's reduction and a polynomial of degree 6, within 2 units in the last place; what
    is below −87 counts as that, and NaN stays.
    """
    whole = np.float32(12582912.0)  # 1.5 · 2²³: adding it rounds to whole numbers
    low = np.float32(-87.0)
    for j in range(len(values)):
        x = values[j] - highest
        x = low if x < low else x
        n = (x * np.float32(1.4426950408889634) + whole) - whole
        r = x - n * np.float32(0.693359375)
        r = r - n * np.float32(-2.12194440e-4)
        e = np.float32(1.9875691500e-4)
        e = e * r + np.float32(1.3981999507e-3)
        e = e * r + np.float32(8.3334519073e-3)
        e = e * r + np.float32(4.1665795894e-2)
        e = e * r + np.float32(1.6666665459e-1)
        e = e * r + np.float32(5.0000001201e-1)
        values[j] = e * (r * r) + r + np.float32(1)
        power[j] = (np.int32(n) + np.int32(127)) << np.int32(23)
    for j in range(len(values)):
        values[j] *= factor[j]


@compiled
def _slope(scores: AnyArray, own: int, n_outputs: int, step: float, scratch: AnyArray) -> None:
    """Replace scores by −step · (their probabilities, less 1 at ``own``); zero in the padding."""
    highest = scores[0]
    for j in range(1, n_outputs):
        if scores[j] > highest:
            highest = scores[j]
    _exponentials(scores, highest, scratch, scratch.view(np.float32))
    total = np.float32(0)
    for j in range(n_outputs):
        total += scores[j]
    factor = -step / total
    for j in range(n_outputs):
        scores[j] *= factor
    for j in range(n_outputs, len(scores)):
        scores[j] = 0
    if 0 <= own < n_outputs:
        scores[own] += step


@compiled
def _shuffled(count: int, order: AnyArray, out: AnyArray) -> None:
    """Write the permutation of `tacit.neural.rows.shuffled` to ``out``."""
    bits = np.uint32(0)
    while (max(count, 2) - 1) >> bits:
        bits += np.uint32(1)
    half = (bits + np.uint32(1)) // np.uint32(2)
    mask = np.uint32((1 << half) - 1)
    for position in range(count):
        value = np.uint32(position)
        while True:
            left, right = value >> half, value & mask
            for word in order:
                mixed = np.uint32(right ^ word)
                mixed = np.uint32((mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B))
                mixed = np.uint32((mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35))
                mixed = np.uint32(mixed ^ (mixed >> np.uint32(16)))
                left, right = right, np.uint32(left ^ (mixed & mask))
            value = np.uint32((left << half) | right)
            if value < np.uint32(count):
                break
        out[position] = value


@compiled
def _block(
    rows: AnyArray,
    labels: AnyArray,
    size: int,
    rate: float,
    keep: float,
    n_outputs: int,
    near: AnyArray,
    moved: AnyArray,
    products: AnyArray,
    scores: AnyArray,
    scratch: AnyArray,
) -> float:
    """Take the steps of some minibatches; return what is left of the way moved before them.

    ``near`` and ``moved`` (n, k) are what the centre and that way say of the rows; ``scores`` ends
    as what each row has added to the weights.
    """
    n, width, left = len(labels), scores.shape[1], np.float32(1)
    for low in range(0, n, size):
        high = min(low + size, n)
        # Rows in fours and threes: a few of the minibatch before, and of those after, are there.
        start, stop, before = low // 4 * 4, (high + 3) // 4 * 4, (low + 2) // 3 * 3
        _inner(rows[start:stop], rows[:before], products[start:stop])
        for i in range(low, high):
            mine = scores[i]
            for j in range(width):
                mine[j] = near[i, j] + left * moved[i, j]
            for q in range(low):
                other, factor = scores[q], products[i, q]
                for j in range(width):
                    mine[j] += factor * other[j]
        for i in range(low, high):
            _slope(scores[i], labels[i], n_outputs, rate / np.float32(high - low), scratch)
        if keep != 1:
            left *= keep
            for i in range(low):
                for j in range(width):
                    scores[i, j] *= keep
    return float(left)


@compiled
def turns(
    X: AnyArray,
    y: AnyArray,
    first: AnyArray,
    counts: AnyArray,
    orders: AnyArray,
    centre: AnyArray,
    starts: AnyArray,
    rates: AnyArray,
    strengths: AnyArray,
    size: int,
    steps: int,
    n_outputs: int,
    clip: float,
    ways: AnyArray,
    kept: AnyArray,
) -> None:
    """Write the clipped updates (b, p, q) of b tasks, and where those ended who keep it.

    Models are (p, q): an output a row, features in columns and then the constant, padded with
    zeros to a multiple of 3 rows. ``starts`` (b, p, q) has no entries where tasks begin at the
    centre, ``kept`` none where they keep nothing. ``steps`` 0 takes as many as the ``orders``
    (b, epochs, 4) have epochs.

    Guarantee: what is written for a task is a function of its own rows, order, start and numbers
    and of the centre; zero and its start if that is not finite.
    """
    d, (width, high) = X.shape[1], centre.shape
    tall = max(size, BLOCK // size * size)
    padded = (tall + 11) // 12 * 12
    rows = lines(padded, high)
    near, moved, scores = np.zeros((3, padded, width), np.float32)
    products = np.empty((padded, padded), np.float32)
    scratch, labels = np.empty(width, np.int32), np.empty(tall, np.int32)
    for task in range(len(first)):
        count, begun, way = counts[task], len(starts) > 0, ways[task]
        keep = np.float32(1) - rates[task] * strengths[task]
        n_batches = (count + size - 1) // size
        steps_left = 0 if count == 0 else steps if steps else orders.shape[1] * n_batches
        if begun:
            _write(starts[task], centre, -1, way)
        elif steps_left == 0:
            _clear(way, 0, width)
        place, known = np.empty(count, np.int32), np.empty((count, width), np.float32)
        epoch = 0
        while steps_left > 0:
            _shuffled(count, orders[task, epoch], place)
            last = min(count, steps_left * size)
            for low in range(0, last, tall):
                n = min(tall, last - low)
                even = (n + 3) // 4 * 4
                for i in range(n):
                    row = first[task] + place[low + i]
                    labels[i] = y[row]
                    own, mine = X[row], rows[i]
                    for j in range(d):
                        mine[j] = own[j]
                    mine[d] = 1
                _clear(rows, n, min(n + 3, padded))
                _clear(scores, n, even)
                if epoch == 0:
                    _inner(rows[:even], centre, near)
                for i in range(n):
                    for j in range(width):
                        if epoch == 0:
                            known[place[low + i], j] = near[i, j]
                        else:
                            near[i, j] = known[place[low + i], j]
                if begun:
                    _inner(rows[:even], way, moved)
                else:
                    _clear(moved, 0, even)
                left = _block(
                    rows, labels[:n], size, rates[task], keep, n_outputs, near, moved, products,
                    scores, scratch,
                )  # fmt: skip
                _add_outer(scores[:even], rows[:even], np.float32(left if begun else 0), way)
                begun = True
            steps_left -= (last + size - 1) // size
            epoch += 1
        norm = math.sqrt(_square(way))
        finite = math.isfinite(norm)
        if len(kept) and finite:
            _write(centre, way, 1, kept[task])
        elif len(kept):
            _write(starts[task], way, 0, kept[task])
        if not finite:
            _clear(way, 0, width)
        elif norm > clip:
            _scale(way, np.float32(clip / norm))


@compiled
def _scale(way: AnyArray, factor: float) -> None:
    for i in range(way.shape[0]):
        for j in range(way.shape[1]):
            way[i, j] *= factor


@compiled
def leave(ways: AnyArray, weights: AnyArray, levels: AnyArray) -> None:
    """Write updates (b, p, q) as parameters (b, d, k) and (b, k)."""
    b, d, k = weights.shape
    whole = d // 16 * 16
    for task in range(b):
        way, weight = ways[task], weights[task]
        for low in range(0, whole, 16):  # a line of the cache
            for c in range(k):
                line = way[c]
                for j in range(low, low + 16):
                    weight[j, c] = line[j]
        for j in range(whole, d):
            for c in range(k):
                weight[j, c] = way[c, j]
        for c in range(k):
            levels[task, c] = way[c, d]


@reassociated
def _square(way: AnyArray) -> float:
    """Return the squared norm, in float64, where no square of a float32 number overflows."""
    total = 0.0
    for i in range(way.shape[0]):
        line, part = way[i], 0.0
        for j in range(way.shape[1]):
            part += np.float64(line[j]) * np.float64(line[j])
        total += part
    return total
