"""Compiled: products, factors and solutions with eight tasks' matrices side by side.

Matrices are flat, entry (i, j) of (N, N) at place i·(N + 1) + j of `_lanes`, and N is a multiple of
four: four rows and four columns at a time stay in registers. Rows a power of two apart would fall
on the same few lines of the cache; N + 1 is odd.
"""

from __future__ import annotations

from typing import Any

from tacit._types import AnyArray
from tacit.numerics._lanes import compiled_lanes, fma, get, put, root, spread

__all__ = ["factor", "inverse_diagonal", "solve", "times"]


@compiled_lanes
def times(K: AnyArray, work: AnyArray, x: int, out: int, N: int) -> None:
    """Write K x; x and the product are at places of ``work``."""
    M = N + 1
    for i in range(0, N, 4):
        a = b = c = e = spread(0.0)
        first = i * M
        for j in range(first, first + N):
            f = get(work, x + j - first)
            a = fma(get(K, j), f, a)
            b = fma(get(K, j + M), f, b)
            c = fma(get(K, j + 2 * M), f, c)
            e = fma(get(K, j + 3 * M), f, e)
        _put_four(work, out + i, a, b, c, e)


@compiled_lanes
def factor(K: AnyArray, work: AnyArray, s: int, inverse: Any, U: AnyArray, N: int) -> Any:
    """Write the upper Cholesky factor of I + S K S·inverse; return which lanes have one.

    The diagonal holds the reciprocals of the factor's own; nothing is written below it. A lane that
    has none goes on with numbers that mean nothing.
    """
    M = N + 1
    one, most = spread(1.0), spread(1.7976931348623157e308)
    sound = one <= one
    for i in range(0, N, 4):
        p, q, m, h = i * M + i, i * M + i + M, i * M + i + 2 * M, i * M + i + 3 * M
        s0, s1, s2, s3 = _get_four(work, s + i)
        f0, f1, f2, f3 = s0 * inverse, s1 * inverse, s2 * inverse, s3 * inverse
        d0 = fma(f0 * s0, get(K, p), one)
        u01 = f0 * s1 * get(K, p + 1)
        u02 = f0 * s2 * get(K, p + 2)
        u03 = f0 * s3 * get(K, p + 3)
        d1 = fma(f1 * s1, get(K, q + 1), one)
        u12 = f1 * s2 * get(K, q + 2)
        u13 = f1 * s3 * get(K, q + 3)
        d2 = fma(f2 * s2, get(K, m + 2), one)
        u23 = f2 * s3 * get(K, m + 3)
        d3 = fma(f3 * s3, get(K, h + 3), one)
        for place in range(i, i * M + i, M):
            a, b, c, e = _get_four(U, place)
            x, y, z, w = _minus(a), _minus(b), _minus(c), _minus(e)
            d0 = fma(x, a, d0)
            u01 = fma(x, b, u01)
            u02 = fma(x, c, u02)
            u03 = fma(x, e, u03)
            d1 = fma(y, b, d1)
            u12 = fma(y, c, u12)
            u13 = fma(y, e, u13)
            d2 = fma(z, c, d2)
            u23 = fma(z, e, u23)
            d3 = fma(w, e, d3)
        sound = sound & (d0 > spread(0.0)) & (d0 < most)
        r0 = one / root(d0)
        u01, u02, u03 = u01 * r0, u02 * r0, u03 * r0
        d1 = fma(_minus(u01), u01, d1)
        sound = sound & (d1 > spread(0.0)) & (d1 < most)
        r1 = one / root(d1)
        u12, u13 = fma(_minus(u01), u02, u12) * r1, fma(_minus(u01), u03, u13) * r1
        d2 = fma(_minus(u12), u12, fma(_minus(u02), u02, d2))
        sound = sound & (d2 > spread(0.0)) & (d2 < most)
        r2 = one / root(d2)
        u23 = fma(_minus(u12), u13, fma(_minus(u02), u03, u23)) * r2
        d3 = fma(_minus(u23), u23, fma(_minus(u13), u13, fma(_minus(u03), u03, d3)))
        sound = sound & (d3 > spread(0.0)) & (d3 < most)
        r3 = one / root(d3)
        put(U, p, r0)
        put(U, p + 1, u01)
        put(U, p + 2, u02)
        put(U, p + 3, u03)
        put(U, q + 1, r1)
        put(U, q + 2, u12)
        put(U, q + 3, u13)
        put(U, m + 2, r2)
        put(U, m + 3, u23)
        put(U, h + 3, r3)
        u01, u02, u03, u12 = _minus(u01), _minus(u02), _minus(u03), _minus(u12)
        u13, u23 = _minus(u13), _minus(u23)
        for j in range(i + 4, N, 4):
            g0, g1, g2, g3 = _get_four(work, s + j)
            p, q = i * M + j, i * M + j + M
            m, h = q + M, q + 2 * M
            a0, a1 = f0 * g0 * get(K, p), f0 * g1 * get(K, p + 1)
            a2, a3 = f0 * g2 * get(K, p + 2), f0 * g3 * get(K, p + 3)
            b0, b1 = f1 * g0 * get(K, q), f1 * g1 * get(K, q + 1)
            b2, b3 = f1 * g2 * get(K, q + 2), f1 * g3 * get(K, q + 3)
            c0, c1 = f2 * g0 * get(K, m), f2 * g1 * get(K, m + 1)
            c2, c3 = f2 * g2 * get(K, m + 2), f2 * g3 * get(K, m + 3)
            e0, e1 = f3 * g0 * get(K, h), f3 * g1 * get(K, h + 1)
            e2, e3 = f3 * g2 * get(K, h + 2), f3 * g3 * get(K, h + 3)
            apart = j - i
            for place in range(i, i * M + i, M):
                x, y, z, w = _get_four(U, place + apart)
                f = _minus(get(U, place))
                a0, a1, a2, a3 = fma(f, x, a0), fma(f, y, a1), fma(f, z, a2), fma(f, w, a3)
                f = _minus(get(U, place + 1))
                b0, b1, b2, b3 = fma(f, x, b0), fma(f, y, b1), fma(f, z, b2), fma(f, w, b3)
                f = _minus(get(U, place + 2))
                c0, c1, c2, c3 = fma(f, x, c0), fma(f, y, c1), fma(f, z, c2), fma(f, w, c3)
                f = _minus(get(U, place + 3))
                e0, e1, e2, e3 = fma(f, x, e0), fma(f, y, e1), fma(f, z, e2), fma(f, w, e3)
            a0, a1, a2, a3 = a0 * r0, a1 * r0, a2 * r0, a3 * r0
            b0, b1 = fma(u01, a0, b0) * r1, fma(u01, a1, b1) * r1
            b2, b3 = fma(u01, a2, b2) * r1, fma(u01, a3, b3) * r1
            c0, c1 = fma(u12, b0, fma(u02, a0, c0)) * r2, fma(u12, b1, fma(u02, a1, c1)) * r2
            c2, c3 = fma(u12, b2, fma(u02, a2, c2)) * r2, fma(u12, b3, fma(u02, a3, c3)) * r2
            e0 = fma(u23, c0, fma(u13, b0, fma(u03, a0, e0))) * r3
            e1 = fma(u23, c1, fma(u13, b1, fma(u03, a1, e1))) * r3
            e2 = fma(u23, c2, fma(u13, b2, fma(u03, a2, e2))) * r3
            e3 = fma(u23, c3, fma(u13, b3, fma(u03, a3, e3))) * r3
            _put_four(U, p, a0, a1, a2, a3)
            _put_four(U, q, b0, b1, b2, b3)
            _put_four(U, m, c0, c1, c2, c3)
            _put_four(U, h, e0, e1, e2, e3)
    return sound


@compiled_lanes
def _minus(x: Any) -> Any:
    return spread(-0.0) - x


@compiled_lanes
def _get_four(U: AnyArray, place: int) -> Any:
    return get(U, place), get(U, place + 1), get(U, place + 2), get(U, place + 3)


@compiled_lanes
def _put_four(U: AnyArray, place: int, a: Any, b: Any, c: Any, e: Any) -> None:
    put(U, place, a)
    put(U, place + 1, b)
    put(U, place + 2, c)
    put(U, place + 3, e)


@compiled_lanes
def solve(U: AnyArray, work: AnyArray, x: int, N: int) -> None:
    """Solve UᵀU x = x, U as `factor` leaves it, in place."""
    M = N + 1
    for i in range(0, N, 4):
        a, b, c, e = _get_four(work, x + i)
        for j in range(i):
            f, place = _minus(get(work, x + j)), j * M + i
            a = fma(f, get(U, place), a)
            b = fma(f, get(U, place + 1), b)
            c = fma(f, get(U, place + 2), c)
            e = fma(f, get(U, place + 3), e)
        place = i * M + i
        a = a * get(U, place)
        f = _minus(a)
        b = fma(f, get(U, place + 1), b) * get(U, place + M + 1)
        c, e = fma(f, get(U, place + 2), c), fma(f, get(U, place + 3), e)
        f = _minus(b)
        c = fma(f, get(U, place + M + 2), c) * get(U, place + 2 * M + 2)
        e = fma(f, get(U, place + M + 3), e)
        e = fma(_minus(c), get(U, place + 2 * M + 3), e) * get(U, place + 3 * M + 3)
        _put_four(work, x + i, a, b, c, e)
    for i in range(N - 4, -1, -4):
        a, b, c, e = _get_four(work, x + i)
        for j in range(i + 4, N):
            f, place = _minus(get(work, x + j)), i * M + j
            a = fma(f, get(U, place), a)
            b = fma(f, get(U, place + M), b)
            c = fma(f, get(U, place + 2 * M), c)
            e = fma(f, get(U, place + 3 * M), e)
        place = i * M + i
        e = e * get(U, place + 3 * M + 3)
        f = _minus(e)
        c = fma(f, get(U, place + 2 * M + 3), c) * get(U, place + 2 * M + 2)
        b, a = fma(f, get(U, place + M + 3), b), fma(f, get(U, place + 3), a)
        f = _minus(c)
        b = fma(f, get(U, place + M + 2), b) * get(U, place + M + 1)
        a = fma(f, get(U, place + 2), a)
        a = fma(_minus(b), get(U, place + 1), a) * get(U, place)
        _put_four(work, x + i, a, b, c, e)


@compiled_lanes
def inverse_diagonal(U: AnyArray, V: AnyArray, work: AnyArray, out: int, N: int) -> None:
    """Write the diagonal of (UᵀU)⁻¹: the squared lengths of the rows of U⁻¹.

    Four columns of U⁻¹ at a time, from the diagonal upwards, stand in V (N, 4).
    """
    M, none = N + 1, spread(0.0)
    for j in range(0, N, 4):
        p = j * M + j
        r0, r1 = get(U, p), get(U, p + M + 1)
        r2, r3 = get(U, p + 2 * M + 2), get(U, p + 3 * M + 3)
        u01, u02, u03 = get(U, p + 1), get(U, p + 2), get(U, p + 3)
        u12, u13, u23 = get(U, p + M + 2), get(U, p + M + 3), get(U, p + 2 * M + 3)
        v01 = _minus(u01 * r1) * r0
        v12 = _minus(u12 * r2) * r1
        v23 = _minus(u23 * r3) * r2
        v02 = _minus(fma(u01, v12, u02 * r2)) * r0
        v13 = _minus(fma(u12, v23, u13 * r3)) * r1
        v03 = _minus(fma(u01, v13, fma(u02, v23, u03 * r3))) * r0
        _put_four(V, 4 * j, r0, v01, v02, v03)
        _put_four(V, 4 * j + 4, none, r1, v12, v13)
        _put_four(V, 4 * j + 8, none, none, r2, v23)
        _put_four(V, 4 * j + 12, none, none, none, r3)
        put(work, out + j, fma(v03, v03, fma(v02, v02, fma(v01, v01, r0 * r0))))
        put(work, out + j + 1, fma(v13, v13, fma(v12, v12, r1 * r1)))
        put(work, out + j + 2, fma(v23, v23, r2 * r2))
        put(work, out + j + 3, r3 * r3)
        for i in range(j - 4, -1, -4):
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = none
            c0 = c1 = c2 = c3 = e0 = e1 = e2 = e3 = none
            for k in range(i + 4, j + 4):
                x, y, z, w = _get_four(V, 4 * k)
                place = i * M + k
                f = get(U, place)
                a0, a1, a2, a3 = fma(f, x, a0), fma(f, y, a1), fma(f, z, a2), fma(f, w, a3)
                f = get(U, place + M)
                b0, b1, b2, b3 = fma(f, x, b0), fma(f, y, b1), fma(f, z, b2), fma(f, w, b3)
                f = get(U, place + 2 * M)
                c0, c1, c2, c3 = fma(f, x, c0), fma(f, y, c1), fma(f, z, c2), fma(f, w, c3)
                f = get(U, place + 3 * M)
                e0, e1, e2, e3 = fma(f, x, e0), fma(f, y, e1), fma(f, z, e2), fma(f, w, e3)
            p = i * M + i
            r = _minus(get(U, p + 3 * M + 3))
            e0, e1, e2, e3 = e0 * r, e1 * r, e2 * r, e3 * r
            f, r = get(U, p + 2 * M + 3), _minus(get(U, p + 2 * M + 2))
            c0, c1 = fma(f, e0, c0) * r, fma(f, e1, c1) * r
            c2, c3 = fma(f, e2, c2) * r, fma(f, e3, c3) * r
            f, h = get(U, p + M + 3), get(U, p + M + 2)
            r = _minus(get(U, p + M + 1))
            b0, b1 = fma(h, c0, fma(f, e0, b0)) * r, fma(h, c1, fma(f, e1, b1)) * r
            b2, b3 = fma(h, c2, fma(f, e2, b2)) * r, fma(h, c3, fma(f, e3, b3)) * r
            f, h, g = get(U, p + 3), get(U, p + 2), get(U, p + 1)
            r = _minus(get(U, p))
            a0 = fma(g, b0, fma(h, c0, fma(f, e0, a0))) * r
            a1 = fma(g, b1, fma(h, c1, fma(f, e1, a1))) * r
            a2 = fma(g, b2, fma(h, c2, fma(f, e2, a2))) * r
            a3 = fma(g, b3, fma(h, c3, fma(f, e3, a3))) * r
            _put_four(V, 4 * i, a0, a1, a2, a3)
            _put_four(V, 4 * i + 4, b0, b1, b2, b3)
            _put_four(V, 4 * i + 8, c0, c1, c2, c3)
            _put_four(V, 4 * i + 12, e0, e1, e2, e3)
            put(work, out + i, _squares(get(work, out + i), a0, a1, a2, a3))
            put(work, out + i + 1, _squares(get(work, out + i + 1), b0, b1, b2, b3))
            put(work, out + i + 2, _squares(get(work, out + i + 2), c0, c1, c2, c3))
            put(work, out + i + 3, _squares(get(work, out + i + 3), e0, e1, e2, e3))


@compiled_lanes
def _squares(sum_: Any, a: Any, b: Any, c: Any, e: Any) -> Any:
    return fma(e, e, fma(c, c, fma(b, b, fma(a, a, sum_))))
