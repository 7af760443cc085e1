"""Bounds: what limits a message, and how far one unit can then move the sum of all messages.

Messages have the unit (a task, or a row) on axis 0: (m, d), or (m, k, d) with k vectors per unit
that are *one* message and are clipped jointly.

In floating point, too, a bounded message has norm ≤ radius, and bounded messages add up exactly, in
any order and in any parts (`tacit.privacy._steps`): the sum has exactly the sensitivity stated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._check import positive, positive_integer
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.privacy._steps import MOMENT_BITS, VECTOR_BITS, finite_messages, rescaled
from tacit.privacy.unit import Adjacency, Norm, Unit

__all__ = [
    "Bound",
    "MeansAndSquares",
    "NonNegativeClip",
    "RowClip",
    "RowGradientClip",
    "RowMessages",
    "RowNormalise",
    "SecondMoment",
    "VectorClip",
    "VectorNormalise",
]


@dataclass(frozen=True, eq=False)
class RowMessages:
    """What the rows of a stack of tasks say, where the row is the protected unit.

    ``values`` (N, …) holds one contribution a row; rows of task i are
    ``offsets[i]:offsets[i + 1]``.
    """

    values: Array
    offsets: IntArray

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.offsets) - 1

    def only(self, joined: AnyArray) -> RowMessages:
        """Return the messages with zero in place of every row that did not join, (N,)."""
        chosen = joined.reshape(-1, *(1,) * (self.values.ndim - 1))
        return RowMessages(np.where(chosen, self.values, 0.0), self.offsets)


@dataclass(frozen=True)
class Bound:
    """What limits a message; subclasses say how.

    Parameters
    ----------
    radius
        Public limit of a message's ℓ2 norm over all its entries (of all trailing axes together).

    Guarantee: ``sensitivity(norm, adjacency)`` bounds the change of the sum (`aggregate`) of
    bounded messages between neighbouring data sets, whatever the messages were computed from. It
    holds for the unit that axis 0 counts. A NaN or infinite message counts as the zero message, and
    no message changes what becomes of another.
    """

    radius: float
    unit: ClassVar[Unit] = Unit.TASK
    most_messages: ClassVar[int] = 1 << (53 - VECTOR_BITS)

    @property
    def kind(self) -> str:
        """What is aggregated: "vector", "counts" (non-negative numbers) or "matrix" (symmetric).

        "rows" are not added up: every task learns from its own.
        """
        return "vector"

    def __post_init__(self) -> None:
        radius = positive("radius", self.radius, remedy="give a public bound", allow_inf=True)
        if not (2.0**-200 <= radius <= 2.0**200 or math.isinf(radius)):
            raise InvalidInput(f"radius={radius!r}: must lie between 2**-200 and 2**200; rescale")
        object.__setattr__(self, "radius", radius)

    def __call__(self, messages: ArrayLike) -> Array:
        """Return bounded messages of the same shape."""
        return rescaled(messages, self.radius, VECTOR_BITS, always=False)

    def aggregate(self, messages: ArrayLike) -> Array:
        """Return the sum over axis 0 of messages that are bounded already."""
        array = finite_messages(messages)
        self.check_count(len(array))
        return np.sum(array, axis=0)

    def total(self, messages: ArrayLike) -> Array:
        """Bound messages and return their aggregate."""
        return self.aggregate(self(messages))

    def by_task(self, rows: RowMessages) -> Array:
        """Bound every row and return each task's sum, (tasks, …).

        Of a task with more rows than add up exactly the last are left out, as refusing them would
        tell everybody of the task's size.
        """
        bounded, starts = self(rows.values), rows.offsets[:-1]
        rank = np.arange(len(bounded)) - np.repeat(starts, np.diff(rows.offsets))
        bounded[rank >= self.most_messages] = 0.0
        if type(self).aggregate is Bound.aggregate:
            return np.add.reduceat(bounded, starts, axis=0)
        most = self.most_messages
        ends = np.minimum(rows.offsets[1:], starts + most)
        return np.stack([self.aggregate(bounded[i:j]) for i, j in zip(starts, ends, strict=True)])

    def check_count(self, n_messages: int) -> None:
        """Refuse more messages than add up exactly."""
        if n_messages > self.most_messages:
            raise InvalidInput(
                f"messages: {n_messages} of them; at most {self.most_messages} add up exactly, so "
                "release the sums of parts"
            )

    def sensitivity(
        self, norm: Norm | str, adjacency: Adjacency | str, *, dimension: int | None = None
    ) -> float:
        """Return how far one unit can move the sum, measured in ``norm``.

        Parameters
        ----------
        norm
            ℓ2 (or Frobenius, the same thing entry by entry); ℓ1 needs ``dimension``.
        adjacency
            Replace-one counts the distance of two messages, the others the length of one.
        dimension
            Number of entries of one message; ℓ1 ≤ √dimension · ℓ2.
        """
        norm, length = Norm(norm), self._reach(Adjacency(adjacency))
        if norm in (Norm.L2, Norm.FROBENIUS):
            return length
        if norm is Norm.L1:
            return _up(length * math.sqrt(_dimension(dimension)))
        raise InvalidInput(f"norm={norm.value!r}: a sum of vectors has no such norm; use 'l2'")

    def _reach(self, adjacency: Adjacency) -> float:
        return 2 * self.radius if adjacency is Adjacency.REPLACE_ONE else self.radius


@dataclass(frozen=True)
class VectorClip(Bound):
    """Scale messages longer than ``radius`` down to it; leave the others.

    Guarantee: as `Bound`; ℓ2 sensitivity of the sum 2·radius (replace-one) or radius.
    """

    def total(self, messages: ArrayLike) -> Array:
        """Return the sum of clipped messages; of float32 ones in two passes, nothing copied."""
        array = np.asarray(messages)
        if array.dtype != np.float32:
            return super().total(array)
        from tacit.privacy.clipped_sums import clipped_sum

        self.check_count(len(array))
        return clipped_sum(self, [array])[0]


@dataclass(frozen=True)
class VectorNormalise(Bound):
    """Keep only a message's direction, at length ``radius``; zero stays zero.

    Guarantee: as `Bound`; ℓ2 sensitivity of the sum 2·radius (replace-one) or radius.
    """

    radius: float = 1.0

    def __call__(self, messages: ArrayLike) -> Array:
        """Return messages of norm ``radius`` (up to the rounding of the module docstring)."""
        return rescaled(messages, self.radius, VECTOR_BITS, always=True)


@dataclass(frozen=True)
class NonNegativeClip(Bound):
    """Set negative entries to zero, then clip to ``radius``: for votes and other sizes.

    Guarantee: as `Bound`. For non-negative a, b of norm ≤ K, ‖a − b‖² = ‖a‖² + ‖b‖² − 2 aᵀb ≤ 2K²
    since aᵀb ≥ 0: the ℓ2 sensitivity of the sum is √2·radius under replace-one, radius otherwise.
    """

    def __call__(self, messages: ArrayLike) -> Array:
        """Return non-negative messages of norm ≤ ``radius``."""
        return super().__call__(np.maximum(finite_messages(messages), 0.0))

    def _reach(self, adjacency: Adjacency) -> float:
        replaced = adjacency is Adjacency.REPLACE_ONE
        return _up(math.sqrt(2) * self.radius) if replaced else self.radius


@dataclass(frozen=True)
class RowClip(Bound):
    """Clip rows (N, d) to a public norm; the unit is the row.

    Guarantee: as `Bound`, for one row; a task with several changed rows needs group privacy.
    """

    unit: ClassVar[Unit] = Unit.ROW


@dataclass(frozen=True)
class RowNormalise(VectorNormalise):
    """Scale rows (N, d) to a public norm; the unit is the row.

    Guarantee: as `Bound`, for one row.
    """

    unit: ClassVar[Unit] = Unit.ROW


@dataclass(frozen=True)
class RowGradientClip(Bound):
    """Clip every row's gradient to ``radius``; the unit is the row.

    Call it on gradients (N, d) or (N, k, d), or on loss derivatives and rows (`of_linear`).

    Guarantee: as `Bound`, for one row: bounded gradients are multiples of the radius's step and add
    up exactly in float64, in any order, for up to `most_messages` of them.
    """

    unit: ClassVar[Unit] = Unit.ROW

    def of_linear(self, derivative: ArrayLike, rows: ArrayLike) -> Array:
        """Return bounded gradients c·x of a linear model, (N, k, d).

        Parameters
        ----------
        derivative
            ℓ'(z) of every row and output, (N, k); the outputs are clipped jointly.
        rows
            x of every row, (N, d).

        Guarantee: as `Bound`; of a row with a NaN or infinite number, zero.
        """
        values, x = np.asarray(derivative, dtype=np.float64), np.asarray(rows, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return self(values[:, :, None] * x[:, None, :])


@dataclass(frozen=True)
class SecondMoment(Bound):
    """Bound messages by ``inner`` and sum their outer products Σ w wᵀ (or only the diagonal).

    Parameters
    ----------
    radius
        K, the limit of a message's norm; ``inner`` must have the same radius.
    inner
        `VectorClip` (default) or `VectorNormalise`.
    diagonal
        Aggregate the d squared entries only.

    Guarantee: as `Bound` for the aggregate. A message contributes a PSD matrix P of trace ≤ K² (a
    message (k, d) the sum of its k outer products). Replace-one: ‖P' − P‖_F² ≤ ‖P'‖_F² + ‖P‖_F² ≤
    2K⁴ since tr(P P') ≥ 0, and ‖P' − P‖_* ≤ tr P' + tr P ≤ 2K²; the diagonals are non-negative
    vectors of sum ≤ K², hence √2K² in ℓ2 and 2K² in ℓ1. Otherwise one P: K² in every norm. Nothing
    is added for rounding: sums are exact for up to 2²¹ messages, and more are refused.
    """

    most_messages: ClassVar[int] = 1 << (53 - 2 * MOMENT_BITS)

    inner: VectorClip | VectorNormalise | None = None
    diagonal: bool = False

    @property
    def kind(self) -> str:
        """A symmetric matrix, or its diagonal."""
        return "counts" if self.diagonal else "matrix"

    def __post_init__(self) -> None:
        super().__post_init__()
        inner = self.inner or VectorClip(self.radius)
        if inner.radius != self.radius:
            raise InvalidInput(
                f"inner radius={inner.radius!r}: must equal radius={self.radius!r} of the moment"
            )
        object.__setattr__(self, "inner", inner)

    def __call__(self, messages: ArrayLike) -> Array:
        """Return the bounded vectors (not yet their outer products)."""
        always = isinstance(self.inner, VectorNormalise)
        return rescaled(messages, self.radius, MOMENT_BITS, always=always)

    def aggregate(self, messages: ArrayLike) -> Array:
        """Return Σ w wᵀ, (d, d), or its diagonal, (d,), of bounded messages (m, d) or (m, k, d)."""
        array = finite_messages(messages)
        self.check_count(len(array))
        vectors = array.reshape(-1, array.shape[-1])
        if self.diagonal:
            return np.einsum("ij,ij->j", vectors, vectors)
        return vectors.T @ vectors

    def sensitivity(
        self, norm: Norm | str, adjacency: Adjacency | str, *, dimension: int | None = None
    ) -> float:
        """Return how far one task can move the aggregate; entrywise ℓ1 of a matrix needs d."""
        norm, replaced = Norm(norm), Adjacency(adjacency) is Adjacency.REPLACE_ONE
        square = _up(self.radius * self.radius)
        if norm in (Norm.L2, Norm.FROBENIUS):
            return _up(math.sqrt(2) * square) if replaced else square
        if norm is Norm.L1 and not self.diagonal:
            # ‖w wᵀ‖₁ = ‖w‖₁² ≤ d ‖w‖².
            square *= _dimension(dimension)
        return 2 * square if replaced else square


@dataclass(frozen=True)
class MeansAndSquares(Bound):
    """Clip two parts of a row, x and y, to norm ``radius`` each; add up (x, y, ‖x‖²/K, ‖y‖²/K).

    Parameters
    ----------
    radius
        K, the limit of each part's norm.
    first
        Number of entries of x.

    Guarantee: as `Bound`, for one row. With a = ‖x‖/K, a' = ‖x'‖/K, s = a + a' and t = |a − a'| the
    part of x moves by at most K² s²(1 + t²) in square, t ≤ min(s, 2 − s). For s ≤ 1 that is at most
    2K²; from there s²(1 + (2 − s)²) grows, as its derivative 2s(1 − 2(2 − s)(s − 1)) ≥ s, up to 4K²
    at s = 2. Likewise y: replace-one 2√2 K, as without the squares; otherwise at most 2K. Squares
    are exact multiples of the squared step, so sums are exact for up to 2²¹ rows.
    """

    unit: ClassVar[Unit] = Unit.ROW
    most_messages: ClassVar[int] = 1 << (53 - 2 * MOMENT_BITS)

    first: int = 1

    def __call__(self, messages: ArrayLike) -> Array:
        """Return the bounded rows (not yet their squares)."""
        array = finite_messages(messages)
        parts = array[:, : self.first], array[:, self.first :]
        bounded = [rescaled(part, self.radius, MOMENT_BITS, always=False) for part in parts]
        return np.concatenate(bounded, axis=1)

    def aggregate(self, messages: ArrayLike) -> Array:
        """Return the sums of bounded rows and of their squares, (d + 2,)."""
        array = finite_messages(messages)
        self.check_count(len(array))
        parts = array[:, : self.first], array[:, self.first :]
        # Divided after they were added up: a quotient is off the step.
        squares = [np.einsum("ij,ij->", part, part) / self.radius for part in parts]
        return np.append(array.sum(axis=0), squares)

    def sensitivity(
        self, norm: Norm | str, adjacency: Adjacency | str, *, dimension: int | None = None
    ) -> float:
        """Return how far one row can move the sums; the two squares count in ℓ1."""
        entries = None if dimension is None else dimension + 2
        return super().sensitivity(norm, adjacency, dimension=entries)

    def _reach(self, adjacency: Adjacency) -> float:
        replaced = adjacency is Adjacency.REPLACE_ONE
        return _up((2 * math.sqrt(2) if replaced else 2.0) * self.radius)


def _dimension(dimension: int | None) -> int:
    if dimension is None:
        raise InvalidInput("norm='l1': needs dimension, the number of entries of one message")
    return positive_integer("dimension", dimension, remedy="give the number of entries")


def _up(value: float) -> float:
    return math.nextafter(math.nextafter(value, math.inf), math.inf)
