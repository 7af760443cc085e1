"""Which public means a task adds to and is drawn to: one for all, its cluster's, its neighbours'.

The remark after Theorem 2 of the paper: for relations that are fixed and public, what protects one
mean protects several. A message stands in one block of the released vector, that of the task's own
mean, and zeros in all others.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.penalties import GraphLaplacian

__all__ = ["Relations", "groups"]


@dataclass(frozen=True, eq=False)
class Relations:
    """Public and fixed before any row is seen.

    Parameters
    ----------
    block : ndarray of shape (m,)
        The mean that a task's messages are added to.
    weights : ndarray of shape (m, B)
        A task is drawn to the so weighted sum of all means.
    factor : ndarray of shape (m,)
        How many times λ it is drawn.

    Guarantee: none by itself; who is in which block is a public constant of the task's place, so
    that a message has the same norm with it as without, and a task that is replaced stays in its
    block.
    """

    block: IntArray
    weights: Array
    factor: Array

    @classmethod
    def one(cls, n_tasks: int) -> Relations:
        """Return one mean for all."""
        return cls(np.zeros(n_tasks, int), np.ones((n_tasks, 1)), np.ones(n_tasks))

    @classmethod
    def of(cls, given: Any, n_tasks: int) -> Relations:
        """Return what was asked for: None, a cluster for every task, or a `GraphLaplacian`."""
        if given is None:
            return cls.one(n_tasks)
        size = given.laplacian.shape[0] if isinstance(given, GraphLaplacian) else len(given)
        if size != n_tasks:
            raise InvalidInput(
                f"relations: of {size} tasks, but there are {n_tasks}; give every task's cluster, "
                "in the order of the sorted task names"
            )
        return cls.graph(given) if isinstance(given, GraphLaplacian) else cls.clusters(given)

    @classmethod
    def clusters(cls, labels: Sequence[Hashable]) -> Relations:
        """Return one mean a cluster; ``labels`` are public and in the order of the tasks."""
        found = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        block = np.array([found[label] for label in labels])
        return cls(block, np.eye(len(found))[block], np.ones(len(block)))

    @classmethod
    def graph(cls, penalty: GraphLaplacian) -> Relations:
        """Return the relations of ½λ tr(Wᵀ L W), L = D − A: drawn to the mean of its neighbours.

        The gradient at w_k is λ (L_kk w_k − Σ_l A_kl w_l) = λ L_kk (w_k − c_k) with c_k the mean of
        the neighbours weighted by A. A task's own block is what is known of its own model.
        """
        sparse = scipy.sparse.issparse(penalty.laplacian)
        L: Array = penalty.laplacian.toarray() if sparse else np.asarray(penalty.laplacian, float)
        others = L * (1 - np.eye(len(L)))
        if np.any(others > 0):
            raise InvalidInput(
                "relations: a Laplacian D − A has no positive entry off its diagonal"
            )
        degree = -others.sum(axis=1)
        alone = degree == 0
        weights = np.where(alone[:, None], np.eye(len(L)), -others / (degree + alone)[:, None])
        return cls(np.arange(len(L)), weights, penalty.strength * degree)

    @property
    def n_blocks(self) -> int:
        """Number of means."""
        return int(self.weights.shape[1])

    def members(self, expected: float) -> Array:
        """Return the expected members (B,) of a cohort by block; ``expected`` in all."""
        counts = np.bincount(self.block, minlength=self.n_blocks)
        return np.asarray(expected * counts / len(self.block), dtype=np.float64)

    def stranger(self) -> Array:
        """Return the weights (B,) of a task that came later, of which no relation is known."""
        shares: Array = self.members(1.0)
        return shares

    def of_places(self, positions: IntArray) -> tuple[Array, IntArray, Array]:
        """Return weights (b, B), blocks (b,) and factors (b,); a stranger's position is −1."""
        known = positions >= 0
        weights = np.where(known[:, None], self.weights[positions], self.stranger())
        block = np.where(known, self.block[positions], 0)
        return weights, block, np.where(known, self.factor[positions], 1.0)


def groups(weights: Array) -> Iterator[tuple[Array, AnyArray]]:
    """Yield every distinct row of ``weights`` (b, B) with the places that have it."""
    if len(weights) and (weights == weights[0]).all():
        yield weights[0], np.arange(len(weights))
        return
    rows, place = np.unique(weights, axis=0, return_inverse=True)
    for number, row in enumerate(rows):
        yield row, np.flatnonzero(place.ravel() == number)
