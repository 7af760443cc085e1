"""The billboard: the append-only list of releases, and the only way a value leaves."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from tacit._files import write_whole
from tacit._types import AnyArray
from tacit.errors import InvalidInput, LedgerError, ModelFileError, PrivacyLeak
from tacit.privacy._chain import canonical, linked_hash
from tacit.privacy.accounting.leaves import Event, event_from_json, event_to_json
from tacit.privacy.ledger import Reservation
from tacit.privacy.unit import Unit

__all__ = ["Billboard", "Posting"]

FORMAT = "tacit billboard 2"
_GENESIS = hashlib.sha256(FORMAT.encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Posting:
    """One release as everybody reads it; ``value`` cannot be written to."""

    number: int
    value: AnyArray
    event: Event
    label: str
    sound: bool
    seeded: bool
    unit: Unit
    call: dict[str, Any]
    hash: str


def _frozen(value: Any) -> AnyArray:
    array = np.array(value, order="C")
    if array.dtype.kind not in "biuf":
        raise InvalidInput(
            f"value of dtype {array.dtype}: a release must be numbers; post an array of floats"
        )
    # A view of immutable bytes: unlike a cleared write flag, this cannot be undone.
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)


def _facts(posting: Posting) -> dict[str, Any]:
    return {
        "number": posting.number,
        "event": json.loads(event_to_json(posting.event)),
        "label": posting.label,
        "sound": posting.sound,
        "seeded": posting.seeded,
        "unit": str(posting.unit),
        "call": posting.call,
    }


def _hash(before: str, facts: dict[str, Any], value: AnyArray) -> str:
    digest = hashlib.sha256(value.tobytes()).hexdigest()
    return linked_hash(before, canonical(facts), value.dtype.str, str(value.shape), digest)


def _charge(reservation: Reservation, posting: Posting, *, paid: bool) -> None:
    if paid:
        reservation.note(mark=posting.hash)
    elif posting.unit is reservation.unit:
        reservation.charge(posting.event, mark=posting.hash)
    elif posting.unit is Unit.ROW:
        reservation.charge_rows(mark=posting.hash)
    else:
        raise LedgerError(
            f"a release for the unit {posting.unit}: the run reserved {reservation.unit}"
        )


class _Turns:
    """Who has taken which turn, among the postings that single tasks made."""

    def __init__(self, postings: Iterable[Posting] = ()) -> None:
        self._first: dict[tuple[Any, Any], Posting] = {}
        self._takers: dict[tuple[Any, Any], set[Any]] = {}
        self._paid: set[int] = set()
        for posting in postings:
            self.add(posting)

    @staticmethod
    def _key(posting: Posting) -> tuple[Any, Any]:
        return posting.call.get("round"), posting.call.get("turn")

    def paid(self, posting: Posting) -> bool:
        """Return whether the turn of a posting was charged already, for another task.

        Raises `PrivacyLeak` if its task has taken the turn, or the turn was of another event.
        """
        first = self._first.get(self._key(posting)) if posting.call else None
        if first is None:
            return False
        task, takers = posting.call.get("task"), self._takers[self._key(posting)]
        if task is None and takers == {None}:  # everybody again: charged again
            return False
        if task is None or None in takers or task in takers:
            raise PrivacyLeak(
                f"release {posting.number}: turn {posting.call.get('turn')} of round "
                f"{posting.call.get('round')} was taken by task {task} before; a task that speaks "
                "again takes its next turn"
            )
        if (first.event, first.unit) != (posting.event, posting.unit):
            raise PrivacyLeak(
                f"release {posting.number}: {posting.event} for a turn that was charged as "
                f"{first.event}; all tasks' noise of one turn must be alike"
            )
        return True

    def add(self, posting: Posting) -> None:
        """Take a posting in; raises as `paid`."""
        if self.paid(posting):
            self._paid.add(posting.number)
        if posting.call:
            self._first.setdefault(self._key(posting), posting)
            self._takers.setdefault(self._key(posting), set()).add(posting.call.get("task"))

    def counts(self, posting: Posting) -> bool:
        """Return whether a posting was charged by itself."""
        return posting.number not in self._paid


def _packed(postings: Iterable[Posting]) -> bytes:
    postings = list(postings)
    facts = [{**_facts(posting), "hash": posting.hash} for posting in postings]
    head = postings[-1].hash if postings else _GENESIS
    text = canonical({"format": FORMAT, "head": head, "postings": facts})
    arrays: dict[str, Any] = {f"value_{posting.number}": posting.value for posting in postings}
    buffer = io.BytesIO()
    np.savez(buffer, manifest=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
    return buffer.getvalue()


def _write(path: Path, postings: Iterable[Posting]) -> None:
    write_whole(path, _packed(postings))


def _read(path: Path) -> tuple[str, list[Posting]]:
    """Return the head and the postings of one file, not yet verified."""
    with path.open("rb") as file:
        return _unpacked(file, str(path))


def _unpacked(file: BinaryIO, path: str) -> tuple[str, list[Posting]]:
    found = []
    try:
        with np.load(file, allow_pickle=False) as arrays:
            manifest = json.loads(arrays["manifest"].tobytes().decode())
            if manifest["format"] != FORMAT:
                raise ModelFileError(f"{path}: not a {FORMAT}; use tacit's version")
            for facts in manifest["postings"]:
                stored = facts.pop("hash")
                event = event_from_json(canonical(facts.pop("event")))
                value = _frozen(arrays[f"value_{facts['number']}"])
                unit = Unit(facts.pop("unit"))
                found.append(Posting(value=value, event=event, hash=stored, unit=unit, **facts))
            return str(manifest["head"]), found
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ModelFileError(
            f"{path}: not a billboard, or damaged ({error}); restore it from a copy"
        ) from error


class Billboard:
    """The append-only, hash-chained list of everything that tasks learn about each other.

    Guarantee: a value stands on the billboard only after its event was charged, durably, to the
    reservation; so whatever was published is counted. By the billboard lemma every model a task
    computes from the billboard and its own data is jointly private at the billboard's cost, for
    the unit and adjacency of the reservation.

    Parallel composition: a call that names one task releases that task's message, with the task's
    own noise (`conduct` refuses any other). A turn of a round is charged when the first task takes
    it, and not again for the others. *Proof.* Take two neighbouring data sets; they differ in data
    of one task t. Given what stands on the billboard, every message of another task, and who speaks
    next, has the same law under both. So the likelihood ratio of the whole list is the product of
    the ratios of t's own postings alone: an adaptive composition of t's turns, whatever lies
    between them. No task takes a turn twice (`PrivacyLeak`), and all tasks' noise of one turn has
    the same event; hence t's turns are among those charged, each once, for every t.

    Parameters
    ----------
    reservation : Reservation, optional
        Where releases are charged. None records the events without a limit.
    folder : path, optional
        Where every posting is written, durably, after its charge and before anybody reads it;
        `load` of the folder goes on where a killed process stopped. What the process had charged
        and not written is not charged again for the same bytes, and refused for others.
    """

    def __init__(
        self,
        reservation: Reservation | None = None,
        folder: str | os.PathLike[str] | None = None,
    ) -> None:
        self.reservation = reservation
        self._folder = None if folder is None else Path(folder)
        self._owed: frozenset[str] = frozenset()
        self._postings: list[Posting] = []
        self._turns = _Turns()
        self._lock = threading.Lock()
        self._copy = False

    def __getstate__(self) -> list[Posting]:
        return self._postings

    def __setstate__(self, postings: list[Posting]) -> None:
        # A copy has no ledger to charge, so it can be read and verified but not posted to.
        self.reservation = self._folder = None
        self._owed = frozenset()
        self._postings = list(postings)
        self._turns = _Turns(postings)
        self._lock = threading.Lock()
        self._copy = True

    def post(
        self,
        value: Any,
        event: Event,
        *,
        label: str = "",
        sound: bool = True,
        seeded: bool = False,
        unit: Unit = Unit.TASK,
        call: dict[str, Any] | None = None,
    ) -> Posting:
        """Charge ``event``, then publish ``value``; if the charge fails nothing is published."""
        if self._copy:
            raise LedgerError("this billboard is a copy and cannot charge; post to the original")
        frozen = _frozen(value)
        event_to_json(event)
        with self._lock:
            draft = Posting(
                number=len(self),
                value=frozen,
                event=event,
                label=str(label),
                sound=bool(sound),
                seeded=bool(seeded),
                unit=Unit(unit),
                call={} if call is None else dict(call),
                hash="",
            )
            posting = replace(draft, hash=_hash(self.head, _facts(draft), frozen))
            paid = self._turns.paid(posting)
            if not self._owed and self.reservation is not None:
                _charge(self.reservation, posting, paid=paid)
            elif self._owed and posting.hash not in self._owed:
                raise PrivacyLeak(
                    f"release {posting.number} was charged before the run was interrupted, for "
                    "other bytes; go on with the same data, settings and version, or start anew"
                )
            if self._folder is not None:
                _write(self._folder / f"{posting.number:08d}.npz", [posting])
            self._owed = self._owed - {posting.hash}
            self._postings.append(posting)
            self._turns.add(posting)
        return posting

    @property
    def head(self) -> str:
        """Hash of the last posting, which covers all before it."""
        return self._postings[-1].hash if self._postings else _GENESIS

    @property
    def charged(self) -> tuple[Posting, ...]:
        """The postings that were charged: all but those of a turn that another task had taken."""
        return tuple(posting for posting in self._postings if self._turns.counts(posting))

    @property
    def owes(self) -> bool:
        """Whether a release was charged before a crash, and must come out as the same bytes."""
        return bool(self._owed)

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of all postings that were charged, in order."""
        return tuple(posting.event for posting in self.charged)

    @property
    def sound(self) -> bool:
        """Whether every posting came from a sound mechanism."""
        return all(posting.sound for posting in self._postings)

    @property
    def seeded(self) -> bool:
        """Whether any posting's noise was repeatable, and so protects nobody."""
        return any(posting.seeded for posting in self._postings)

    def read(self, number: int) -> AnyArray:
        """Return the value of posting ``number`` (0 is the first, −1 the last)."""
        return self[number].value

    def __getitem__(self, number: int) -> Posting:
        try:
            return self._postings[number]
        except IndexError:
            raise InvalidInput(
                f"posting {number!r}: the billboard holds {len(self)}; count from 0"
            ) from None

    def __len__(self) -> int:
        return len(self._postings)

    def __iter__(self) -> Iterator[Posting]:
        return iter(tuple(self._postings))

    def verify(self, head: str | None = None) -> int:
        """Recompute every hash; return the number of postings, or raise `PrivacyLeak`.

        With the ``head`` noted at some point, also show that nothing before it was removed.
        """
        before, seen = _GENESIS, head in (None, _GENESIS)
        for expected, posting in enumerate(self._postings):
            before = _hash(before, _facts(posting), posting.value)
            if posting.number != expected or posting.hash != before:
                raise PrivacyLeak(
                    f"posting {expected} was edited after it was published; trust none of the run"
                )
            seen = seen or before == head
        if not seen:
            raise PrivacyLeak(f"the noted head {head} is not on the billboard; it was cut off")
        return len(self._postings)

    def packed(self, first: int = 0) -> bytes:
        """Return the postings from ``first`` on, for a reader who has those before."""
        return _packed(self._postings[first:])

    def take(self, content: bytes) -> int:
        """Append what `packed` of the run's billboard gave; return how many postings are held.

        Postings that are held already must come again as they were. This is for readers: what has
        a reservation is posted to, and takes nothing.

        Raises
        ------
        PrivacyLeak
            If a posting does not continue the chain, or was another before; nothing is appended.
        """
        if self.reservation is not None:
            raise LedgerError("this billboard charges a ledger; post to it")
        _, found = _unpacked(io.BytesIO(content), "postings")
        with self._lock:
            before, new = self.head, list[Posting]()
            for posting in found:
                if posting.number < len(self):
                    if self[posting.number].hash != posting.hash:
                        raise PrivacyLeak(f"posting {posting.number} was another before; stop here")
                    continue
                before = _hash(before, _facts(posting), posting.value)
                if posting.number != len(self) + len(new) or posting.hash != before:
                    raise PrivacyLeak(f"posting {posting.number} does not follow on the last one")
                new.append(posting)
            for posting in new:
                if self._folder is not None:
                    _write(self._folder / f"{posting.number:08d}.npz", [posting])
                self._postings.append(posting)
                self._turns.add(posting)
        return len(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all postings to one file, atomically: arrays and JSON, no code."""
        _write(Path(path), self._postings)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], reservation: Reservation | None = None
    ) -> Billboard:
        """Read a billboard and verify it; with a ``reservation`` the run can go on posting.

        ``path`` is a file that `save` wrote, or the ``folder`` of a run that was interrupted: there
        the run goes on, and a release that was charged and not yet written must come out as the
        very bytes it was charged for.

        Raises
        ------
        ModelFileError
            If the file is foreign or damaged.
        PrivacyLeak
            If a posting was edited.
        """
        place, whole = Path(path), None
        if place.is_dir():
            billboard = cls(reservation, place)
            for part in sorted(place.glob("*.npz")):
                billboard._postings += _read(part)[1]
        else:
            billboard = cls(reservation)
            whole, billboard._postings = _read(place)
        billboard.verify(whole)
        billboard._turns = _Turns(billboard._postings)
        if reservation is not None and place.is_dir():
            kept = {posting.hash for posting in billboard}
            billboard._owed = frozenset(reservation.marks - kept)
        return billboard
