"""A run rehearsed on a ledger: a throw-away copy refuses exactly what the ledger itself would."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tacit.errors import LedgerError
from tacit.privacy.ledger import Ledger

__all__ = ["ledger_copy"]


@contextlib.contextmanager
def ledger_copy(path: Path) -> Iterator[Ledger]:
    """Open a throw-away copy of a ledger."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / path.name
        try:
            # Not opened read-only: such a connection would leave its -wal and -shm files behind.
            with (
                contextlib.closing(sqlite3.connect(path)) as source,
                contextlib.closing(sqlite3.connect(copy)) as target,
            ):
                source.backup(target)
        except sqlite3.Error as error:
            raise LedgerError(f"{path}: {error}; it is no ledger, or cannot be opened") from error
        with Ledger(copy) as ledger:
            yield ledger
