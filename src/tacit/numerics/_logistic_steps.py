"""Compiled: the steps of Newton's method on the kernel matrices of eight logistic tasks.

Imported only by `tacit.numerics._logistic_kernel`, which says when to take them. A work space holds
rows of N places each, a number of every row of the eight tasks at each place; ``own`` a place for
each of the tasks' own numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.numerics._lane_factors import factor, solve, times
from tacit.numerics._lanes import (
    WIDTH,
    absolute,
    choose,
    compiled_lanes,
    exp_below,
    fma,
    get,
    greater,
    put,
    root,
    spread,
)

__all__ = ["along", "direction", "move", "own_row", "prepare", "read", "shortened", "slopes"]

_MAX_HALVINGS = 40
_FAR = 4.0  # a tangent that moves predictions by more is not followed
# Rows of the work space.
AT_C, AT_KC, AT_Z, AT_G, AT_BEND, AT_S, AT_Q, AT_KQ, AT_U, AT_ONE, AT_STEP, AT_MOVED = range(12)
AT_O, AT_Y, AT_W, AT_EARLIER, AT_PUSHED, AT_PART = range(12, 18)
# Places of the tasks' own numbers.
AT_ALPHA, AT_LEVEL, AT_B, AT_DELTA, AT_SIZE, AT_GAMMA, AT_RATE, AT_OUT = range(8)


@compiled_lanes
def _loss(z: float, y: float) -> float:
    """Return log(1 + eᶻ) − y z."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z))) - y * z


@compiled_lanes
def read(
    K: AnyArray,
    offset: AnyArray,
    labels: AnyArray,
    weights: AnyArray,
    counts: AnyArray,
    first: int,
    k: AnyArray,
    work: AnyArray,
    N: int,
) -> None:
    """Lay eight tasks side by side, zero beyond their rows; without a task, zeros."""
    k[:] = 0.0
    work[:] = 0.0
    for h in range(min(WIDTH, len(counts) - first)):
        n, task = counts[first + h], first + h
        for i in range(n):
            work[(AT_O * N + i) * WIDTH + h] = offset[task, i]
            work[(AT_Y * N + i) * WIDTH + h] = labels[task, i]
            work[(AT_W * N + i) * WIDTH + h] = weights[task, i]
            row, place = K[task % len(K), i], i * (N + 1) * WIDTH + h
            for j in range(n):
                k[place + j * WIDTH] = row[j]


@compiled_lanes
def slopes(work: AnyArray, alpha: Any, b: Any, N: int) -> Any:
    """Write log-odds, slopes, curvatures and q = g + αc; return the sum of the slopes."""
    none, one, total = spread(0.0), spread(1.0), spread(0.0)
    for i in range(N):
        z = get(work, AT_O * N + i) + get(work, AT_KC * N + i) + b
        e = exp_below(none - absolute(z))
        p = one / (one + e)
        w = get(work, AT_W * N + i)
        g = w * (choose(z < none, e * p, p) - get(work, AT_Y * N + i))
        total = total + g
        put(work, AT_Z * N + i, z)
        put(work, AT_G * N + i, g)
        put(work, AT_BEND * N + i, w * (e * p * p))
        put(work, AT_Q * N + i, fma(alpha, get(work, AT_C * N + i), g))
    return total


@compiled_lanes
def prepare(
    K: AnyArray,
    U: AnyArray,
    work: AnyArray,
    anew: Any,
    alpha: Any,
    level: Any,
    schur: Any,
    N: int,
) -> Any:
    """Factor B = I + S K S/α, S² the curvatures, and return which lanes could, and their pivots.

    Lanes that are not to be made ``anew`` keep their curvatures, and so their factor. Written are
    B⁻¹s to ``one``; the pivot is that of the intercept.
    """
    s, largest = AT_S * N, alpha
    for i in range(N):
        bend = get(work, AT_BEND * N + i)
        put(work, s + i, choose(anew, root(bend), get(work, s + i)))
        put(work, AT_ONE * N + i, get(work, s + i))
        largest = greater(bend * get(K, i * (N + 1) + i), largest)
    sound = factor(K, work, AT_S * N, spread(1.0) / alpha, U, N)
    solve(U, work, AT_ONE * N, N)
    # The floor of `LogisticStack.hessian`: far from the optimum no row may have a curvature.
    found = fma(spread(1e-14), largest, level)
    for i in range(N):
        found = fma(get(work, s + i), get(work, AT_ONE * N + i), found)
    return sound & (absolute(found) < spread(np.inf)), choose(anew, found, schur)


@compiled_lanes
def direction(
    K: AnyArray,
    U: AnyArray,
    work: AnyArray,
    alpha: Any,
    gamma: Any,
    schur: Any,
    intercept: bool,
    N: int,
) -> Any:
    """Write the Newton step of c and what it moves K c by; return that of the intercept.

    (I + K D/α) t = −K q/α + δ, with t the shift of the log-odds and D = diag(s²).
    """
    none, inverse = spread(0.0), spread(-1.0) / alpha
    for i in range(N):
        put(work, AT_U * N + i, get(work, AT_S * N + i) * get(work, AT_KQ * N + i) * inverse)
    solve(U, work, AT_U * N, N)
    delta = none
    if intercept:
        along = gamma
        for i in range(N):
            along = fma(get(work, AT_S * N + i), get(work, AT_U * N + i), along)
        delta = none - along / schur
    for i in range(N):
        shifted = fma(delta, get(work, AT_ONE * N + i), get(work, AT_U * N + i))
        put(
            work,
            AT_STEP * N + i,
            fma(get(work, AT_S * N + i), shifted, get(work, AT_Q * N + i)) * inverse,
        )
    times(K, work, AT_STEP * N, AT_MOVED * N, N)
    return delta


@compiled_lanes
def along(work: AnyArray, r: Any, half: Any, delta: Any, b: Any, N: int) -> Any:
    """Follow the tangents as far as they can be trusted; return the intercepts."""
    shift = spread(0.0)
    for i in range(N):
        d, e = get(work, AT_STEP * N + i), get(work, AT_MOVED * N + i)
        put(work, AT_STEP * N + i, fma(half, d - r * get(work, AT_EARLIER * N + i), d))
        moved = fma(half, e - r * get(work, AT_PUSHED * N + i), e)
        put(work, AT_MOVED * N + i, moved)
        put(work, AT_EARLIER * N + i, d)
        put(work, AT_PUSHED * N + i, e)
        shift = greater(absolute(moved + delta), shift)
    near = shift < spread(_FAR)
    for i in range(N):
        c, Kc = get(work, AT_C * N + i), get(work, AT_KC * N + i)
        put(work, AT_C * N + i, choose(near, c + get(work, AT_STEP * N + i), c))
        put(work, AT_KC * N + i, choose(near, Kc + get(work, AT_MOVED * N + i), Kc))
    return choose(near, b + delta, b)


@compiled_lanes
def move(work: AnyArray, moving: Any, size: Any, delta: Any, b: Any, N: int) -> Any:
    """Take the step in the lanes that do; return where it changed next to nothing."""
    largest, tiny = absolute(b), absolute(size * delta)
    for i in range(N):
        c, Kc, moved = (
            get(work, AT_C * N + i),
            get(work, AT_KC * N + i),
            size * get(work, AT_MOVED * N + i),
        )
        put(work, AT_C * N + i, choose(moving, fma(size, get(work, AT_STEP * N + i), c), c))
        put(work, AT_KC * N + i, choose(moving, Kc + moved, Kc))
        largest = greater(absolute(Kc + moved), largest)
        tiny = greater(absolute(moved), tiny)
    return tiny <= spread(1e-15) * largest


@compiled_lanes
def own_row(work: AnyArray, number: int, h: int, N: int) -> AnyArray:
    """Return one lane of a row of the work space."""
    return work[number * N * WIDTH + h : (number + 1) * N * WIDTH : WIDTH]


@compiled_lanes
def shortened(work: AnyArray, own: AnyArray, h: int, N: int) -> float:
    """Return the first of 1, ½, ¼ … by which a lane's step pays; 0 if none does."""
    alpha, level, gamma = (
        own[AT_ALPHA * WIDTH + h],
        own[AT_LEVEL * WIDTH + h],
        own[AT_GAMMA * WIDTH + h],
    )
    b, delta = own[AT_B * WIDTH + h], own[AT_DELTA * WIDTH + h]
    z, y, w = own_row(work, AT_Z, h, N), own_row(work, AT_Y, h, N), own_row(work, AT_W, h, N)
    c, Kc, q = own_row(work, AT_C, h, N), own_row(work, AT_KC, h, N), own_row(work, AT_Q, h, N)
    step, moved = own_row(work, AT_STEP, h, N), own_row(work, AT_MOVED, h, N)
    losses = penalty = linear = square = 0.0
    decrement = -gamma * delta
    for i in range(N):
        losses += w[i] * _loss(z[i], y[i])
        penalty += 0.5 * alpha * c[i] * Kc[i]
        decrement -= q[i] * moved[i]
        linear += alpha * step[i] * Kc[i]
        square += 0.5 * alpha * step[i] * moved[i]
    whole = losses + penalty + 0.5 * level * b * b
    # So near the optimum that rounding in the objective hides the gain, the full step is right.
    if decrement <= 1e-8 * abs(whole):
        return 1.0
    size = 1.0
    for _ in range(_MAX_HALVINGS):
        there = b + size * delta
        after = penalty + 0.5 * level * there * there + size * linear + size * size * square
        for i in range(N):
            after += w[i] * _loss(z[i] + size * (moved[i] + delta), y[i])
        if after <= whole - 1e-4 * size * decrement:
            return size
        size *= 0.5
    return 0.0
