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
from tacit.numerics._lane_factors import factor, inverse_diagonal, solve, times
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

__all__ = ["dual_paths"]

_MAX_ROUNDS = 100
_MAX_HALVINGS = 40
_SHORT = 1.5  # a Newton step that moves no prediction by more pays in full (`newton`)
_CHORD = 0.05  # after a step that moved predictions by less, the factor serves once more
_FAR = 4.0  # a tangent that moves predictions by more is not followed
_SAME = 1e-9  # after smaller moves the factor is that of the minimiser
_SLOW = 0.2  # a gradient that shrank by less than this asks for a new factor
# Rows of the work space: numbers of every row of eight tasks.
_C, _KC, _Z, _G, _BEND, _S, _Q, _KQ, _U, _ONE, _STEP, _MOVED = range(12)
_O, _Y, _W, _EARLIER, _PUSHED, _PART = range(12, 18)
# Rows of the tasks' own numbers.
_ALPHA, _LEVEL, _B, _DELTA, _SIZE, _GAMMA, _RATE, _OUT = range(8)


@compiled_lanes
def _loss(z: float, y: float) -> float:
    """Return log(1 + eᶻ) − y z."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z))) - y * z


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

    ``K`` is (t, n, n) and the rest accordingly, of which task i has ``counts[i]`` rows; strengths
    ``alphas``, ``levels`` (t, a) are worked off in ``order``, each from the last one's minimiser.
    Written are c (t, a, n), b (t, a), log-odds (t, a, n) (those with the row left out, if
    ``left_out``) and, if ``whole``, Laplace's log-evidence (t, a). A task whose numbers fail gets
    NaN.
    """
    N = K.shape[1] + (-K.shape[1]) % 4
    k, U = np.zeros(N * (N + 1) * WIDTH), np.zeros(N * (N + 1) * WIDTH)
    V, work, own = np.zeros(4 * N * WIDTH), np.zeros((18, N * WIDTH)), np.zeros((8, WIDTH))
    none, one, endless = spread(0.0), spread(1.0), spread(np.inf)
    for first in range(0, K.shape[0], WIDTH):
        _read(K, offset, labels, weights, counts, first, k, work, N)
        b = before_b = far = none
        alpha = schur = held = one
        own[_ALPHA, :] = own[_LEVEL, :] = 1.0
        fine = one <= one
        limit = none
        for turn in range(alphas.shape[1]):
            for h in range(WIDTH):
                task, strength, stiffness = first + h, 1.0, 1.0
                if task < K.shape[0]:
                    number = order[task, turn]
                    strength, stiffness = alphas[task, number], levels[task, number]
                _set_strengths(own, h, strength, stiffness)
            if turn > 0 and whole:
                rate = get(own[_RATE], 0)
                f, gamma = alpha * rate, get(own[_GAMMA], 0) * b
                for i in range(N):
                    put(work[_Q], i, f * get(work[_C], i))
                    put(work[_KQ], i, f * get(work[_KC], i))
                delta = _direction(k, U, work, alpha, gamma, schur, intercept, N)
                # By the tangents in the logarithms of the strengths, this and the one before.
                near = (none < absolute(rate)) & (absolute(rate) <= spread(2.0) * absolute(far))
                r = choose(near, rate / far, none)
                half, far = spread(0.5) * r, rate
                now, delta = delta, fma(half, delta - r * before_b, delta)
                before_b = now
                b = _along(work, r, half, delta, b, N)
            alpha, level = get(own[_ALPHA], 0), get(own[_LEVEL], 0)
            fresh = done = one < one  # whether U is a factor at this strength; whether to stop
            since = shift = before = endless  # how far log-odds moved since U was made
            active = fine
            for number in range(_MAX_ROUNDS):
                gamma = fma(level, b, _slopes(work, alpha, b, N))
                times(k, work[_Q], work[_KQ], N)
                square = gamma * gamma if intercept else none
                for i in range(N):
                    square = fma(get(work[_Q], i), get(work[_KQ], i), square)
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
                exact = active & (~fresh | (shift > spread(_CHORD)) | (norm > spread(_SLOW) * before))
                if any_of(exact):
                    held = choose(exact, alpha, held)
                    sound, schur = _prepare(k, U, work, exact, held, level, schur, N)
                    fine, active = fine & (sound | ~exact), active & (sound | ~exact)
                    since = choose(exact, none, since)
                fresh = fresh | active
                before = choose(active, norm, before)
                delta = _direction(k, U, work, alpha, gamma, schur, intercept, N)
                farthest = none
                for i in range(N):
                    farthest = greater(absolute(get(work[_MOVED], i) + delta), farthest)
                shift = choose(active, farthest, shift)
                size, moving = one, active
                long = active & ~(shift <= spread(_SHORT))
                if any_of(long):
                    fresh = fresh & ~(long & ~exact)
                    put(own[_SIZE], 0, one)
                    put(own[_B], 0, b)
                    put(own[_DELTA], 0, delta)
                    put(own[_GAMMA], 0, gamma)
                    for h in range(WIDTH):
                        if lane(long & exact, h):
                            own[_SIZE, h] = _shortened(work, own, h, N)
                    size = get(own[_SIZE], 0)
                    done = done | (long & exact & (size <= none))
                    moving = active & ~(long & ~exact) & (size > none)
                    shift = choose(moving & (size < one), endless, shift)
                since = choose(moving, since + shift, since)
                b = choose(moving, fma(size, delta, b), b)
                tiny = _move(work, moving, size, delta, b, N)
                done = (done & ~moving) | (moving & tiny)
            if whole:
                last = fine & ~(since <= spread(_SAME))
                if any_of(last):
                    held = choose(last, alpha, held)
                    sound, schur = _prepare(k, U, work, last, held, level, schur, N)
                    fine = fine & (sound | ~last)
                put(own[_OUT], 0, _evidence(U, work, alpha, level, b, schur, intercept, N))
                if left_out:
                    inverse_diagonal(U, V, work[_PART], N)
                    flat = _leave_out(work, schur, intercept, N)
                    if any_of(flat):
                        put(own[_SIZE], 0, schur)
                        for h in range(WIDTH):
                            if lane(flat, h):
                                _leave_out_flat(k, U, work, own, h, intercept, N)
            put(own[_B], 0, choose(fine, b, spread(np.nan)))
            for h in range(min(WIDTH, K.shape[0] - first)):
                task, n = first + h, counts[first + h]
                number = order[task, turn]
                B[task, number] = own[_B, h]
                good = lane(fine, h)
                if whole:
                    evidence[task, number] = own[_OUT, h] if good else np.nan
                for i in range(n):
                    C[task, number, i] = work[_C, i * WIDTH + h] if good else np.nan
                    Z[task, number, i] = work[_Z, i * WIDTH + h] if good else np.nan


@compiled_lanes
def _read(
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
    for j in (_C, _KC, _S, _O, _Y, _W, _EARLIER, _PUSHED, _ONE):
        work[j, :] = 0.0
    for h in range(min(WIDTH, K.shape[0] - first)):
        n, task = counts[first + h], first + h
        for i in range(n):
            work[_O, i * WIDTH + h] = offset[task, i]
            work[_Y, i * WIDTH + h] = labels[task, i]
            work[_W, i * WIDTH + h] = weights[task, i]
            row, place = K[task, i], i * (N + 1) * WIDTH + h
            for j in range(n):
                k[place + j * WIDTH] = row[j]


@compiled_lanes
def _slopes(work: AnyArray, alpha: Any, b: Any, N: int) -> Any:
    """Write log-odds, slopes, curvatures and q = g + αc; return the sum of the slopes."""
    none, one, total = spread(0.0), spread(1.0), spread(0.0)
    for i in range(N):
        z = get(work[_O], i) + get(work[_KC], i) + b
        e = exp_below(none - absolute(z))
        p = one / (one + e)
        w = get(work[_W], i)
        g = w * (choose(z < none, e * p, p) - get(work[_Y], i))
        total = total + g
        put(work[_Z], i, z)
        put(work[_G], i, g)
        put(work[_BEND], i, w * (e * p * p))
        put(work[_Q], i, fma(alpha, get(work[_C], i), g))
    return total


@compiled_lanes
def _prepare(
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
    s, largest = work[_S], alpha
    for i in range(N):
        bend = get(work[_BEND], i)
        put(s, i, choose(anew, root(bend), get(s, i)))
        put(work[_ONE], i, get(s, i))
        largest = greater(bend * get(K, i * (N + 1) + i), largest)
    sound = factor(K, s, spread(1.0) / alpha, U, N)
    solve(U, work[_ONE], N)
    # The floor of `LogisticStack.hessian`: far from the optimum no row may have a curvature.
    found = fma(spread(1e-14), largest, level)
    for i in range(N):
        found = fma(get(s, i), get(work[_ONE], i), found)
    return sound & (absolute(found) < spread(np.inf)), choose(anew, found, schur)


@compiled_lanes
def _direction(
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
        put(work[_U], i, get(work[_S], i) * get(work[_KQ], i) * inverse)
    solve(U, work[_U], N)
    delta = none
    if intercept:
        along = gamma
        for i in range(N):
            along = fma(get(work[_S], i), get(work[_U], i), along)
        delta = none - along / schur
    for i in range(N):
        shifted = fma(delta, get(work[_ONE], i), get(work[_U], i))
        put(work[_STEP], i, fma(get(work[_S], i), shifted, get(work[_Q], i)) * inverse)
    times(K, work[_STEP], work[_MOVED], N)
    return delta


@compiled_lanes
def _set_strengths(own: AnyArray, h: int, alpha: float, level: float) -> None:
    """Write a lane's next strengths, and how far they are from the last, by their logarithms."""
    last = own[_LEVEL, h]
    own[_RATE, h] = math.log(alpha / own[_ALPHA, h])
    own[_GAMMA, h] = last * math.log(level / last) if last > 0 and level > 0 else 0.0
    own[_ALPHA, h], own[_LEVEL, h] = alpha, level


@compiled_lanes
def _along(work: AnyArray, r: Any, half: Any, delta: Any, b: Any, N: int) -> Any:
    """Follow the tangents as far as they can be trusted; return the intercepts."""
    shift = spread(0.0)
    for i in range(N):
        d, e = get(work[_STEP], i), get(work[_MOVED], i)
        put(work[_STEP], i, fma(half, d - r * get(work[_EARLIER], i), d))
        moved = fma(half, e - r * get(work[_PUSHED], i), e)
        put(work[_MOVED], i, moved)
        put(work[_EARLIER], i, d)
        put(work[_PUSHED], i, e)
        shift = greater(absolute(moved + delta), shift)
    near = shift < spread(_FAR)
    for i in range(N):
        c, Kc = get(work[_C], i), get(work[_KC], i)
        put(work[_C], i, choose(near, c + get(work[_STEP], i), c))
        put(work[_KC], i, choose(near, Kc + get(work[_MOVED], i), Kc))
    return choose(near, b + delta, b)


@compiled_lanes
def _move(work: AnyArray, moving: Any, size: Any, delta: Any, b: Any, N: int) -> Any:
    """Take the step in the lanes that do; return where it changed next to nothing."""
    largest, tiny = absolute(b), absolute(size * delta)
    for i in range(N):
        c, Kc, moved = get(work[_C], i), get(work[_KC], i), size * get(work[_MOVED], i)
        put(work[_C], i, choose(moving, fma(size, get(work[_STEP], i), c), c))
        put(work[_KC], i, choose(moving, Kc + moved, Kc))
        largest = greater(absolute(Kc + moved), largest)
        tiny = greater(absolute(moved), tiny)
    return tiny <= spread(1e-15) * largest


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
        z = get(work[_Z], i)
        loss = log(one + exp_below(none - absolute(z))) + greater(z, none)
        found = fma(get(work[_W], i), loss - get(work[_Y], i) * z, found)
        penalty = fma(get(work[_C], i), get(work[_KC], i), penalty)
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
        part, g = get(work[_PART], i), get(work[_G], i)
        if intercept:
            part = part - get(work[_ONE], i) * get(work[_ONE], i) / schur
        s = get(work[_S], i)
        bend = s * s
        near = absolute(g) <= spread(1e4) * bend
        leverage = choose(near & (bend > none), (one - part) / bend, none)
        part = greater(part, spread(1e-12))
        put(work[_PART], i, part)
        put(work[_Z], i, fma(leverage, g / part, get(work[_Z], i)))
        apart = apart | (~near & (absolute(g) > none))
    return apart


@compiled_lanes
def _leave_out_flat(
    K: AnyArray, U: AnyArray, work: AnyArray, own: AnyArray, h: int, intercept: bool, N: int
) -> None:
    """Do so for the rows of one lane whose curvature is too small to divide by."""
    alpha, schur = own[_ALPHA, h], own[_SIZE, h]
    x = work[_Q]
    for row in range(h, N * WIDTH, WIDTH):
        g, bend = work[_G, row], work[_S, row] * work[_S, row]
        if g == 0.0 or abs(g) <= 1e4 * bend:
            continue
        level, total, first = 1.0, 0.0, (row // WIDTH) * (N + 1) * WIDTH
        for j in range(h, N * WIDTH, WIDTH):
            x[j] = work[_S, j] * K[first + j]
            level -= x[j] * work[_ONE, j] / alpha
        for j in range(h, N * WIDTH, WIDTH):
            start = (j // WIDTH) * (N + 1) * WIDTH
            x[j] *= U[start + j]
            total += x[j] * x[j]
            for i in range(j + WIDTH, N * WIDTH, WIDTH):
                x[i] -= x[j] * U[start + i]
        found = (K[first + row] - total / alpha) / alpha
        if intercept:
            found += level * level / schur
        work[_Z, row] += found * g / work[_PART, row]


@compiled_lanes
def _shortened(work: AnyArray, own: AnyArray, h: int, N: int) -> float:
    """Return the first of 1, ½, ¼ … by which a lane's step pays; 0 if none does."""
    alpha, level, gamma = own[_ALPHA, h], own[_LEVEL, h], own[_GAMMA, h]
    b, delta = own[_B, h], own[_DELTA, h]
    now = linear = square = 0.0
    decrement = -gamma * delta
    for i in range(h, N * WIDTH, WIDTH):
        now += work[_W, i] * _loss(work[_Z, i], work[_Y, i])
        now += 0.5 * alpha * work[_C, i] * work[_KC, i]
        decrement -= work[_Q, i] * work[_MOVED, i]
        linear += alpha * work[_STEP, i] * work[_KC, i]
        square += 0.5 * alpha * work[_STEP, i] * work[_MOVED, i]
    whole = now + 0.5 * level * b * b
    # So near the optimum that rounding in the objective hides the gain, the full step is right.
    if decrement <= 1e-8 * abs(whole):
        return 1.0
    size = 1.0
    for _ in range(_MAX_HALVINGS):
        there = b + size * delta
        after = 0.5 * level * there * there + size * linear + size * size * square
        for i in range(h, N * WIDTH, WIDTH):
            z = work[_Z, i] + size * (work[_MOVED, i] + delta)
            after += work[_W, i] * _loss(z, work[_Y, i])
            after += 0.5 * alpha * work[_C, i] * work[_KC, i]
        if after <= whole - 1e-4 * size * decrement:
            return size
        size *= 0.5
    return 0.0


_STACK, _TABLE = real[:, :, ::1], real[:, ::1]
_KNOWN = (_STACK, _TABLE, _TABLE, _TABLE, numba.int64[::1], numba.int64[:, ::1], _TABLE, _TABLE)
_FLAGS = (numba.boolean, numba.boolean, numba.boolean)
dual_paths.compile((*_KNOWN, *_FLAGS, real, _STACK, _TABLE, _STACK, _TABLE))
