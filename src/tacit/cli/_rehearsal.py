"""``--dry-run``: the same fit on made-up rows of the same shape.

Guarantee: the private rows lend their number, tasks and, if nobody declared them, classes, nothing
else; noise and cost do not depend on the values, so the rehearsal's statement is the run's
statement. A ledger is rehearsed on a copy, which refuses exactly what the ledger itself would
refuse.
"""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tacit.cli._prepare import Prepared
from tacit.errors import LedgerError
from tacit.privacy.ledger import Ledger

__all__ = ["ledger_copy", "rehearse"]


def rehearse(estimator: Any, prepared: Prepared) -> Any:
    """Fit ``estimator`` on random rows of the shape of ``prepared``."""
    random = np.random.default_rng(0)
    X = random.standard_normal(prepared.X.shape)
    if prepared.kind == "regression":
        y: Any = random.standard_normal(len(X))
    else:
        # Every class occurs, whether it was declared or is in the file.
        classes = np.array(prepared.declared or np.unique(prepared.y))
        y = classes[np.arange(len(X)) % len(classes)]
    return estimator.fit(X, y, tasks=prepared.tasks)


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
            raise LedgerError(
                f"{path}: {error}; it is no ledger, or cannot be opened: check --ledger"
            ) from error
        with Ledger(copy) as ledger:
            yield ledger
