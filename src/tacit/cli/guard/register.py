"""The register: which ledgers this user has, where they are, and which data they guard.

One SQLite file, ``ledgers.db`` in ``TACIT_STATE`` (by default the platform's folder for state),
readable by its owner alone. It holds the key of the fingerprints, and for each ledger its
identity, its path, the last head seen and sketches of the data it guards. Losing it loses no
budget, only the notice that data are known: ledgers are found beside their data, or by name.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from tacit.cli.guard.fingerprint import Fingerprint, Sketch
from tacit.errors import LedgerError

__all__ = ["Guarding", "Register", "noted_head", "state_folder"]

_VERSION = 1
_WAIT_SECONDS = 60.0
_TABLES = """
CREATE TABLE IF NOT EXISTS secret (only INTEGER PRIMARY KEY CHECK (only = 1), key BLOB) STRICT;
CREATE TABLE IF NOT EXISTS ledgers (
    identity TEXT PRIMARY KEY, path TEXT NOT NULL, head TEXT NOT NULL, added TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS guards (
    identity TEXT NOT NULL, data TEXT NOT NULL, sketch BLOB NOT NULL,
    PRIMARY KEY (identity, data)
) STRICT;
"""


def state_folder() -> Path:
    """Folder of the register: ``TACIT_STATE``, else the platform's folder for state."""
    chosen = os.environ.get("TACIT_STATE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "tacit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "tacit"
    return Path(os.environ.get("XDG_STATE_HOME", Path.home() / ".local" / "state")) / "tacit"


@dataclass(frozen=True)
class Guarding:
    """A ledger that guards data like these: rows in common, or parties of the same names."""

    identity: str
    path: Path
    head: str
    rows: bool


class Register:
    """The register of one user; use it as a context manager.

    Guarantee: inside `writing` nobody else writes, in any process, so two runs that begin at once
    on copies of the same rows find one ledger between them. An entry is on disk before a run
    spends: a crash leaves a ledger that is known and has spent less, never one that is not known.
    """

    def __init__(self) -> None:
        folder = state_folder()
        self.path = folder / "ledgers.db"
        with self._errors():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._connection = sqlite3.connect(
                self.path, timeout=_WAIT_SECONDS, isolation_level=None
            )
            self._connection.execute("PRAGMA synchronous=FULL")
            self._prepare()

    def _prepare(self) -> None:
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version not in (0, _VERSION):
            raise LedgerError(
                f"{self.path}: written by a later version of tacit; use that one, or set "
                "TACIT_STATE to another folder"
            )
        with self.writing():
            for statement in _TABLES.split(";"):
                self._connection.execute(statement)
            self._connection.execute(
                "INSERT OR IGNORE INTO secret VALUES (1, ?)", (secrets.token_bytes(32),)
            )
            self._connection.execute(f"PRAGMA user_version={_VERSION}")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(
                f"{self.path}: {error}; this register says which ledger guards which data: mend "
                "it, or set TACIT_STATE to a folder that can be written"
            ) from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Keep all others out; what happens inside is kept all or not at all."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    @property
    def key(self) -> bytes:
        """The secret key of the fingerprints."""
        (key,) = self._connection.execute("SELECT key FROM secret").fetchone()
        return bytes(key)

    def guarding(self, data: Fingerprint) -> list[Guarding]:
        """Return the ledgers that guard data like these, those with rows in common first."""
        found: dict[str, Guarding] = {}
        rows = self._connection.execute(
            "SELECT identity, path, head, sketch FROM ledgers JOIN guards USING (identity) "
            "ORDER BY added DESC"
        )
        for identity, path, head, content in rows:
            sketch = Sketch.from_bytes(content)
            same = data.shares_rows(sketch)
            known = found.get(identity)
            if same or (known is None and data.shares_parties(sketch)):
                found[identity] = Guarding(identity, Path(path), head, same)
        return sorted(found.values(), key=lambda guard: not guard.rows)

    def note(self, identity: str, path: Path, head: str) -> None:
        """Remember where a ledger is, and its head."""
        self._connection.execute(
            "INSERT INTO ledgers VALUES (?, ?, ?, ?) ON CONFLICT (identity) "
            "DO UPDATE SET path = excluded.path, head = excluded.head",
            (identity, str(path.absolute()), head, datetime.now(UTC).isoformat()),
        )

    def guard(self, identity: str, data: Fingerprint) -> bool:
        """Remember that a ledger guards these data; return whether that is new."""
        content = data.sketch().to_bytes()
        changed = self._connection.execute(
            "INSERT OR IGNORE INTO guards VALUES (?, ?, ?)", (identity, data.name, content)
        )
        return changed.rowcount > 0

    def unguard(self, identity: str, data: str) -> None:
        """Forget that a ledger guards these data, because the run on them was refused."""
        self._connection.execute(
            "DELETE FROM guards WHERE identity = ? AND data = ?", (identity, data)
        )

    def noted(self, identity: str) -> str | None:
        """Return the last head seen of a ledger."""
        row = self._connection.execute("SELECT head FROM ledgers WHERE identity = ?", (identity,))
        found = row.fetchone()
        return None if found is None else str(found[0])

    def forget(self, identity: str) -> None:
        """Forget a ledger that was removed because nothing was ever spent in it."""
        for table in ("guards", "ledgers"):
            self._connection.execute(f"DELETE FROM {table} WHERE identity = ?", (identity,))  # noqa: S608

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def noted_head(identity: str) -> str | None:
    """Return the last head seen of a ledger; None if there is no register or it does not know."""
    if not (state_folder() / "ledgers.db").exists():
        return None
    with Register() as register:
        return register.noted(identity)
