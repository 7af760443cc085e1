"""Sorting a parquet file by task when its rows do not fit in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit import _check
from tacit._files import whole_file
from tacit._types import IntArray
from tacit.tasks._labels import group_labels
from tacit.tasks._parquet import PIECE, ParquetRows, coded

__all__ = ["sort_parquet"]


def sort_parquet(
    source: str | Path, destination: str | Path, *, tasks: str, max_rows: int = 1_000_000
) -> Path:
    """Write the rows of ``source`` sorted by task to ``destination``, in bounded memory.

    Tasks are dealt into buckets of about ``max_rows`` rows, each bucket is written to disk, and
    the buckets are sorted one by one. Rows of a task keep their order; all columns are kept.
    ``destination`` appears only when complete. Needs free disk space of the size of ``source``.
    """
    import pyarrow.parquet as pq

    max_rows = _check.positive_integer("max_rows", max_rows, remedy="use 1_000_000, say")
    rows = ParquetRows(source, tasks, None, (), all_columns=True)
    destination = Path(destination)
    code_of, bucket_of = _deal(rows, max_rows)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".sorting-") as folder:
        buckets = [Path(folder) / f"{number}.parquet" for number in range(bucket_of[-1] + 1)]
        _write_buckets(rows, code_of, bucket_of, buckets)
        with whole_file(destination) as beside, pq.ParquetWriter(beside, rows.schema) as writer:
            for bucket in buckets:
                table = pq.read_table(bucket)
                codes = _global_codes(table.column(tasks).combine_chunks(), code_of)
                writer.write_table(table.take(np.argsort(codes, kind="stable")))
                bucket.unlink()
    return destination


def _deal(rows: ParquetRows, max_rows: int) -> tuple[dict[Any, int], IntArray]:
    """Code of every label, in sorted order, and the bucket of every code."""
    counts: dict[Any, int] = {}
    for codes, values in rows.labels():
        for value, count in zip(values, np.bincount(codes, minlength=len(values)), strict=True):
            counts[value] = counts.get(value, 0) + int(count)
    _, names = group_labels(list(counts))
    ends = np.cumsum([counts[name] for name in names])
    return {name: code for code, name in enumerate(names)}, (ends - 1) // max_rows


def _write_buckets(
    rows: ParquetRows, code_of: dict[Any, int], bucket_of: IntArray, buckets: Sequence[Path]
) -> None:
    import pyarrow.parquet as pq

    writers = [pq.ParquetWriter(bucket, rows.schema) for bucket in buckets]
    try:
        for piece in rows.pieces(rows.schema.names, size=8 * PIECE):
            bucket = bucket_of[_global_codes(piece.column(rows.tasks), code_of)]
            order = np.argsort(bucket, kind="stable")
            sorted_piece = piece.take(order)
            present, starts = np.unique(bucket[order], return_index=True)
            stops = [*starts[1:], len(order)]
            for number, start, stop in zip(present, starts, stops, strict=True):
                writers[number].write_batch(sorted_piece.slice(start, stop - start))
    finally:
        for writer in writers:
            writer.close()


def _global_codes(column: Any, code_of: dict[Any, int]) -> IntArray:
    codes, values = coded(column)
    return np.array([code_of.get(value, -1) for value in values], dtype=np.int64)[codes]
