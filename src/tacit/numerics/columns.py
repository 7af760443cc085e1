"""Proximal steps of a server that hears one task at a time.

The server keeps one vector a task and answers with the proximal point of them all; between two
answers one vector has changed. What couples the tasks is therefore kept up to date, not computed
anew: the Gram matrix by a change of rank two, its leading eigenvectors from those before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
import scipy.linalg

from tacit._types import Array, IntArray
from tacit.penalties import FeatureGroup, Nuclear

__all__ = ["COLUMNS", "Columns", "GroupSparseColumns", "LowRankColumns"]

_DIRECT = 64  # up to here a full eigendecomposition costs less than the way around it
_RESOLUTION = 1e-5  # of the threshold to the largest singular value, that a Gram matrix resolves
_EXACT = 1e-10  # largest residual of an eigenpair, over the squared threshold
_SPARE, _DEGREE, _TRIES = 5, 3, 6
_FEWEST_CHANGES = 256  # rounding adds up: after so many changes, or one a task, start anew


class Columns(Protocol):
    """Vectors (N, D), one a task and output, under a penalty that couples them."""

    @property
    def vectors(self) -> Array:
        """The vectors."""

    @classmethod
    def of(cls, vectors: Array) -> Self:
        """Start with these vectors."""

    def replaced(self, places: IntArray, new: Array) -> Self:
        """Return the columns with some vectors exchanged."""

    def shrunk(self, threshold: float, places: IntArray | None = None) -> tuple[Array, Self]:
        """Return the proximal point at ``places`` (None: everywhere), and what was learned."""


@dataclass(frozen=True)
class GroupSparseColumns:
    """Feature groups: one number a feature is all that couples tasks."""

    vectors: Array
    squares: Array
    changes: int = 0

    @classmethod
    def of(cls, vectors: Array) -> GroupSparseColumns:
        """Start with these vectors."""
        return cls(vectors, np.einsum("nd,nd->d", vectors, vectors))

    def replaced(self, places: IntArray, new: Array) -> GroupSparseColumns:
        """Exchange some vectors."""
        vectors, old = self.vectors.copy(), self.vectors[places]
        vectors[places] = new
        changes = self.changes + len(places)
        if changes > max(_FEWEST_CHANGES, len(vectors)):
            return type(self).of(vectors)
        moved = np.sum(new * new, axis=0) - np.sum(old * old, axis=0)
        return GroupSparseColumns(vectors, np.maximum(self.squares + moved, 0.0), changes)

    def shrunk(
        self, threshold: float, places: IntArray | None = None
    ) -> tuple[Array, GroupSparseColumns]:
        """Shrink every feature towards zero, together for all tasks."""
        chosen = self.vectors if places is None else self.vectors[places]
        if places is None:
            return FeatureGroup(1.0).prox(chosen, threshold), self
        norms = np.sqrt(self.squares)
        kept = np.maximum(1 - threshold / np.where(norms > 0, norms, 1.0), 0.0)
        return chosen * np.where(norms > 0, kept, 1.0), self


@dataclass(frozen=True)
class LowRankColumns:
    """The nuclear norm: answers are v M with M = h(VᵀV), h(λ) = max(0, 1 − θ/√λ).

    ``gram`` is VᵀV, or VVᵀ if there are fewer vectors than numbers in one; ``basis`` are the
    eigenvectors that the last answer found above its threshold, and a few more.

    Exactness: a basis is used only if its eigenpairs (λ_i, u_i) above θ² leave residuals of norm
    10⁻¹⁰ θ² at most, and if θ² I − (G − Σ λ_i u_i u_iᵀ) has a Cholesky factor, so that none above
    θ² is missing. G is then within that residual of a matrix of which Σ h(λ_i) u_i u_iᵀ is the
    exact h, and h changes by at most 1/(2θ²) times a change of its argument (up to a logarithm, for
    matrices): answers are off by 10⁻⁹ of their length. Otherwise all eigenvectors are computed, and
    where a Gram matrix does not resolve the threshold, the singular vectors themselves.
    """

    vectors: Array
    gram: Array
    basis: Array | None = None
    changes: int = 0

    @classmethod
    def of(cls, vectors: Array) -> LowRankColumns:
        """Start with these vectors."""
        tall = vectors.shape[0] >= vectors.shape[1]
        return cls(vectors, vectors.T @ vectors if tall else vectors @ vectors.T)

    @property
    def _tall(self) -> bool:
        return self.vectors.shape[0] >= self.vectors.shape[1]

    def replaced(self, places: IntArray, new: Array) -> LowRankColumns:
        """Exchange some vectors; the Gram matrix follows by their outer products."""
        vectors, old = self.vectors.copy(), self.vectors[places]
        vectors[places] = new
        changes = self.changes + len(places)
        if changes > max(_FEWEST_CHANGES, len(vectors)):
            return replace(type(self).of(vectors), basis=self.basis)
        if self._tall:
            gram: Array = self.gram + (new.T @ new - old.T @ old)
        else:
            gram = self.gram.copy()
            products = new @ vectors.T
            gram[places], gram[:, places] = products, products.T
        return LowRankColumns(vectors, gram, self.basis, changes)

    def shrunk(
        self, threshold: float, places: IntArray | None = None
    ) -> tuple[Array, LowRankColumns]:
        """Soft-threshold the singular values."""
        chosen = slice(None) if places is None else places
        if threshold == 0:
            return self.vectors[chosen].copy(), self
        largest = np.sqrt(np.linalg.norm(self.gram))
        if threshold < _RESOLUTION * largest:
            return Nuclear(1.0).prox(self.vectors, threshold)[chosen], self
        values, vectors, basis = self._above(threshold * threshold)
        kept = 1 - threshold / np.sqrt(values)
        if self._tall:
            answer = ((self.vectors[chosen] @ vectors) * kept) @ vectors.T
        else:
            answer = ((vectors[chosen] * kept) @ vectors.T) @ self.vectors
        return answer, replace(self, basis=basis)

    def _above(self, square: float) -> tuple[Array, Array, Array | None]:
        """Return the eigenvalues above ``square``, their vectors, and a basis to go on with."""
        size = len(self.gram)
        if size > _DIRECT and self.basis is not None and self.basis.shape[1] < size // 3:
            found = _warm(self.gram, self.basis, square)
            if found is not None:
                return found
        values, vectors = np.linalg.eigh(self.gram)
        above = values > square
        spare = min(size, int(above.sum()) + _SPARE)
        return values[above], vectors[:, above], vectors[:, size - spare :]


def _warm(gram: Array, basis: Array, square: float) -> tuple[Array, Array, Array] | None:
    """Return what `LowRankColumns._above` does, from a basis near by; None if it does not do."""
    for _ in range(_TRIES):
        orthogonal = np.linalg.qr(_filtered(gram, basis, square))[0]
        image = gram @ orthogonal
        values, turn = np.linalg.eigh(orthogonal.T @ image)
        above = values > square
        if above.all():  # no room to see what lies below
            return None
        basis = orthogonal @ turn
        top, values = basis[:, above], values[above]
        residual = image @ turn[:, above] - top * values
        if np.linalg.norm(residual) <= _EXACT * square:
            return (values, top, basis) if _complete(gram, values, top, square) else None
    return None


def _complete(gram: Array, values: Array, vectors: Array, square: float) -> bool:
    """Return whether no eigenvalue above ``square`` is missing: the rest has a Cholesky factor."""
    rest = (vectors * values) @ vectors.T - gram
    rest.flat[:: len(rest) + 1] += square * (1 + 1e-9)
    return bool(scipy.linalg.lapack.dpotrf(rest.T, overwrite_a=1)[1] == 0)


def _filtered(gram: Array, basis: Array, bound: float) -> Array:
    """Multiply by the Chebyshev polynomial that is small on [0, bound] and large above."""
    before = basis
    now = gram @ basis * (2 / bound) - basis
    for _ in range(_DEGREE - 1):
        before, now = now, 2 * (gram @ now * (2 / bound) - now) - before
    return now


COLUMNS: dict[str, Callable[[Array], Any]] = {
    "low-rank": LowRankColumns.of,
    "group-sparse": GroupSparseColumns.of,
}
"""What a server keeps, by the name of the penalty in `tacit.penalties.SHARED_PENALTIES`."""
