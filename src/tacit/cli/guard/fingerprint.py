"""A keyed fingerprint of a table, by which the same data are known again.

A token is a keyed hash (BLAKE2b) of one thing: a row, one column of one task, or a task's name. A
row is the unordered list of its cells, so the order of columns and rows, their names, the file's
format and the role a column plays change nothing; rows that come later leave the old ones as they
are. A column of a task is known again when columns were added or left out.

Of a large table the 50,000 rows, columns and names are hashed whose keyed 64-bit sums are smallest,
so that a file that does not fit into memory is fingerprinted a piece at a time.

Guarantee: a `Sketch` holds 256 tokens of each sort, the smallest ones, filled up with random ones.
To whoever does not have the key it is random bits, whatever the data, also in its length. Whoever
has the key and a guess of a whole row can test the guess; the key stays with the register, which
only its owner can read.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.cli.table.columns import numbers, whole_numbers
from tacit.cli.table.read import is_missing, text

__all__ = ["Fingerprint", "Pieces", "Sketch", "fingerprint", "parquet_pieces"]

Pieces = Callable[[], Iterable[Mapping[str, Any]]]
"""Gives a table's columns (lists of cells, or arrays of numbers), some rows at a time."""

TOKENS = 256
_KEPT = 50_000
_PIECE = 1 << 16
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
    """The tokens of a table, sorted; they stay in memory."""

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


def fingerprint(pieces: Iterable[Mapping[str, Any]], task: str, key: bytes) -> Fingerprint:
    """Return the tokens of a table whose column ``task`` says whose row it is.

    A task that a piece may have cut in two is left out of the columns' tokens.
    """
    salts = np.frombuffer(hashlib.blake2b(b"salts", key=key).digest(), dtype=np.uint64)
    rows, columns = _Smallest(), _Smallest()
    labels: dict[str, None] = {}
    names: tuple[str, ...] = ()
    for piece in pieces:
        names = tuple(piece)
        codes = {name: _codes(cells) for name, cells in piece.items()}
        rows.add(_sum([_mixed(cells, salts[0]) for cells in codes.values()]))
        distinct, owner = _owners(piece[task])
        labels.update(dict.fromkeys(distinct))
        marks = np.array([_word(name) for name in distinct], dtype=np.uint64)
        cut = {0, len(distinct) - 1} if len(owner) == _PIECE else set()
        kept = np.array([n not in cut for n in range(len(distinct))], dtype=bool)
        for name, cells in codes.items():
            if name != task:
                columns.add(_by_task(cells, owner, marks, salts[1])[kept])
    tokens = _tokens(key, b"row", rows.parts())
    name = hashlib.blake2b(tokens.tobytes(), key=key, digest_size=8, person=b"data").hexdigest()
    parties = _party_names(names, task, sorted(labels))
    return Fingerprint(
        tokens,
        _tokens(key, b"column", columns.parts()),
        _tokens(key, b"party", parties)[:_KEPT],
        name,
    )


class _Smallest:
    """The smallest different numbers of many."""

    def __init__(self) -> None:
        self.values = np.empty(0, dtype=np.uint64)

    def add(self, values: AnyArray) -> None:
        self.values = np.unique(np.concatenate([self.values, values[values > 0]]))[:_KEPT]

    def parts(self) -> list[bytes]:
        return [value.tobytes() for value in self.values]


def _word(word: str) -> int:
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "little")


def _codes(cells: Any) -> AnyArray:
    """Return 64 bits for each cell: equal numbers and equal words are equal, however written."""
    plain = isinstance(cells, np.ndarray)
    values, strange = (cells.astype(np.float64), []) if plain else numbers(cells)
    codes = (values + 0.0).view(np.uint64).copy()  # −0 becomes 0
    codes[np.isnan(values)] = 0
    known: dict[str, int] = {}
    for row in strange:
        word = text(cells[row])
        if word not in known:
            known[word] = _word(word)
        codes[row] = 0 if is_missing(cells[row]) else known[word]
    return codes


def _mixed(codes: AnyArray, salt: Any) -> AnyArray:
    """Return salted codes, their bits well stirred (the finaliser of splitmix64)."""
    out = codes ^ salt
    out = (out ^ (out >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    out = (out ^ (out >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return out ^ (out >> np.uint64(31))


def _sum(parts: list[AnyArray]) -> AnyArray:
    """Return the stirred sum of all columns, whatever their order."""
    total = np.zeros_like(parts[0])
    for part in parts:
        total += part
    return _mixed(total, np.uint64(0))


def _owners(cells: Any) -> tuple[list[str], AnyArray]:
    """Return the tasks of a piece in order of first appearance, and the task of every row."""
    position: dict[str, int] = {}
    values = cells.tolist() if isinstance(cells, np.ndarray) else cells
    owner = [position.setdefault(text(cell), len(position)) for cell in values]
    return list(position), np.array(owner, dtype=np.int64)


def _by_task(codes: AnyArray, owner: AnyArray, marks: AnyArray, salt: Any) -> AnyArray:
    """Return one number for each task's cells; 0 where two values or fewer mark nobody."""
    order = np.argsort(owner, kind="stable")
    ordered, starts = codes[order], np.flatnonzero(np.diff(owner[order], prepend=-1))
    low, high = np.minimum.reduceat(ordered, starts), np.maximum.reduceat(ordered, starts)
    sorted_owner = owner[order]
    between = (ordered > low[sorted_owner]) & (ordered < high[sorted_owner])
    told = np.logical_or.reduceat(between, starts)
    sums = np.add.reduceat(_mixed(ordered, salt), starts)
    return np.where(told, _mixed(sums ^ marks, salt), np.uint64(0))


def _party_names(columns: tuple[str, ...], task: str, names: list[str]) -> Iterable[bytes]:
    # Numbers name nobody: they mean the same parties only in a table of the same columns.
    known_by = "\0".join(sorted(columns)) if whole_numbers(names) else task
    return (f"{known_by}\0\0{name}".encode() for name in names)


def _tokens(key: bytes, kind: bytes, parts: Iterable[bytes]) -> AnyArray:
    hashed = (hashlib.blake2b(part, key=key, digest_size=8, person=kind).digest() for part in parts)
    return np.unique(np.frombuffer(b"".join(hashed), dtype=np.uint64))


def parquet_pieces(path: Path) -> Iterable[dict[str, Any]]:
    """Yield the columns of a parquet file, some rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for batch in pq.ParquetFile(path).iter_batches(batch_size=_PIECE):
        yield {
            name: column.to_numpy(zero_copy_only=False)
            if pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
            else column.to_pylist()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
