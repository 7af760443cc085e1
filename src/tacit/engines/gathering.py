"""Personal models as they come back: one array in memory, or in a file that is mapped into it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tacit._files import whole_file
from tacit._types import Array

__all__ = ["stacked", "stacked_in_file"]


def stacked(parts: Iterable[Array]) -> Array:
    """Return the parts as one array."""
    return np.concatenate(list(parts))


def stacked_in_file(parts: Iterable[Array], n_tasks: int, path: Path | None) -> Array:
    """Write the parts to an ``.npy`` file and return it, mapped; changes stay in memory.

    Parameters
    ----------
    path
        Where to keep the file; None for one without a name, which is gone with the array. It holds
        every task's personal model: whoever may read all of them may read it.
    """
    if path is not None:
        with whole_file(path) as beside, beside.open("wb") as stream:
            _write(stream, parts, n_tasks)
        return np.asarray(np.load(path, mmap_mode="c"))
    with tempfile.TemporaryFile(prefix="tacit-models-") as stream:
        offset, shape, dtype = _write(stream, parts, n_tasks)
        stream.flush()
        return np.asarray(np.memmap(stream, dtype=dtype, mode="c", offset=offset, shape=shape))


def _write(
    stream: BinaryIO, parts: Iterable[Array], n_tasks: int
) -> tuple[int, tuple[int, ...], np.dtype[Any]]:
    """Write header and parts; written, not mapped, so that pages do not count as memory."""
    offset, shape = 0, (n_tasks,)
    dtype: np.dtype[Any] = np.dtype(np.float64)
    for part in parts:
        if not offset:
            shape, dtype = (n_tasks, *part.shape[1:]), part.dtype  # all parts alike
            header = {
                "descr": np.lib.format.dtype_to_descr(dtype),
                "fortran_order": False,
                "shape": shape,
            }
            np.lib.format.write_array_header_1_0(stream, header)
            offset = stream.tell()
        stream.write(np.ascontiguousarray(part, dtype=dtype).data)
    return offset, shape, dtype
