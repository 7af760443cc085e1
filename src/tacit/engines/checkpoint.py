"""An unfinished run, kept so that a new process goes on with it after a crash.

The billboard is the checkpoint: every release is charged, then written, then read. What a crash
leaves between charge and writing is computed again, to the same bytes, because all noise of the run
derives from a secret key that is kept beside it and from the name of the call.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit.errors import LedgerError, ModelFileError
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation
from tacit.privacy.noise.entropy import Entropy, KeyedEntropy, entropy_from

__all__ = ["Checkpoint", "Unkept"]

Reserve = Callable[[str | None], Reservation]


class Unkept:
    """A run of one process: what a crash interrupts is lost, and stays counted in full."""

    homes: Path | None = None

    def __init__(self, source: Entropy | None = None) -> None:
        self._source = source  # of a run within another one, which repeats it

    def entropy(self, random_state: Any) -> Entropy:
        """Return the source of all noise of the run."""
        if random_state is None and self._source is not None:
            return self._source
        return entropy_from(random_state)

    @contextmanager
    def held(self, ledger: Ledger, reserve: Reserve) -> Iterator[Billboard]:  # noqa: ARG002
        """Set the run's budget aside, hand out its billboard, and settle at the end."""
        with reserve(None) as reservation:
            yield Billboard(reservation)


class Checkpoint:
    """A folder that holds an unfinished run: its identity, its secret key and its releases.

    Guarantee: a run taken up again from the folder releases nothing twice with different bytes and
    nothing uncharged. The key has 256 bits from the operating system, is readable by its owner
    alone, and must be removed with the folder when the run is over: whoever has it can subtract the
    noise of the run.

    Parameters
    ----------
    folder : path
    about : str
        What the run is about, its data and settings. It is part of the run's identity, by which its
        ledger knows it and its noise is drawn: about something else it would be another run.
    """

    _RUN, _KEY, _POSTINGS = "run.json", "key", "releases"

    def __init__(self, folder: str | os.PathLike[str], about: str = "") -> None:
        self.folder = Path(folder)
        try:
            run = str(json.loads((self.folder / self._RUN).read_text())["run"])
            self.run = hashlib.sha256(f"{run} {about}".encode()).hexdigest() if about else run
            self._key = (self.folder / self._KEY).read_bytes()
        except (OSError, ValueError, KeyError) as error:
            raise ModelFileError(
                f"{self.folder}: holds no unfinished run that can go on ({error}); fit anew"
            ) from error
        self.begun = False  # whether anything was charged, so that it is worth being kept

    @classmethod
    def begin(cls, folder: str | os.PathLike[str]) -> Checkpoint:
        """Make the folder, with a new identity and a new key."""
        place = Path(folder)
        place.mkdir(mode=0o700)
        (place / cls._POSTINGS).mkdir()
        descriptor = os.open(place / cls._KEY, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(KeyedEntropy.new())
            file.flush()
            os.fsync(file.fileno())
        write_whole(place / cls._RUN, json.dumps({"run": secrets.token_hex(16)}))
        return cls(place)

    def forget(self) -> None:
        """Put another key in the key's place, once every release is written down.

        The run's record stays; whoever gets hold of it later cannot subtract the noise.
        """
        fresh = KeyedEntropy.new()
        write_whole(self.folder / self._KEY, fresh)
        (self.folder / self._KEY).chmod(0o600)
        self._key = fresh

    @property
    def _postings(self) -> Path:
        return self.folder / self._POSTINGS

    @property
    def homes(self) -> Path:
        """Where homes on this machine keep what they must remember between calls."""
        return self.folder / "homes"

    def entropy(self, random_state: Any) -> Entropy:
        """Return the source of all noise of the run: the key's, or a seed's."""
        if random_state is not None:
            return entropy_from(random_state)
        return KeyedEntropy(self._key).child("run", self.run)

    @contextmanager
    def held(self, ledger: Ledger, reserve: Reserve) -> Iterator[Billboard]:
        """Set the run's budget aside, or take it up again, and hand out its billboard.

        A run that fails after its first charge is left open, to be taken up again.
        """
        known = ledger.knows(self.run)
        alone = ledger.path == ":memory:"  # made for this process; it counts no other run either
        if not known and not alone and any(self._postings.glob("*.npz")):
            raise LedgerError(
                f"{ledger.path}: does not hold the run whose releases lie in {self.folder}; "
                "restore the ledger that they were charged to and the settings they were made "
                "with, or fit anew"
            )
        if known:
            self._refuse_uncharged(ledger)
        reservation = ledger.resume(self.run, settled=True) if known else reserve(self.run)
        billboard = Billboard.load(self._postings, reservation)
        try:
            yield billboard
        except BaseException:
            self.begun = bool(reservation.marks)
            if not self.begun:
                reservation.close()
            raise
        self.begun = True
        reservation.close()

    def _refuse_uncharged(self, ledger: Ledger) -> None:
        """Refuse a ledger that lacks a release which lies here, before it is written to."""
        charged = ledger.charged(self.run)
        if any(posting.hash not in charged for posting in Billboard.load(self._postings)):
            raise LedgerError(
                f"{ledger.path}: does not hold all releases that lie in {self.folder}; it is an "
                "older copy, or they were edited: restore what was changed, or fit anew"
            )
