"""Linear scores of rows, each by its own task's model."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray

__all__ = ["linear_scores", "positions_of"]

_CHUNK = 1 << 18  # numbers of models side by side: they stay in the cache
_SPARSE = 4  # whole numbers that span no more than so many times their count are looked up in a row


def positions_of(labels: Any, names: Sequence[Hashable]) -> IntArray:
    """Return the place among ``names`` of every row's label, −1 where it is none of them."""
    if not isinstance(labels, np.ndarray):
        position = {name: index for index, name in enumerate(names)}
        return np.fromiter((position.get(label, -1) for label in labels), np.int64, len(labels))
    changes = np.flatnonzero(labels[1:] != labels[:-1]) + 1
    heads = np.concatenate([[0], changes]) if len(labels) else changes
    found = _places(labels[heads], names)
    return np.repeat(found, np.diff(np.append(heads, len(labels))))


def _places(labels: AnyArray, names: Sequence[Hashable]) -> IntArray:
    """Return the place of every label: whole numbers by a table, all others by a dictionary."""
    known = _whole(names) if labels.dtype.kind in "iu" and labels.dtype != np.uint64 else None
    if known is not None:
        low, high = int(known.min()), int(known.max())
        if high - low < _SPARSE * (len(names) + len(labels)):
            table = np.full(high - low + 2, -1)
            table[known - low] = np.arange(len(names))
            place = labels.astype(np.int64, copy=False)
            return table[np.where((place >= low) & (place <= high), place - low, -1)]
    position = {name: index for index, name in enumerate(names)}
    return np.array([position.get(label, -1) for label in labels.tolist()], dtype=np.int64)


def _whole(names: Sequence[Hashable]) -> IntArray | None:
    """Return names that are whole numbers as such, None if one of them is not."""
    try:
        known = np.fromiter(names, np.int64, len(names))
    except (TypeError, ValueError, OverflowError):
        return None
    return known if known.tolist() == list(names) else None


def linear_scores(rows: Array, index: IntArray, coef: Array, intercept: Array) -> Array:
    """Return the scores (N, k) of rows (N, d) by models (m, k, d), row r's by ``index[r]``.

    Guarantee: a row's scores are a function of that row and its own model, bit for bit: alone, in
    any order and in a party's own folder it is answered the same. A score is finite only if all of
    its row's numbers are.
    """
    kind = np.result_type(rows, coef)
    scores = np.empty((len(rows), coef.shape[1]), dtype=kind)
    models = np.ascontiguousarray(coef, dtype=kind)
    chunk = max(1, _CHUNK // max(1, coef.shape[1] * coef.shape[2]))
    alone = len(models) == 1 or (index == index[0]).all()
    gathered = np.empty((min(chunk, len(rows)), *coef.shape[1:]), dtype=kind)
    if alone:
        gathered = np.broadcast_to(models[index[0]], gathered.shape)
    for first in range(0, len(rows), chunk):
        part = slice(first, first + chunk)
        these = gathered[: len(index[part])]
        if not alone:
            np.take(models, index[part], axis=0, out=these, mode="wrap")  # −1 is the last
        # Cast before the product, which is one dot product a row and class.
        np.vecdot(rows[part].astype(kind, copy=False)[:, None], these, out=scores[part])
        scores[part] += intercept[index[part]]  # in pieces: fresh memory costs more than the sum
    return scores
