"""Compiled kernel: one task's penalised logistic regressions along a path, on its kernel matrix.

Imported only by `tacit.numerics.logistic_dual`, where the mathematics are; the first logistic fit
loads it from the cache, or compiles it.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numba import float64 as real

from tacit._types import AnyArray
from tacit.numerics._blocks import compiled, dot, factor, inverse_rows, ready, solve, solve_two

__all__ = ["dual_paths"]

_MAX_ROUNDS = 100
_MAX_HALVINGS = 40
_SHORT = 1.5  # a Newton step that moves no prediction by more pays in full (`newton`)
_CHORD = 0.05  # after a step that moved predictions by less, the factor serves once more
_FAR = 4.0  # a tangent that moves predictions by more is not followed
_SAME = 1e-9  # after smaller moves the factor is that of the minimiser
_SLOW = 0.2  # a gradient that shrank by less than this asks for a new factor


@compiled
def _times(K: AnyArray, x: AnyArray, out: AnyArray, n: int) -> None:
    """Write K x for a symmetric K: columns are rows, so that nothing is summed across."""
    for h in range(n):
        out[h] = 0.0
    full = n - n % 4
    for i in range(0, full, 4):
        a, b, c, e = K[i], K[i + 1], K[i + 2], K[i + 3]
        fa, fb, fc, fe = x[i], x[i + 1], x[i + 2], x[i + 3]
        for h in range(n):
            out[h] += fa * a[h] + fb * b[h] + fc * c[h] + fe * e[h]
    for i in range(full, n):
        a = K[i]
        fa = x[i]
        for h in range(n):
            out[h] += fa * a[h]


@compiled
def _loss(z: float, y: float) -> float:
    """Return log(1 + eᶻ) − y z."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z))) - y * z


@compiled
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

    ``K`` is (t, N, N) and the rest accordingly, of which task i has ``counts[i]`` rows; strengths
    ``alphas``, ``levels`` (t, a) are worked off in ``order``, each from the last one's minimiser.
    Written are c (t, a, N), b (t, a), log-odds (t, a, N) (those with the row left out, if
    ``left_out``) and, if ``whole``, Laplace's log-evidence (t, a). A task whose numbers fail gets
    NaN.
    """
    width = K.shape[1] + (-K.shape[1]) % 8
    A = np.zeros((width, width // 8, 8))
    V = np.zeros((width, width // 8, 8))
    # Far enough apart that the compiler's vector loops never take neighbours for overlapping.
    gap = width + 64
    work = np.zeros(18 * gap)
    c, Kc = work[gap : gap + width], work[2 * gap : 2 * gap + width]
    z, g = work[3 * gap : 3 * gap + width], work[4 * gap : 4 * gap + width]
    s, q = work[5 * gap : 5 * gap + width], work[6 * gap : 6 * gap + width]
    Kq, u = work[7 * gap : 7 * gap + width], work[8 * gap : 8 * gap + width]
    one, step = work[9 * gap : 9 * gap + width], work[10 * gap : 10 * gap + width]
    moved, o = work[11 * gap : 11 * gap + width], work[12 * gap : 12 * gap + width]
    y, w = work[13 * gap : 13 * gap + width], work[14 * gap : 14 * gap + width]
    earlier, pushed = work[15 * gap : 15 * gap + width], work[16 * gap : 16 * gap + width]
    for task in range(K.shape[0]):
        n = counts[task]
        k = K[task]
        o[:n], y[:n], w[:n] = offset[task, :n], labels[task, :n], weights[task, :n]
        b = 0.0
        total = 0.0
        for i in range(n):
            c[i] = Kc[i] = u[i] = 0.0
            earlier[i] = pushed[i] = 0.0
            g[i] = w[i] * (1.0 / (1.0 + math.exp(-o[i])) - y[i])
            total += g[i]
        _times(k, g, Kq, n)
        square = total * total if intercept else 0.0
        for i in range(n):
            square += g[i] * Kq[i]
        limit = accuracy * max(math.sqrt(max(square, 0.0)), 1.0)
        fine = math.isfinite(square)
        alpha = level = schur = before_b = far = 0.0
        solved = False  # whether u is what `_prepare` wrote of K c at the last minimiser
        for turn in range(alphas.shape[1]):
            number = order[task, turn]
            if turn and fine and whole:
                # Along the path, by its tangents in the logarithms of the strengths, the last and
                # the one before.
                gamma = 0.0
                if level > 0:
                    gamma = level * b * math.log(levels[task, number] / level)
                rate = math.log(alphas[task, number] / alpha)
                f = alpha * rate
                for i in range(n):
                    q[i] = f * c[i]
                    Kq[i] = f * Kc[i]
                    u[i] *= f
                delta = _direction(
                    k, A, s, one, q, Kq, u, step, moved, alpha, gamma, schur, intercept, solved, n
                )
                r = rate / far if 0.0 < abs(rate) <= 2.0 * abs(far) else 0.0
                half, far = 0.5 * r, rate
                delta, before_b = delta + half * (delta - r * before_b), delta
                shift = 0.0
                for i in range(n):
                    d, e = step[i], moved[i]
                    step[i] += half * (d - r * earlier[i])
                    moved[i] += half * (e - r * pushed[i])
                    earlier[i], pushed[i] = d, e
                    shift = max(shift, abs(moved[i] + delta))
                if shift < _FAR:
                    b += delta
                    for i in range(n):
                        c[i] += step[i]
                        Kc[i] += moved[i]
            alpha, level = alphas[task, number], levels[task, number]
            fresh = False  # whether A is the factor of an earlier step at this strength
            since = np.inf  # how far log-odds have moved since
            shift = np.inf
            before = np.inf
            done = False
            for _ in range(_MAX_ROUNDS):
                if not fine:
                    break
                gamma = level * b
                for i in range(n):
                    z[i] = o[i] + Kc[i] + b
                    p = 1.0 / (1.0 + math.exp(-z[i]))
                    g[i] = w[i] * (p - y[i])
                    gamma += g[i]
                    q[i] = g[i] + alpha * c[i]
                _times(k, q, Kq, n)
                square = gamma * gamma if intercept else 0.0
                for i in range(n):
                    square += q[i] * Kq[i]
                norm = math.sqrt(max(square, 0.0))
                # At the limit of the arithmetic a gradient does not shrink any more.
                stuck = norm > 0.5 * before and norm <= 1e4 * limit
                if done or stuck or not norm > limit:
                    fine = math.isfinite(square)
                    break
                if not fresh or shift > _CHORD or norm > _SLOW * before:
                    fine, schur = _prepare(k, z, w, alpha, level, A, s, one, Kq, u, n)
                    if not fine:
                        break
                    since = 0.0
                    exact = True
                else:
                    exact = False
                fresh = True
                before = norm
                delta = _direction(
                    k, A, s, one, q, Kq, u, step, moved, alpha, gamma, schur, intercept, exact, n
                )
                shift = 0.0
                for i in range(n):
                    shift = max(shift, abs(moved[i] + delta))
                size = 1.0
                if not shift <= _SHORT:
                    if not exact:
                        fresh = False
                        continue
                    size = _shortened(
                        z, y, w, c, Kc, step, moved, q, alpha, level, gamma, b, delta, n
                    )
                    if size == 0.0:
                        done = True
                        continue
                    if size < 1.0:
                        shift = np.inf
                since += shift
                b += size * delta
                largest = abs(b)
                tiny = size * abs(delta)
                for i in range(n):
                    c[i] += size * step[i]
                    Kc[i] += size * moved[i]
                    largest = max(largest, abs(Kc[i]))
                    tiny = max(tiny, size * abs(moved[i]))
                done = tiny <= 1e-15 * largest
            solved = fine and whole and not since <= _SAME
            if solved:
                fine, schur = _prepare(k, z, w, alpha, level, A, s, one, Kc, u, n)
            if not fine:
                B[task, number] = evidence[task, number] = np.nan
                for i in range(n):
                    C[task, number, i] = Z[task, number, i] = np.nan
                continue
            B[task, number] = b
            for i in range(n):
                C[task, number, i] = c[i]
                Z[task, number, i] = z[i]
            if not whole:
                continue
            found = -0.5 * level * b * b
            for i in range(n):
                found -= (
                    w[i] * _loss(z[i], y[i])
                    + 0.5 * alpha * c[i] * Kc[i]
                    - math.log(A[i, i // 8, i % 8])
                )
            if intercept:
                found -= 0.5 * math.log(schur / level if level > 0 else schur)
            evidence[task, number] = found
            if left_out:
                inverse_rows(A, V, width)
                for i in range(n):
                    # 1 − leverage·curvature, without and with the intercept
                    part = dot(V[i], V[i], i // 8)
                    if intercept:
                        part -= one[i] * one[i] / schur
                    bend = s[i] * s[i]
                    if abs(g[i]) <= 1e4 * bend:
                        leverage = (1.0 - part) / bend
                    elif g[i] == 0.0:
                        leverage = 0.0
                    else:
                        leverage = _leverage(k, A, s, one, q, i, alpha, schur, intercept, n)
                    Z[task, number, i] += leverage * g[i] / max(part, 1e-12)


@compiled
def _direction(
    K: AnyArray,
    A: AnyArray,
    s: AnyArray,
    one: AnyArray,
    q: AnyArray,
    Kq: AnyArray,
    u: AnyArray,
    step: AnyArray,
    moved: AnyArray,
    alpha: float,
    gamma: float,
    schur: float,
    intercept: bool,
    solved: bool,
    n: int,
) -> float:
    """Write the Newton step of c and what it moves K c by; return that of the intercept.

    (I + K D/α) t = −K q/α + δ, with t the shift of the log-odds and D = diag(s²). Where ``solved``,
    u is what `_prepare` wrote of K q.
    """
    inverse = 1.0 / alpha
    if not solved:
        for i in range(n):
            u[i] = -s[i] * Kq[i] * inverse
        for i in range(n, len(u)):
            u[i] = 0.0  # whatever an earlier, longer task has left beyond n: NaN times zero is NaN
        solve(A, u.reshape(A.shape[1:]), len(u))
    along = delta = 0.0
    if intercept:
        for i in range(n):
            along += s[i] * u[i]
        delta = -(gamma + along) / schur
    for i in range(n):
        step[i] = -(q[i] + s[i] * (u[i] + delta * one[i])) * inverse
    _times(K, step, moved, n)
    return delta


@compiled
def _prepare(
    K: AnyArray,
    z: AnyArray,
    w: AnyArray,
    alpha: float,
    level: float,
    A: AnyArray,
    s: AnyArray,
    one: AnyArray,
    x: AnyArray,
    u: AnyArray,
    n: int,
) -> tuple[bool, float]:
    """Factor B = I + S K S/α, S² the curvatures, and return the intercept's pivot.

    Written are B⁻¹s to ``one`` and −B⁻¹S x/α to ``u``.
    """
    largest, inverse = alpha, 1.0 / alpha
    for i in range(n):
        p = 1.0 / (1.0 + math.exp(-abs(z[i])))
        bend = w[i] * p * (1.0 - p) if abs(z[i]) < 30 else w[i] * math.exp(-abs(z[i]))
        s[i] = math.sqrt(bend)
        one[i] = s[i]
        u[i] = -s[i] * x[i] * inverse
        largest = max(largest, bend * K[i, i])
    for i in range(n, len(s)):
        s[i] = one[i] = u[i] = 0.0
    for i in range(len(s)):
        row = A[i].reshape(len(s))
        if i < n:
            f, own = s[i] * inverse, K[i]
            for h in range(n):
                row[h] = f * s[h] * own[h]
        for h in range(n if i < n else 0, len(s)):
            row[h] = 0.0
        row[i] += 1.0
    if not factor(A, len(s)):
        return False, 1.0
    shape = A.shape[1:]
    solve_two(A, one.reshape(shape), u.reshape(shape), len(s))
    # The floor of `LogisticStack.hessian`: far from the optimum no row may have a curvature.
    schur = level + 1e-14 * largest
    for i in range(n):
        schur += s[i] * one[i]
    return math.isfinite(schur), schur


@compiled
def _shortened(
    z: AnyArray,
    y: AnyArray,
    w: AnyArray,
    c: AnyArray,
    Kc: AnyArray,
    step: AnyArray,
    moved: AnyArray,
    q: AnyArray,
    alpha: float,
    level: float,
    gamma: float,
    b: float,
    delta: float,
    n: int,
) -> float:
    """Return the first of 1, ½, ¼ … by which the step pays; 0 if none does."""
    now = decrement = linear = square = 0.0
    decrement = -gamma * delta
    for i in range(n):
        now += w[i] * _loss(z[i], y[i]) + 0.5 * alpha * c[i] * Kc[i]
        decrement -= q[i] * moved[i]
        linear += alpha * step[i] * Kc[i]
        square += 0.5 * alpha * step[i] * moved[i]
    whole = now + 0.5 * level * b * b
    # So near the optimum that rounding in the objective hides the gain, the full step is right.
    if decrement <= 1e-8 * abs(whole):
        return 1.0
    size = 1.0
    for _ in range(_MAX_HALVINGS):
        there = b + size * delta
        after = 0.5 * level * there * there + size * linear + size * size * square
        for i in range(n):
            after += w[i] * _loss(z[i] + size * (moved[i] + delta), y[i])
            after += 0.5 * alpha * c[i] * Kc[i]
        if after <= whole - 1e-4 * size * decrement:
            return size
        size *= 0.5
    return 0.0


@compiled
def _leverage(
    K: AnyArray,
    U: AnyArray,
    s: AnyArray,
    one: AnyArray,
    x: AnyArray,
    row: int,
    alpha: float,
    schur: float,
    intercept: bool,
    n: int,
) -> float:
    """Return a row's leverage where its curvature is too small to divide by."""
    level = 1.0
    for j in range(n):
        x[j] = s[j] * K[row, j]
        level -= x[j] * one[j] / alpha
    total = 0.0
    for j in range(n):
        factors = U[j].reshape(len(x))
        x[j] *= factors[j]
        total += x[j] * x[j]
        for h in range(j + 1, n):
            x[h] -= x[j] * factors[h]
    found = (K[row, row] - total / alpha) / alpha
    return found + level * level / schur if intercept else found


_STACK, _TABLE = real[:, :, ::1], real[:, ::1]
_KNOWN = (_STACK, _TABLE, _TABLE, _TABLE, numba.int64[::1], numba.int64[:, ::1], _TABLE, _TABLE)
_FLAGS = (numba.boolean, numba.boolean, numba.boolean)
ready(dual_paths, (*_KNOWN, *_FLAGS, real, _STACK, _TABLE, _STACK, _TABLE))
