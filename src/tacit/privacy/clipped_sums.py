"""The sum of clipped float32 messages in two passes over them, for messages of many numbers.

`VectorClip` bounds a stack of messages in float64, about nine passes; a network's update has
millions of numbers, and bounding it so would cost as much as training it. Here the messages are
read once for their norms and once for the sum, and nothing of their size is written.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._types import AnyArray
from tacit.errors import InvalidInput
from tacit.privacy.bounds import VectorClip

__all__ = ["ClippedSum", "clipped_sum"]

_STEP_BITS = 30
_BLOCK = 1 << 15
# Messages of so many numbers are read by a compiled kernel. Shorter ones are not worth loading a
# compiler, and longer ones come of networks, whose training takes far longer than their sums, and
# whose memory the compiler's would be added to. How long messages are is public.
_COMPILED = range(1 << 13, 1 << 18)
_LINE = 1 << 12  # too short for a BLAS to cut it among threads, whose number would show in the bits


def _places(size: int) -> Iterator[slice]:
    """Yield where blocks stand that stay near the processor in float64."""
    for low in range(0, size, _BLOCK):
        yield slice(low, min(low + _BLOCK, size))


def _square(message: NDArray[np.float32]) -> float:
    total, buffer = 0.0, np.empty(min(_BLOCK, len(message)))
    for where in _places(len(message)):
        block = buffer[: where.stop - where.start]
        block[:] = message[where]
        whole = len(block) - len(block) % _LINE
        lines, rest = block[:whole].reshape(-1, _LINE), block[whole:]
        total += float(np.vecdot(lines, lines).sum()) + float(np.vecdot(rest, rest))
    return total


def _add_clipped(
    part: NDArray[np.float32], factors: AnyArray, step: float, total: NDArray[np.float64]
) -> None:
    """Add messages times their factors, cut towards zero to multiples of ``step``, a power of 2.

    Messages are added up as whole numbers of steps, fewer than 2⁵³.
    """
    chosen = np.flatnonzero(factors)
    sums, steps = (np.empty(min(_BLOCK, part.shape[1])) for _ in range(2))
    for where in _places(part.shape[1] if len(chosen) else 0):
        size = where.stop - where.start
        for number in chosen:
            block = (sums if number == chosen[0] else steps)[:size]
            block[:] = part[number, where]
            block *= factors[number] / step
            np.trunc(block, out=block)
            if number != chosen[0]:
                sums[:size] += block
        sums[:size] *= step
        total[where] += sums[:size]


def clipped_sum(
    bound: VectorClip,
    messages: Sequence[NDArray[np.float32]],
    into: Sequence[NDArray[np.float64]] | None = None,
) -> list[NDArray[np.float64]]:
    """Return the sum over axis 0 of messages clipped jointly over all their parts.

    Parameters
    ----------
    bound : VectorClip
        The public radius.
    messages : sequence of float32 arrays (b, …)
        Parts of b messages; entry i of every part belongs to message i.
    into : sequence of float64 arrays, or None
        Earlier sums of the same bound, contiguous, which are added to and returned.

    Guarantee: as `VectorClip` and its exact sum. Norms are taken in float64, where squares of
    float32 numbers neither overflow nor vanish; their relative error is at most (D + 8)·2⁻⁵³ in any
    order of summation, and clipping aims below the radius by more; entries are cut towards zero to
    multiples of the radius's step, which add up exactly. A message that is not finite
    counts as zero, and changes nothing of what becomes of another.
    """
    parts = [part.reshape(len(part), -1) for part in messages]
    if not parts or any(part.dtype != np.float32 or len(part) != len(parts[0]) for part in parts):
        raise InvalidInput("messages: give at least one part, all float32 and of equal length")
    sums = _begun(messages) if into is None else list(into)
    _check_sums(sums, messages)
    if math.isinf(bound.radius):
        finite = np.all([np.isfinite(part).all(axis=1) for part in parts], axis=0)
        for total, part in zip(sums, messages, strict=True):
            total += part[finite].sum(axis=0, dtype=np.float64)
        return sums
    size = sum(part.shape[1] for part in parts)
    square, add_clipped = _passes(size)
    with np.errstate(invalid="ignore"):  # of infinite entries, whose message counts as zero
        squares = np.array([sum(map(square, message)) for message in zip(*parts, strict=True)])
    target = bound.radius * (1 - (size + 16) * 2.0**-52)
    norms = np.sqrt(squares)
    factors = np.divide(target, norms, out=np.ones_like(norms), where=norms > target)
    factors[~np.isfinite(squares)] = 0.0
    step = math.ldexp(1.0, math.frexp(bound.radius)[1] - _STEP_BITS)
    for part, total in zip(parts, sums, strict=True):
        add_clipped(part, factors, step, total.reshape(-1))
    return sums


class ClippedSum:
    """The sum of clipped messages that come a few at a time, on any thread.

    Parameters
    ----------
    bound : VectorClip
        The public radius.
    shapes : sequence of tuples
        Of the parts of a message.

    Attributes
    ----------
    value : float64 array (D,)
        The sum, part after part.
    parts : list of float64 arrays
        Views of it, one a part.
    count : int
        Messages in it.

    Guarantee: as `clipped_sum`. Sums of multiples of one step are exact, so that neither the order
    in which messages come nor how they are divided shows in a bit.
    """

    def __init__(self, bound: VectorClip, shapes: Sequence[tuple[int, ...]]) -> None:
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        self.bound = bound
        self.value: NDArray[np.float64] = np.zeros(ends[-1])
        pieces = np.split(self.value, ends[:-1])
        self.parts = [piece.reshape(shape) for piece, shape in zip(pieces, shapes, strict=True)]
        self.count = 0
        self._adding = threading.Lock()

    def add(self, messages: Sequence[NDArray[np.float32]]) -> None:
        """Clip messages, given in parts (b, …), and add them."""
        with self._adding:
            count = len(messages[0]) if messages else 0
            self.bound.check_count(self.count + count)
            clipped_sum(self.bound, messages, into=self.parts)
            self.count += count

    def merge(self, sums: Sequence[NDArray[np.float64]], count: int) -> None:
        """Add sums, one a part, of ``count`` messages that were clipped to the same radius."""
        with self._adding:
            self.bound.check_count(self.count + count)
            for part, other in zip(self.parts, sums, strict=True):
                part += other
            self.count += count

    def clear(self) -> None:
        """Begin anew."""
        with self._adding:
            self.value[:], self.count = 0.0, 0


def _passes(size: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what reads messages of ``size`` numbers for their norms, and for the sum."""
    if size not in _COMPILED:
        return _square, _add_clipped
    from tacit.privacy._clipped_kernel import add_clipped, square

    return square, add_clipped


def _begun(messages: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float64]]:
    return [np.zeros(part.shape[1:]) for part in messages]


def _check_sums(
    sums: Sequence[NDArray[np.float64]], messages: Sequence[NDArray[np.float32]]
) -> None:
    """Refuse sums that could not be added to in place, before any is."""
    fits = len(sums) == len(messages) and all(
        total.shape == part.shape[1:] and total.dtype == np.float64 and total.flags.c_contiguous
        for total, part in zip(sums, messages, strict=False)
    )
    if not fits:
        raise InvalidInput(
            "into: must be contiguous float64 sums, one a part of the messages and of its shape; "
            "use what an earlier call returned"
        )
