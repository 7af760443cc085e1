"""Real federations in place of the paper's: who has which rows, and which of them judge."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit import datasets
from tacit._types import AnyArray, Array, IntArray

__all__ = ["Federation", "federation"]

_TAG_ROWS = 60  # questions a tag sees, half of them its own


@dataclass(frozen=True)
class Federation:
    """Training and test rows of many tasks, with the public set of classes."""

    train: tuple[Array, AnyArray, IntArray]
    test: tuple[Array, AnyArray, IntArray]
    classes: tuple[int, ...]

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return int(self.train[2].max()) + 1


def _summed(X: AnyArray) -> Array:
    """Return images 28 × 28 added up in 7 × 7 squares, a public map with orthonormal rows."""
    squares = (X.astype(np.float32) / np.float32(255)).reshape(-1, 7, 4, 7, 4)
    added: Array = squares.sum(axis=(2, 4)).reshape(len(X), -1) / np.float32(4)
    return added


def _unit(X: AnyArray) -> Array:
    """Return rows of length 1, each by itself."""
    rows: Array = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)
    return rows.astype(np.float32)


def _written(name: str) -> tuple[Array, AnyArray, AnyArray]:
    data = {"mnist": datasets.load_mnist, "femnist": datasets.load_femnist}[name]()
    ink = 255 - data.X if name == "femnist" else data.X  # its paper is 255, MNIST's 0
    return _summed(ink), data.y.astype(int), data.tasks


def _sensed(name: str) -> tuple[Array, AnyArray, AnyArray]:
    data = {"har": datasets.load_har, "vehicle": datasets.load_vehicle}[name]()
    return _unit(data.X), np.unique(data.y, return_inverse=True)[1], data.tasks


def _tagged() -> tuple[Array, AnyArray, AnyArray]:
    """Return for every tag its questions and as many others: does the tag fit?

    The source has no user ids, so a tag is a task, and a question may be in several.
    """
    data = datasets.load_stackex_cs()
    rng, kept, tags = np.random.default_rng(0), [], []
    for tag, fits in enumerate(np.asarray(data.y).T):
        for label in (0, 1):
            kept.append(rng.permutation(np.flatnonzero(fits == label))[: _TAG_ROWS // 2])
            tags.append(np.full(len(kept[-1]), tag))
    chosen, task = np.concatenate(kept), np.concatenate(tags)
    return _unit(data.X[chosen]), np.asarray(data.y)[chosen, task].astype(int), task


@functools.cache
def _rows(name: str) -> tuple[Array, AnyArray, IntArray]:
    if name == "stackex":
        X, y, names = _tagged()
    else:
        X, y, names = (_written if "mnist" in name else _sensed)(name)
    return X, y, np.unique(names, return_inverse=True)[1]


@functools.lru_cache(maxsize=2)
def federation(name: str, seed: int) -> Federation:
    """Return a split by halves within every task, at random."""
    X, y, task = _rows(name)
    order = np.lexsort((np.random.default_rng(seed).random(len(task)), task))
    place = np.empty(len(task), dtype=int)
    place[order] = np.arange(len(task)) - np.searchsorted(task[order], task[order])
    train = place < (np.bincount(task)[task] + 1) // 2
    rows: list[Any] = [(X[own], y[own], task[own]) for own in (train, ~train)]
    return Federation(*rows, tuple(int(c) for c in np.unique(y)))
