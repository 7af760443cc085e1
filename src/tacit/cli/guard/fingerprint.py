"""A keyed fingerprint of a table, by which the same data are known again.

A token is a keyed hash (BLAKE2b) of one thing: a row, one column of one task, or a task's name. A
row is the unordered list of its cells, so the order of columns and rows, their names, the file's
format and the role a column plays change nothing; rows that come later leave the old ones as they
are. A column of a task is known again when columns were added or left out.

Guarantee: a `Sketch` holds 256 tokens of each sort, the smallest ones, filled up with random ones.
To whoever does not have the key it is random bits, whatever the data, also in its length. Whoever
has the key and a guess of a whole row can test the guess; the key stays with the register, which
only its owner can read.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.cli.table.columns import numbers, whole_numbers
from tacit.cli.table.read import Table, is_missing, text

__all__ = ["Fingerprint", "Sketch", "fingerprint"]

TOKENS = 256
_KINDS = ("rows", "columns", "parties")
_LEAST_SHARE = 0.02  # of the tokens that could be found again
_LEAST_PARTIES = 0.5


@dataclass(frozen=True, eq=False)
class Sketch:
    """The smallest tokens of each sort, filled up with random ones."""

    rows: AnyArray
    columns: AnyArray
    parties: AnyArray

    def to_bytes(self) -> bytes:
        """Return all tokens."""
        return b"".join(getattr(self, kind).tobytes() for kind in _KINDS)

    @classmethod
    def from_bytes(cls, content: bytes) -> Sketch:
        """Return the sketch that `to_bytes` wrote."""
        return cls(*np.frombuffer(content, dtype=np.uint64).reshape(len(_KINDS), TOKENS))


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """All tokens of a table, sorted; they stay in memory."""

    rows: AnyArray
    columns: AnyArray
    parties: AnyArray
    name: str

    def sketch(self) -> Sketch:
        """Return what is kept."""
        return Sketch(*(_padded(getattr(self, kind)) for kind in _KINDS))

    def shares_rows(self, sketch: Sketch) -> bool:
        """Whether these data and those of ``sketch`` have rows, or columns of tasks, in common."""
        return self._found(sketch, "rows", _LEAST_SHARE) or self._found(
            sketch, "columns", _LEAST_SHARE
        )

    def shares_parties(self, sketch: Sketch) -> bool:
        """Whether most of these parties have names of those of ``sketch``."""
        return self._found(sketch, "parties", _LEAST_PARTIES)

    def _found(self, sketch: Sketch, kind: str, least: float) -> bool:
        own: AnyArray = getattr(self, kind)
        hits = int(np.isin(getattr(sketch, kind), own).sum())
        return hits > 0 and hits >= least * min(own.size, TOKENS)


def _padded(tokens: AnyArray) -> AnyArray:
    kept = tokens[:TOKENS]
    filling = np.frombuffer(secrets.token_bytes(8 * (TOKENS - kept.size)), dtype=np.uint64)
    return np.sort(np.concatenate([kept, filling]))


def fingerprint(table: Table, task: str, key: bytes) -> Fingerprint:
    """Return the tokens of a table whose column ``task`` says whose row it is."""
    codes = {name: _codes(cells) for name, cells in table.columns.items()}
    matrix = np.sort(np.stack(list(codes.values()), axis=1), axis=1)
    rows = _tokens(key, b"row", (row.tobytes() for row in matrix))
    labels = [text(cell) for cell in table.columns[task]]
    name = hashlib.blake2b(rows.tobytes(), key=key, digest_size=8, person=b"data").hexdigest()
    return Fingerprint(
        rows, _column_tokens(key, codes, task, labels), _party_tokens(key, table, task), name
    )


def _codes(cells: list[Any]) -> AnyArray:
    """Return 64 bits for each cell: equal numbers and equal words are equal, however written."""
    values, strange = numbers(cells)
    codes = (values + 0.0).view(np.uint64).copy()  # −0 becomes 0
    codes[np.isnan(values)] = 0
    known: dict[str, int] = {}
    for row in strange:
        word = text(cells[row])
        if word not in known:
            digest = hashlib.blake2b(word.encode(), digest_size=8).digest()
            known[word] = int.from_bytes(digest, "little")
        codes[row] = 0 if is_missing(cells[row]) else known[word]
    return codes


def _column_tokens(
    key: bytes, codes: dict[str, AnyArray], task: str, labels: list[str]
) -> AnyArray:
    _, owner = np.unique(np.array(labels), return_inverse=True)
    starts = np.flatnonzero(np.diff(np.sort(owner), prepend=-1))
    names = [label.encode() for label in np.unique(np.array(labels)).tolist()]
    parts = []
    for column, cells in codes.items():
        if column == task:
            continue
        ordered = cells[np.lexsort((cells, owner))]
        for name, part in zip(names, np.split(ordered, starts[1:]), strict=True):
            if np.unique(part).size > 2:  # two values are no mark of anybody
                parts.append(name + b"\0" + part.tobytes())
    return _tokens(key, b"column", parts)


def _party_tokens(key: bytes, table: Table, task: str) -> AnyArray:
    distinct = sorted({text(cell) for cell in table.columns[task]})
    # Numbers name nobody: they mean the same parties only in a table of the same columns.
    known_by = "\0".join(sorted(table.columns)) if whole_numbers(distinct) else task
    return _tokens(key, b"party", (f"{known_by}\0\0{name}".encode() for name in distinct))


def _tokens(key: bytes, kind: bytes, parts: Any) -> AnyArray:
    hashed: Callable[[bytes], bytes] = lambda part: hashlib.blake2b(  # noqa: E731
        part, key=key, digest_size=8, person=kind
    ).digest()
    return np.unique(np.frombuffer(b"".join(map(hashed, parts)), dtype=np.uint64))
