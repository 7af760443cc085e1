"""Compiled kernels: many small symmetric systems (I + τM) x = v at once, for several τ.

Imported only by `tacit.numerics.bands`, where the mathematics are.
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64 as real

from tacit._types import AnyArray
from tacit.numerics._blocks import compiled, dot, factor, inverse_rows, ready, solve, take_off

__all__ = ["band_solutions", "band_sums", "inverses", "solutions", "tridiagonalise"]


@compiled
def _take_two(row: AnyArray, a: AnyArray, b: AnyArray, fa: float, fb: float, first: int) -> None:
    """Subtract a combination of two rows from a row, all (n/8, 8), from block ``first`` on."""
    for k in range(first, len(row)):
        x, p, q = row[k], a[k], b[k]
        x0 = x[0] - (fa * p[0] + fb * q[0])
        x1 = x[1] - (fa * p[1] + fb * q[1])
        x2 = x[2] - (fa * p[2] + fb * q[2])
        x3 = x[3] - (fa * p[3] + fb * q[3])
        x4 = x[4] - (fa * p[4] + fb * q[4])
        x5 = x[5] - (fa * p[5] + fb * q[5])
        x6 = x[6] - (fa * p[6] + fb * q[6])
        x7 = x[7] - (fa * p[7] + fb * q[7])
        x[0], x[1], x[2], x[3] = x0, x1, x2, x3
        x[4], x[5], x[6], x[7] = x4, x5, x6, x7


@compiled
def _reflect(v: AnyArray, beta: float, x: AnyArray) -> None:
    """Replace x by x − β v (vᵀx), all (n/8, 8)."""
    total = beta * dot(v, x, 0)
    for k in range(len(x)):
        for h in range(8):
            x[k, h] -= total * v[k, h]


@compiled
def tridiagonalise(M: AnyArray, V: AnyArray, band: AnyArray) -> None:
    """Turn every M (b, D, D/8, 8) into QᵀMQ, tridiagonal, and vectors V (b, r, D) into Qᵀv.

    ``band`` (b, 3, D) receives the diagonal, what stands beside it, and β of every reflection
    I − β v vᵀ, whose v stays in M's rows. D is a multiple of eight.
    """
    D = M.shape[1]
    p = np.zeros((D // 8, 8))
    for task in range(M.shape[0]):
        A = M[task]
        diagonal, beside, betas = band[task, 0], band[task, 1], band[task, 2]
        for k in range(D):
            row = A[k].reshape(D)
            diagonal[k] = row[k]
            beside[k] = betas[k] = 0.0
            if k + 1 == D:
                break
            tail = 0.0
            for h in range(D):
                if h <= k:
                    row[h] = 0.0
                elif h > k + 1:
                    tail += row[h] * row[h]
            head = row[k + 1]
            beside[k] = head
            if tail == 0.0:
                continue
            size = math.sqrt(head * head + tail)
            pivot = head - size if head <= 0 else -tail / (head + size)
            beta = 2.0 * pivot * pivot / (tail + pivot * pivot)
            inverse = 1.0 / pivot
            for h in range(D):
                row[h] *= inverse
            row[k + 1] = 1.0
            beside[k], betas[k] = size, beta
            v, first = A[k], (k + 1) // 8
            for h in range(first, D // 8):
                for i in range(8):
                    p[h, i] = 0.0
            flat = p.reshape(D)
            for i in range(8 * first, D, 4):  # p = −M v; M's rows up to k count for nothing
                a, b, c, e = A[i], A[i + 1], A[i + 2], A[i + 3]
                take_off(p, a, b, c, e, row[i], row[i + 1], row[i + 2], row[i + 3], first)
            for h in range(8 * first, k + 1):
                flat[h] = 0.0
            along = dot(v, p, first)
            # M − v wᵀ − w vᵀ with w = β(M v − β(vᵀM v) v/2)
            half = 0.5 * beta * along
            for h in range(8 * first, D):
                flat[h] = -beta * (flat[h] - half * row[h])
            for i in range(k + 1, D):
                _take_two(A[i], v, p, flat[i], row[i], first)
            for r in range(V.shape[1]):
                _reflect(v, beta, V[task, r].reshape((D // 8, 8)))


@compiled
def band_sums(band: AnyArray, V: AnyArray, taus: AnyArray, out: AnyArray) -> None:
    """Write ``out`` (b, a, 4): sᵀN s, sᵀN o, oᵀN o and log det(I + τT), N = τ(I + τT)⁻¹.

    s and o are the two vectors of V (b, 2, D). From I + τT = L diag(δ) Lᵀ without L: for a
    semidefinite T every δ is at least one, and rounding must not go below.
    """
    D = band.shape[2]
    for task in range(len(band)):
        diagonal, beside, s, o = band[task, 0], band[task, 1], V[task, 0], V[task, 1]
        for a in range(len(taus)):
            tau = taus[a]
            x = y = link = 0.0
            ss = so = oo = volume = 0.0
            product = inverse = 1.0
            for h in range(D):
                if h:
                    link = tau * beside[h - 1]
                    part = link * inverse
                    x = s[h] - part * x
                    y = o[h] - part * y
                    pivot = max(1.0 + tau * diagonal[h] - link * part, 1.0)
                else:
                    x, y = s[0], o[0]
                    pivot = max(1.0 + tau * diagonal[0], 1.0)
                inverse = 1.0 / pivot
                ss += x * x * inverse
                so += x * y * inverse
                oo += y * y * inverse
                product *= pivot
                if product > 1e150:
                    volume += math.log(product)
                    product = 1.0
            found = out[task, a]
            found[0], found[1], found[2] = tau * ss, tau * so, tau * oo
            found[3] = volume + math.log(product)


@compiled
def band_solutions(
    M: AnyArray, band: AnyArray, V: AnyArray, taus: AnyArray, shares: AnyArray, out: AnyArray
) -> None:
    """Write Q Σ_a τ_a(I + τ_a T)⁻¹(f_a s − g_a o), (b, D), for shares f, g (b, 2, a)."""
    D = band.shape[2]
    x, pivots, total = np.zeros(D), np.zeros(D), np.zeros(D)
    for task in range(len(band)):
        diagonal, beside, s, o = band[task, 0], band[task, 1], V[task, 0], V[task, 1]
        for h in range(D):
            total[h] = 0.0
        for a in range(len(taus)):
            tau, f, g = taus[a], taus[a] * shares[task, 0, a], taus[a] * shares[task, 1, a]
            if f == 0.0 and g == 0.0:
                continue
            for h in range(D):
                x[h] = f * s[h] - g * o[h]
                pivots[h] = 1.0 + tau * diagonal[h]
                if h:
                    link = tau * beside[h - 1]
                    part = link / pivots[h - 1]
                    x[h] -= part * x[h - 1]
                    pivots[h] -= link * part
                pivots[h] = max(pivots[h], 1.0)
            for h in range(D - 1, -1, -1):
                x[h] /= pivots[h]
                if h + 1 < D:
                    x[h] -= tau * beside[h] / pivots[h] * x[h + 1]
                total[h] += x[h]
        for k in range(D - 2, -1, -1):
            if band[task, 2, k] != 0.0:
                _reflect(M[task, k], band[task, 2, k], total.reshape((D // 8, 8)))
        for h in range(D):
            out[task, h] = total[h]


@compiled
def inverses(M: AnyArray, out: AnyArray) -> None:
    """Write the inverses of positive definite M (b, D, D/8, 8) to (b, D, D); NaN where none is.

    M becomes its factors.
    """
    D = M.shape[1]
    V = np.zeros((D, D // 8, 8))
    for task in range(len(M)):
        found = out[task]
        if not factor(M[task], D):
            for i in range(D):
                for j in range(D):
                    found[i, j] = np.nan
            continue
        inverse_rows(M[task], V, D)
        for i in range(D):
            for j in range(i, D):
                found[i, j] = found[j, i] = dot(V[i], V[j], j // 8)


@compiled
def solutions(M: AnyArray, x: AnyArray) -> None:
    """Replace x (b, D) by M⁻¹x, for positive definite M (b, D, D/8, 8); NaN where there is none."""
    D = M.shape[1]
    for task in range(len(M)):
        if factor(M[task], D):
            solve(M[task], x[task].reshape((D // 8, 8)), D)
        else:
            for i in range(D):
                x[task, i] = np.nan


_WORK, _STACK, _TABLE = real[:, :, :, ::1], real[:, :, ::1], real[:, ::1]
ready(tridiagonalise, (_WORK, _STACK, _STACK))
ready(band_sums, (_STACK, _STACK, real[::1], _STACK))
ready(band_solutions, (_WORK, _STACK, _STACK, real[::1], _STACK, _TABLE))
ready(inverses, (_WORK, _STACK))
ready(solutions, (_WORK, _TABLE))
