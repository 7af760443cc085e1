"""Tasks' systems (I + τM) x = v for many τ, from one tridiagonal form of each M.

With M = Q T Qᵀ, T tridiagonal, I + τM = Q(I + τT)Qᵀ for every τ at once: quadratic forms, log
determinant and solution then cost O(d) each, and Q (reflections, never formed) is applied to two
vectors and back to one. An eigendecomposition would tell no more and costs ten times as much.

Guarantee: what is found for a task is, to the bit, a function of that task's matrix and vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._types import Array

__all__ = ["Bands", "inverses", "solutions"]


def _padded(stack: Array, last: float = 0.0) -> Array:
    """Return (b, d, d) matrices as (b, D, D/8, 8), D a multiple of eight, ``last`` on the rest."""
    b, d = stack.shape[:2]
    width = d + (-d) % 8
    found = np.zeros((b, width, width))
    found[:, :d, :d] = stack
    rest = np.arange(d, width)
    found[:, rest, rest] = last
    return found.reshape(b, width, width // 8, 8)


@dataclass(frozen=True)
class Bands:
    """Tridiagonal forms of some tasks' matrices, with two vectors s and o of each."""

    work: Array  # reflections
    band: Array
    vectors: Array
    size: int

    @classmethod
    def of(cls, matrices: Array, first: Array, second: Array) -> Bands:
        """Reduce positive semidefinite (b, d, d) with vectors (b, d)."""
        from tacit.numerics._tridiagonal import tridiagonalise

        b, d = first.shape
        work = _padded(matrices)
        width = work.shape[1]
        vectors = np.zeros((b, 2, width))
        vectors[:, 0, :d], vectors[:, 1, :d] = first, second
        band = np.empty((b, 3, width))
        tridiagonalise(work, vectors, band)
        return cls(work, band, vectors, d)

    def sums(self, taus: Array) -> tuple[Array, Array, Array, Array]:
        """Return sᵀNs, sᵀNo, oᵀNo with N = τ(I + τM)⁻¹, and log det(I + τM), each (b, a)."""
        from tacit.numerics._tridiagonal import band_sums

        found = np.empty((len(self.band), taus.size, 4))
        band_sums(self.band, self.vectors, np.ascontiguousarray(taus), found)
        return found[:, :, 0], found[:, :, 1], found[:, :, 2], found[:, :, 3]

    def solutions(self, taus: Array, first: Array, second: Array) -> Array:
        """Return Σ_a N_a(first_a s − second_a o), (b, d), for shares (b, a)."""
        from tacit.numerics._tridiagonal import band_solutions

        found = np.empty((len(self.band), self.band.shape[2]))
        shares = np.ascontiguousarray(np.stack([first, second], axis=1))
        taus = np.ascontiguousarray(taus)
        band_solutions(self.work, self.band, self.vectors, taus, shares, found)
        return found[:, : self.size]


def inverses(matrices: Array) -> Array:
    """Return the inverses of positive definite (b, d, d); NaN where there is none."""
    from tacit.numerics import _tridiagonal

    work = _padded(matrices, 1.0)
    found = np.empty(work.shape[:2] + work.shape[1:2])
    _tridiagonal.inverses(work, found)
    d = matrices.shape[1]
    return found[:, :d, :d]


def solutions(matrices: Array, vectors: Array) -> Array:
    """Return M⁻¹x of positive definite (b, d, d) and (b, d); NaN where there is none."""
    from tacit.numerics import _tridiagonal

    work = _padded(matrices, 1.0)
    found = np.zeros(work.shape[:2])
    found[:, : vectors.shape[1]] = vectors
    _tridiagonal.solutions(work, found)
    return found[:, : vectors.shape[1]]
