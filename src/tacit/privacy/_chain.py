"""A durable, append-only, hash-chained list of entries in an SQLite file.

Every entry's hash covers its content and the hash before it, and the file keeps the hash and the
number of the last entry, so that an edited, removed or cut-off entry shows. Whoever can write the
file can forge a whole new chain; against that, note the head somewhere else and give it to
`Chain.verify`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import LedgerError

__all__ = ["Chain", "Entry", "canonical", "linked_hash"]

APPLICATION_ID = 0x74616369  # "taci"
SCHEMA_VERSION = 2
_WAIT_SECONDS = 120.0
_GENESIS = hashlib.sha256(b"tacit ledger").hexdigest()
_TABLES = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    line INTEGER NOT NULL,
    reservation INTEGER NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE INDEX by_line ON entries (line, kind);
CREATE INDEX by_reservation ON entries (reservation, kind);
CREATE TABLE head (only INTEGER PRIMARY KEY CHECK (only = 1), number INTEGER, hash TEXT) STRICT;
"""

_NO_OLD_RESERVATIONS = """
CREATE TRIGGER no_old_reservations BEFORE INSERT ON entries
WHEN NEW.kind = 'reserve' AND NEW.body NOT LIKE '%"run":%'
BEGIN SELECT RAISE(ABORT, 'upgraded by a later version of tacit; use that one'); END
"""


@dataclass(frozen=True)
class Entry:
    """One line of the chain; ``line`` and ``reservation`` are entry numbers, 0 for none."""

    number: int
    kind: str
    line: int
    reservation: int
    body: dict[str, Any]


def canonical(value: Any) -> str:
    """Return ``value`` as JSON text that is the same for equal values."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def linked_hash(before: str, *content: str) -> str:
    """Return the hash of ``content`` chained to the hash ``before`` it."""
    return hashlib.sha256(canonical([before, *content]).encode()).hexdigest()


class Chain:
    """The entries of one file, or of memory for ``":memory:"``.

    Guarantee: `append` returns after the entry is on disk (WAL, ``synchronous=FULL``), and what a
    `writing` block read and appended happened alone: no other process wrote in between.
    """

    def __init__(self, path: str | os.PathLike[str], first: dict[str, Any] | None) -> None:
        self.path = os.fspath(path)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        if self.path == ":memory:":
            self._connection = self._connect(self.path)
            self._create(self._connection, first or {})
            return
        if not os.path.exists(self.path):
            if first is None:
                raise LedgerError(
                    f"{self.path}: no such ledger; give epsilon and delta to create one"
                )
            self._create_file(Path(self.path), first)
        with self._sqlite_errors():
            self._connection = self._connect(self.path)
            try:
                self._check_format(self._connection)
            except BaseException:
                self.close()
                raise

    @staticmethod
    def _connect(path: str) -> sqlite3.Connection:
        connection = sqlite3.connect(
            path, timeout=_WAIT_SECONDS, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _create(self, connection: sqlite3.Connection, first: dict[str, Any]) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(_TABLES)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        connection.execute("INSERT INTO head VALUES (1, 0, ?)", (_GENESIS,))
        with self._transaction(connection):
            self._insert(connection, "open", 0, 0, {**first, "nonce": secrets.token_hex(16)})

    def _create_file(self, path: Path, first: dict[str, Any]) -> None:
        """Build the file aside and link it into place, so that nobody sees half a ledger."""
        aside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with self._sqlite_errors(), contextlib.closing(self._connect(str(aside))) as connection:
                self._create(connection, first)
            with contextlib.suppress(FileExistsError):  # another process was first: open its file
                os.link(aside, path)
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        finally:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{aside}{suffix}").unlink(missing_ok=True)

    def _check_format(self, connection: sqlite3.Connection) -> None:
        if os.path.getsize(self.path) == 0:
            raise LedgerError(
                f"{self.path}: an empty file, not a ledger; restore it from a copy, or use "
                "another path"
            )
        (found,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if found != APPLICATION_ID:
            raise LedgerError(f"{self.path}: not a tacit ledger; use another path")
        if version not in (1, SCHEMA_VERSION):
            raise LedgerError(
                f"{self.path}: ledger format {version}, this version reads {SCHEMA_VERSION}; "
                "use the version of tacit that wrote it"
            )
        with self.reading():  # or another process could append between head and entries
            self._last(connection)

    @property
    def version(self) -> int:
        """The format of the file."""
        with self.reading():
            (version,) = self._open().execute("PRAGMA user_version").fetchone()
            return int(version)

    def upgrade(self, body: Callable[[list[Entry]], dict[str, Any]]) -> None:
        """Make a file of format 1 one of the present format, by one entry, or leave it alone.

        ``body`` says from the old entries what they amount to. A process of an earlier version
        that still has the file open can reserve nothing more.
        """
        self.verify()
        with self.writing():
            if self.version == SCHEMA_VERSION:
                return
            self.append("forward", body(self.entries()))
            self._open().execute(_NO_OLD_RESERVATIONS)
            self._open().execute(f"PRAGMA user_version={SCHEMA_VERSION}")

    @contextlib.contextmanager
    def _sqlite_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(
                f"{self.path}: {error}; the file is locked, damaged or not a ledger: restore it "
                "from a copy, and spend nothing until verify() passes"
            ) from error

    @staticmethod
    @contextlib.contextmanager
    def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            raise LedgerError(
                f"{self.path}: this ledger is closed; open it again with Ledger(path)"
            )
        if os.getpid() != self._pid:
            raise LedgerError(
                f"{self.path}: opened by another process; open it again here with Ledger(path)"
            )
        return self._connection

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the file still for several reads, and turn SQLite's errors into `LedgerError`."""
        with self._lock, self._sqlite_errors():
            connection = self._open()
            nested = connection.in_transaction
            if not nested:
                connection.execute("BEGIN")
            try:
                yield
            finally:
                if not nested and connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the file alone: what is appended inside is kept all, durably, or not at all."""
        with self._lock, self._sqlite_errors(), self._transaction(self._open()):
            yield

    def _last(self, connection: sqlite3.Connection) -> tuple[int, str]:
        """Return number and hash of the last entry; they must agree with the head."""
        head = connection.execute("SELECT number, hash FROM head").fetchone()
        last = connection.execute(
            "SELECT number, hash FROM entries ORDER BY number DESC LIMIT 1"
        ).fetchone() or (0, _GENESIS)
        if head != last:
            raise LedgerError(
                f"{self.path}: the last entry is {last[0]} but the head says {head and head[0]}; "
                "the file was edited or cut off: restore it from a copy"
            )
        return int(last[0]), str(last[1])

    def _insert(
        self, connection: sqlite3.Connection, kind: str, line: int, reservation: int, body: Any
    ) -> int:
        number, before = self._last(connection)
        number += 1
        text = canonical(body)
        now = linked_hash(before, str(number), kind, str(line), str(reservation), text)
        connection.execute(
            "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?)",
            (number, kind, line, reservation, text, now),
        )
        connection.execute("UPDATE head SET number = ?, hash = ?", (number, now))
        return number

    def append(self, kind: str, body: Any, *, line: int = 0, reservation: int = 0) -> int:
        """Append an entry inside a `writing` block and return its number."""
        return self._insert(self._open(), kind, line, reservation, body)

    def entries(self, where: str = "1", values: tuple[Any, ...] = ()) -> list[Entry]:
        """Return the entries that ``where`` (SQL over the columns) selects, in order."""
        with self.reading():
            rows = self._open().execute(
                "SELECT number, kind, line, reservation, body FROM entries "  # noqa: S608
                f"WHERE {where} ORDER BY number",
                values,
            )
            return [Entry(n, k, ln, r, self._parse(n, text)) for n, k, ln, r, text in rows]

    def _parse(self, number: int, text: str) -> dict[str, Any]:
        try:
            body = json.loads(text)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise LedgerError(f"{self.path}: entry {number} was edited; restore it from a copy")
        return body

    @property
    def head(self) -> str:
        """Hash of the last entry."""
        with self.reading():
            return self._last(self._open())[1]

    def hash_of(self, number: int) -> str:
        """Hash of one entry."""
        with self.reading():
            found = self._open().execute("SELECT hash FROM entries WHERE number = ?", (number,))
            return str(found.fetchone()[0])

    def holds(self, head: str) -> bool:
        """Whether some entry has this hash."""
        with self.reading():
            found = self._open().execute("SELECT 1 FROM entries WHERE hash = ?", (head,))
            return found.fetchone() is not None

    def verify(self, head: str | None = None) -> int:
        """Walk the whole chain; return the number of entries, or raise `LedgerError`."""
        with self.reading():
            connection = self._open()
            (state,) = connection.execute("PRAGMA integrity_check").fetchone()
            if state != "ok":
                raise LedgerError(f"{self.path}: damaged ({state}); restore it from a copy")
            before, expected, seen = _GENESIS, 1, head is None
            for number, kind, line, reservation, text, stored in connection.execute(
                "SELECT number, kind, line, reservation, body, hash FROM entries ORDER BY number"
            ):
                now = linked_hash(before, str(expected), kind, str(line), str(reservation), text)
                if number != expected or stored != now:
                    raise LedgerError(
                        f"{self.path}: entry {expected} was edited or removed; restore the file "
                        "from a copy"
                    )
                before, expected, seen = now, expected + 1, seen or now == head
            self._last(connection)
            if not seen:
                raise LedgerError(
                    f"{self.path}: the noted head {head} is not in the chain; the file was "
                    "replaced or cut off: restore it from a copy"
                )
            return expected - 1

    def close(self) -> None:
        """Close the file; further use raises."""
        if self._connection is not None and os.getpid() == self._pid:
            self._connection.close()
        self._connection = None


def finite_or_text(value: float) -> float | str:
    """Return ``value`` in a form every JSON reader accepts."""
    return "inf" if math.isinf(value) else value
