"""Compiled kernel: one task's penalised logistic regressions along a path, on its kernel matrix.

Imported only by `tacit.numerics.logistic_dual`, where the mathematics are; the first logistic fit
loads it from the cache, or compiles it.
"""

from __future__ import annotations

import math

import numpy as np

from tacit._types import AnyArray
from tacit.numerics._fused import compiled

__all__ = ["dual_paths"]

_MAX_ROUNDS = 100
_MAX_HALVINGS = 40
_SHORT = 1.5  # a Newton step that moves no prediction by more pays in full (`newton`)
_CHORD = 0.05  # after a step that moved predictions by less, the factor serves once more
_SAME = 1e-9  # after smaller moves the factor is that of the minimiser
_SLOW = 0.2  # a gradient that shrank by less than this asks for a new factor


@compiled
def _factor(A: AnyArray, n: int) -> bool:
    """Write the upper Cholesky factor of A over its upper half; False if there is none.

    Four rows at a time are taken off the rest, so that it is loaded and stored a quarter as often.
    """
    j = 0
    while j < n:
        top = min(j + 4, n)
        for i in range(j, top):
            for k in range(j, i):
                f = A[k, i]
                for l in range(i, n):
                    A[i, l] -= f * A[k, l]
            pivot = A[i, i]
            if not (pivot > 0.0 and pivot < np.inf):
                return False
            root = math.sqrt(pivot)
            inverse = 1.0 / root
            A[i, i] = root
            for l in range(i + 1, n):
                A[i, l] *= inverse
        if top - j == 4:
            a, b, c, e = A[j], A[j + 1], A[j + 2], A[j + 3]
            for i in range(top, n):
                fa, fb, fc, fe = a[i], b[i], c[i], e[i]
                row = A[i]
                for l in range(i, n):
                    row[l] -= fa * a[l] + fb * b[l] + fc * c[l] + fe * e[l]
        j = top
    return True


@compiled
def _solve(U: AnyArray, x: AnyArray, n: int) -> None:
    """Solve UᵀU x = x in place."""
    for j in range(n):
        x[j] /= U[j, j]
        f = x[j]
        for l in range(j + 1, n):
            x[l] -= f * U[j, l]
    for j in range(n - 1, -1, -1):
        total = 0.0
        for l in range(j + 1, n):
            total += U[j, l] * x[l]
        x[j] = (x[j] - total) / U[j, j]


@compiled
def _inverse_diagonal(U: AnyArray, V: AnyArray, out: AnyArray, n: int) -> None:
    """Write the diagonal of (UᵀU)⁻¹; V is working space for U⁻¹."""
    for i in range(n - 1, -1, -1):
        row = V[i]
        for l in range(i, n):
            row[l] = 0.0
        for k in range(i + 1, n):
            f = U[i, k]
            other = V[k]
            for l in range(k, n):
                row[l] -= f * other[l]
        inverse = 1.0 / U[i, i]
        row[i] = inverse
        total = inverse * inverse
        for l in range(i + 1, n):
            row[l] *= inverse
            total += row[l] * row[l]
        out[i] = total


@compiled
def _times(K: AnyArray, x: AnyArray, out: AnyArray, n: int) -> None:
    """Write K x for a symmetric K: columns are rows, so that nothing is summed across."""
    for l in range(n):
        out[l] = 0.0
    full = n - n % 4
    for i in range(0, full, 4):
        a, b, c, e = K[i], K[i + 1], K[i + 2], K[i + 3]
        fa, fb, fc, fe = x[i], x[i + 1], x[i + 2], x[i + 3]
        for l in range(n):
            out[l] += fa * a[l] + fb * b[l] + fc * c[l] + fe * e[l]
    for i in range(full, n):
        a = K[i]
        fa = x[i]
        for l in range(n):
            out[l] += fa * a[l]


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
    ``left_out``) and Laplace's log-evidence (t, a). A task whose numbers fail gets NaN.
    """
    width = K.shape[1]
    A = np.empty((width, width))
    V = np.empty((width, width))
    c, Kc, z, g = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    s, q, Kq, u = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    one, step, moved = np.empty(width), np.empty(width), np.empty(width)
    for task in range(K.shape[0]):
        n = counts[task]
        k, o, y, w = K[task], offset[task], labels[task], weights[task]
        b = 0.0
        total = 0.0
        for i in range(n):
            c[i] = 0.0
            Kc[i] = 0.0
            g[i] = w[i] * (1.0 / (1.0 + math.exp(-o[i])) - y[i])
            total += g[i]
        _times(k, g, Kq, n)
        square = total * total if intercept else 0.0
        for i in range(n):
            square += g[i] * Kq[i]
        limit = accuracy * max(math.sqrt(max(square, 0.0)), 1.0)
        fine = math.isfinite(square)
        for turn in range(alphas.shape[1]):
            number = order[task, turn]
            alpha, level = alphas[task, number], levels[task, number]
            schur = 1.0
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
                if done or not norm > limit:
                    fine = math.isfinite(square)
                    break
                if not fresh or shift > _CHORD or norm > _SLOW * before:
                    fine, schur = _prepare(k, z, w, alpha, level, A, s, one, n)
                    if not fine:
                        break
                    since = 0.0
                    exact = True
                else:
                    exact = False
                fresh = True
                before = norm
                # (I + K D/α) t = −K q/α + δ, with t the shift of the log-odds and D = diag(s²).
                along = 0.0
                for i in range(n):
                    u[i] = -s[i] * Kq[i] / alpha
                _solve(A, u, n)
                delta = 0.0
                if intercept:
                    for i in range(n):
                        along += s[i] * u[i]
                    delta = -(gamma + along) / schur
                for i in range(n):
                    step[i] = -(q[i] + s[i] * (u[i] + delta * one[i])) / alpha
                _times(k, step, moved, n)
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
            if fine and not since <= _SAME:
                fine, schur = _prepare(k, z, w, alpha, level, A, s, one, n)
            if not fine:
                B[task, number] = evidence[task, number] = np.nan
                for i in range(n):
                    C[task, number, i] = Z[task, number, i] = np.nan
                continue
            B[task, number] = b
            found = -0.5 * level * b * b
            for i in range(n):
                found -= w[i] * _loss(z[i], y[i]) + 0.5 * alpha * c[i] * Kc[i] + math.log(A[i, i])
                C[task, number, i] = c[i]
                Z[task, number, i] = z[i]
            if intercept:
                found -= 0.5 * math.log(schur / level if level > 0 else schur)
            evidence[task, number] = found
            if left_out:
                _inverse_diagonal(A, V, u, n)
                for i in range(n):
                    # 1 − leverage·curvature, without and with the intercept
                    part = u[i]
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
def _prepare(
    K: AnyArray,
    z: AnyArray,
    w: AnyArray,
    alpha: float,
    level: float,
    A: AnyArray,
    s: AnyArray,
    one: AnyArray,
    n: int,
) -> tuple[bool, float]:
    """Factor I + S K S/α, S² the curvatures, solve it for s, and return the intercept's pivot."""
    largest = alpha
    for i in range(n):
        p = 1.0 / (1.0 + math.exp(-abs(z[i])))
        bend = w[i] * p * (1.0 - p) if abs(z[i]) < 30 else w[i] * math.exp(-abs(z[i]))
        s[i] = math.sqrt(bend)
        one[i] = s[i]
        largest = max(largest, bend * K[i, i])
    for i in range(n):
        f = s[i] / alpha
        for l in range(i, n):
            A[i, l] = f * s[l] * K[i, l]
        A[i, i] += 1.0
    if not _factor(A, n):
        return False, 1.0
    _solve(A, one, n)
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
        x[j] /= U[j, j]
        total += x[j] * x[j]
        for l in range(j + 1, n):
            x[l] -= x[j] * U[j, l]
    found = (K[row, row] - total / alpha) / alpha
    return found + level * level / schur if intercept else found
