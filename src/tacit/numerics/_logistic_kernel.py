"""Compiled: Newton's method on the kernel matrices of small logistic tasks, eight at a time.

Imported only by `tacit.numerics.logistic_dual`, where the mathematics are. Every task has a lane of
its own (`tacit.numerics._lanes`), and what is decided for it, how often to step and when to factor
anew, is decided by its lane alone. A lane that waits for others stays as it is: its factor is made
again from the same curvatures, to the same bits.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from numba import float64 as real

from tacit._types import AnyArray
from tacit.numerics._lane_factors import inverse_diagonal, times
from tacit.numerics._lanes import (
    WIDTH,
    absolute,
    any_of,
    choose,
    compiled_lanes,
    exp_below,
    fma,
    get,
    greater,
    lane,
    log,
    put,
    root,
    spread,
)
from tacit.numerics._logistic_steps import (
    AT_ALPHA,
    AT_B,
    AT_C,
    AT_DELTA,
    AT_G,
    AT_GAMMA,
    AT_KC,
    AT_KQ,
    AT_LEVEL,
    AT_MOVED,
    AT_ONE,
    AT_OUT,
    AT_PART,
    AT_Q,
    AT_RATE,
    AT_S,
    AT_SIZE,
    AT_W,
    AT_Y,
    AT_Z,
    along,
    direction,
    move,
    own_row,
    prepare,
    read,
    shortened,
    slopes,
)

__all__ = ["dual_paths"]

_MAX_ROUNDS = 100
_SHORT = 1.5  # a Newton step that moves no prediction by more pays in full (`newton`)
_CHORD = 0.05  # after a step that moved predictions by less, the factor serves once more
_SAME = 1e-9  # after smaller moves the factor is that of the minimiser
_SLOW = 0.2  # a gradient that shrank by less than this asks for a new factor


@compiled_lanes
def dual_paths(
    K: AnyArray,
    offset: AnyArray,
    labels: AnyArray,
    weights: AnyArray,
    counts: AnyArray,
    order: AnyArray,
    alphas: AnyArray,
    levels: AnyArray,
    intercept: bool,
    whole: bool,
    left_out: bool,
    accuracy: float,
    C: AnyArray,
    B: AnyArray,
    Z: AnyArray,
    evidence: AnyArray,
) -> None:
    """Minimise ``Σ_r w_r ℓ(o_r + (K c)_r + b, y_r) + α cᵀK c/2 + λ b²/2`` for every task and α.

    ``K`` is (t, n, n). There are t problems or a multiple of t: problem i, of ``counts[i]`` rows,
    is on the matrix of task i modulo t. Strengths ``alphas``, ``levels`` (t, a) are worked off in
    ``order``, each from the last one's minimiser.
    Written are c (t, a, n), b (t, a), log-odds (t, a, n) (those with the row left out, if
    ``left_out``) and, if ``whole``, Laplace's log-evidence (t, a). A task whose numbers fail gets
    NaN.
    """
    N = K.shape[1] + (-K.shape[1]) % 4
    k, U = np.zeros(N * (N + 1) * WIDTH), np.zeros(N * (N + 1) * WIDTH)
    V, work, own = np.zeros(4 * N * WIDTH), np.zeros(18 * N * WIDTH), np.zeros(8 * WIDTH)
    none, one, endless = spread(0.0), spread(1.0), spread(np.inf)
    problems = alphas.shape[0]
    for first in range(0, problems, WIDTH):
        read(K, offset, labels, weights, counts, first, k, work, N)
        b = before_b = far = none
        alpha = schur = held = one
        own[:] = 1.0
        fine = one <= one
        limit = none
        for turn in range(alphas.shape[1]):
            for h in range(WIDTH):
                task, strength, stiffness = first + h, 1.0, 1.0
                if task < problems:
                    number = order[task, turn]
                    strength, stiffness = alphas[task, number], levels[task, number]
                _set_strengths(own, h, strength, stiffness)
            if turn > 0 and whole:
                rate = get(own, AT_RATE)
                f, gamma = alpha * rate, get(own, AT_GAMMA) * b
                for i in range(N):
                    put(work, AT_Q * N + i, f * get(work, AT_C * N + i))
                    put(work, AT_KQ * N + i, f * get(work, AT_KC * N + i))
                delta = direction(k, U, work, alpha, gamma, schur, intercept, N)
                # By the tangents in the logarithms of the strengths, this and the one before.
                near = (none < absolute(rate)) & (absolute(rate) <= spread(2.0) * absolute(far))
                r = choose(near, rate / far, none)
                half, far = spread(0.5) * r, rate
                now, delta = delta, fma(half, delta - r * before_b, delta)
                before_b = now
                b = along(work, r, half, delta, b, N)
            alpha, level = get(own, AT_ALPHA), get(own, AT_LEVEL)
            fresh = done = one < one  # whether U is a factor at this strength; whether to stop
            since = shift = before = endless  # how far log-odds moved since U was made
            active = fine
            for number in range(_MAX_ROUNDS):
                gamma = fma(level, b, slopes(work, alpha, b, N))
                times(k, work, AT_Q * N, AT_KQ * N, N)
                square = gamma * gamma if intercept else none
                for i in range(N):
                    square = fma(get(work, AT_Q * N + i), get(work, AT_KQ * N + i), square)
                norm = root(greater(square, none))
                if turn == 0 and number == 0:
                    limit = spread(accuracy) * greater(norm, one)
                # At the limit of the arithmetic a gradient does not shrink any more.
                stuck = (norm > spread(0.5) * before) & (norm <= spread(1e4) * limit)
                ended = done | stuck | ~(norm > limit)
                fine = fine & (~(active & ended) | (absolute(square) < endless))
                active = active & ~ended
                if not any_of(active):
                    break
                exact = active & (
                    ~fresh | (shift > spread(_CHORD)) | (norm > spread(_SLOW) * before)
                )
                if any_of(exact):
                    held = choose(exact, alpha, held)
                    sound, schur = prepare(k, U, work, exact, held, level, schur, N)
                    fine, active = fine & (sound | ~exact), active & (sound | ~exact)
                    since = choose(exact, none, since)
                fresh = fresh | active
                before = choose(active, norm, before)
                delta = direction(k, U, work, alpha, gamma, schur, intercept, N)
                farthest = none
                for i in range(N):
                    farthest = greater(absolute(get(work, AT_MOVED * N + i) + delta), farthest)
                shift = choose(active, farthest, shift)
                size, moving = one, active
                long = active & ~(shift <= spread(_SHORT))
                if any_of(long):
                    fresh = fresh & ~(long & ~exact)
                    put(own, AT_SIZE, one)
                    put(own, AT_B, b)
                    put(own, AT_DELTA, delta)
                    put(own, AT_GAMMA, gamma)
                    for h in range(WIDTH):
                        if lane(long & exact, h):
                            own[AT_SIZE * WIDTH + h] = shortened(work, own, h, N)
                    size = get(own, AT_SIZE)
                    done = done | (long & exact & (size <= none))
                    moving = active & ~(long & ~exact) & (size > none)
                    shift = choose(moving & (size < one), endless, shift)
                since = choose(moving, since + shift, since)
                b = choose(moving, fma(size, delta, b), b)
                tiny = move(work, moving, size, delta, b, N)
                done = (done & ~moving) | (moving & tiny)
            if whole:
                last = fine & ~(since <= spread(_SAME))
                if any_of(last):
                    held = choose(last, alpha, held)
                    sound, schur = prepare(k, U, work, last, held, level, schur, N)
                    fine = fine & (sound | ~last)
                put(own, AT_OUT, _evidence(U, work, alpha, level, b, schur, intercept, N))
                if left_out:
                    inverse_diagonal(U, V, work, AT_PART * N, N)
                    flat = _leave_out(work, schur, intercept, N)
                    if any_of(flat):
                        put(own, AT_SIZE, schur)
                        for h in range(WIDTH):
                            if lane(flat, h):
                                _leave_out_flat(k, U, work, own, h, intercept, N)
            put(own, AT_B, choose(fine, b, spread(np.nan)))
            for h in range(min(WIDTH, problems - first)):
                task, n = first + h, counts[first + h]
                number = order[task, turn]
                B[task, number] = own[AT_B * WIDTH + h]
                good = lane(fine, h)
                if whole:
                    evidence[task, number] = own[AT_OUT * WIDTH + h] if good else np.nan
                for i in range(n):
                    C[task, number, i] = work[(AT_C * N + i) * WIDTH + h] if good else np.nan
                    Z[task, number, i] = work[(AT_Z * N + i) * WIDTH + h] if good else np.nan


@compiled_lanes
def _set_strengths(own: AnyArray, h: int, alpha: float, level: float) -> None:
    """Write a lane's next strengths, and how far they are from the last, by their logarithms."""
    last = own[AT_LEVEL * WIDTH + h]
    own[AT_RATE * WIDTH + h] = math.log(alpha / own[AT_ALPHA * WIDTH + h])
    own[AT_GAMMA * WIDTH + h] = last * math.log(level / last) if last > 0 and level > 0 else 0.0
    own[AT_ALPHA * WIDTH + h], own[AT_LEVEL * WIDTH + h] = alpha, level


@compiled_lanes
def _evidence(
    U: AnyArray,
    work: AnyArray,
    alpha: Any,
    level: Any,
    b: Any,
    schur: Any,
    intercept: bool,
    N: int,
) -> Any:
    """Return Laplace's log-evidence."""
    none, one, half = spread(0.0), spread(1.0), spread(0.5)
    found, penalty = half * level * b * b, none
    for i in range(N):
        z = get(work, AT_Z * N + i)
        loss = log(one + exp_below(none - absolute(z))) + greater(z, none)
        found = fma(get(work, AT_W * N + i), loss - get(work, AT_Y * N + i) * z, found)
        penalty = fma(get(work, AT_C * N + i), get(work, AT_KC * N + i), penalty)
    found = fma(half * alpha, penalty, found)
    for i in range(0, N, 4):
        place, apart = i * (N + 1) + i, N + 2
        left = get(U, place) * get(U, place + apart)
        found = found - log(left * get(U, place + 2 * apart) * get(U, place + 3 * apart))
    if intercept:
        found = fma(half, log(choose(level > none, schur / level, schur)), found)
    return none - found


@compiled_lanes
def _leave_out(work: AnyArray, schur: Any, intercept: bool, N: int) -> Any:
    """Write log-odds of rows left out; return lanes where a curvature is too small to divide by."""
    none, one = spread(0.0), spread(1.0)
    apart = none > one
    for i in range(N):
        # 1 − leverage·curvature, without and with the intercept
        part, g = get(work, AT_PART * N + i), get(work, AT_G * N + i)
        if intercept:
            part = part - get(work, AT_ONE * N + i) * get(work, AT_ONE * N + i) / schur
        s = get(work, AT_S * N + i)
        bend = s * s
        near = absolute(g) <= spread(1e4) * bend
        leverage = choose(near & (bend > none), (one - part) / bend, none)
        part = greater(part, spread(1e-12))
        put(work, AT_PART * N + i, part)
        put(work, AT_Z * N + i, fma(leverage, g / part, get(work, AT_Z * N + i)))
        apart = apart | (~near & (absolute(g) > none))
    return apart


@compiled_lanes
def _leave_out_flat(
    K: AnyArray, U: AnyArray, work: AnyArray, own: AnyArray, h: int, intercept: bool, N: int
) -> None:
    """Do so for the rows of one lane whose curvature is too small to divide by."""
    alpha, schur = own[AT_ALPHA * WIDTH + h], own[AT_SIZE * WIDTH + h]
    g, s, one, x = (
        own_row(work, AT_G, h, N),
        own_row(work, AT_S, h, N),
        own_row(work, AT_ONE, h, N),
        np.empty(N),
    )
    z, part = own_row(work, AT_Z, h, N), own_row(work, AT_PART, h, N)
    for row in range(N):
        if g[row] == 0.0 or abs(g[row]) <= 1e4 * s[row] * s[row]:
            continue
        level, total = 1.0, 0.0
        kernel = K[row * (N + 1) * WIDTH + h : (row + 1) * (N + 1) * WIDTH : WIDTH]
        for j in range(N):
            x[j] = s[j] * kernel[j]
            level -= x[j] * one[j] / alpha
        for j in range(N):
            factors = U[j * (N + 1) * WIDTH + h : (j + 1) * (N + 1) * WIDTH : WIDTH]
            x[j] *= factors[j]
            total += x[j] * x[j]
            for i in range(j + 1, N):
                x[i] -= x[j] * factors[i]
        found = (kernel[row] - total / alpha) / alpha
        if intercept:
            found += level * level / schur
        z[row] += found * g[row] / part[row]


_STACK, _TABLE = real[:, :, ::1], real[:, ::1]
_KNOWN = (_STACK, _TABLE, _TABLE, _TABLE, numba.int64[::1], numba.int64[:, ::1], _TABLE, _TABLE)
_FLAGS = (numba.boolean, numba.boolean, numba.boolean)
dual_paths.compile((*_KNOWN, *_FLAGS, real, _STACK, _TABLE, _STACK, _TABLE))
