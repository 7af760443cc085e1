"""The two products between all models and one small matrix: what couples the tasks in a round.

``W`` is (m, d) with m ≫ d, so both products read ``W`` once. They are cut into runs of tasks that
fit the cache and spread over our own threads: the linear-algebra library's threads wait by
spinning, which on a busy machine can cost more than the product itself.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from tacit._types import Array
from tacit.numerics.threads import one_blas_thread, parallel_map

__all__ = ["apply_map", "second_moment", "symmetric_spectrum"]

_RUN = 250_000  # numbers in a run: fixed, so that sums do not depend on the number of threads
_BLOCK, _TRIALS = 256, 4  # tasks in a product; vectors that a kernel is tried on


def _runs(W: Array) -> list[slice]:
    tall = max(1, _RUN // max(1, W[:1].size))
    return [slice(low, low + tall) for low in range(0, len(W), tall)]


def second_moment(W: Array) -> Array:
    """Return ``WᵀW = Σ_i w_i w_iᵀ``, (d, d) in float64."""
    total = np.zeros((W.shape[1], W.shape[1]))
    with one_blas_thread():
        for part in parallel_map(lambda run: W[run].T @ W[run], _runs(W)):
            total += part
    return total


def apply_map(W: Array, shared: Array) -> Array:
    """Return ``W @ shared``: every task applies the shared map (d, r) to its own model.

    A task's bits are the same in any stack and at any place in it. Tasks pass in blocks of one
    shape, the last filled up with zeros, where the library's kernel for that shape treats every
    place alike; where it does not, every task has a product of its own, which takes longer.
    """
    cast = np.ascontiguousarray(shared, dtype=W.dtype)
    out = np.empty((len(W), cast.shape[1]), dtype=W.dtype)
    with one_blas_thread():
        if not _places_are_alike(*cast.shape, W.dtype.char):
            turned = np.ascontiguousarray(cast.T)
            parallel_map(
                lambda run: np.matmul(turned, W[run, :, None], out=out[run, :, None]), _runs(W)
            )
            return out
        whole = len(W) - len(W) % _BLOCK
        blocks = np.ascontiguousarray(W[:whole]).reshape(-1, _BLOCK, W.shape[1])
        filled = out[:whole].reshape(len(blocks), _BLOCK, cast.shape[1])
        parallel_map(lambda run: np.matmul(blocks[run], cast, out=filled[run]), _runs(blocks))
        if whole < len(W):
            last = np.zeros((_BLOCK, W.shape[1]), dtype=W.dtype)
            last[: len(W) - whole] = W[whole:]
            out[whole:] = (last @ cast)[: len(W) - whole]
    return out


@cache
def _places_are_alike(d: int, r: int, dtype: str) -> bool:
    """Return whether a block's product gives a vector the same bits at every place.

    Tried on a few vectors: a kernel adds up in an order that depends on shapes and places, not on
    values, and vectors like these show another order in their last bits.
    """
    rng = np.random.default_rng(0)
    shared = rng.standard_normal((d, r)).astype(dtype)
    for _ in range(_TRIALS):
        found = np.repeat(rng.standard_normal((1, d)).astype(dtype), _BLOCK, axis=0) @ shared
        if (found != found[:1]).any():
            return False
    return True


def symmetric_spectrum(matrix: Array) -> tuple[Array, Array]:
    """Return eigenvalues, ascending, and eigenvectors of a symmetric (d, d) matrix."""
    with one_blas_thread():
        solved = np.linalg.eigh(np.asarray(matrix, dtype=np.float64))
    return solved.eigenvalues, solved.eigenvectors
