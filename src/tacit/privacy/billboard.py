"""The billboard: the append-only list of releases, and the only way a value leaves."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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


def _charge(reservation: Reservation, event: Event, unit: Unit) -> None:
    if unit is reservation.unit:
        reservation.charge(event)
    elif unit is Unit.ROW:
        reservation.charge_rows()
    else:
        raise LedgerError(f"a release for the unit {unit}: the run reserved {reservation.unit}")


class Billboard:
    """The append-only, hash-chained list of everything that tasks learn about each other.

    Guarantee: a value stands on the billboard only after its event was charged, durably, to the
    reservation; so whatever was published is counted. By the billboard lemma every model a task
    computes from the billboard and its own data is jointly private at the billboard's cost, for
    the unit and adjacency of the reservation.

    Parameters
    ----------
    reservation : Reservation, optional
        Where releases are charged. None records the events without a limit.
    """

    def __init__(self, reservation: Reservation | None = None) -> None:
        self.reservation = reservation
        self._postings: list[Posting] = []
        self._lock = threading.Lock()
        self._copy = False

    def __getstate__(self) -> list[Posting]:
        return self._postings

    def __setstate__(self, postings: list[Posting]) -> None:
        # A copy has no ledger to charge, so it can be read and verified but not posted to.
        self.reservation = None
        self._postings = list(postings)
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
            if self.reservation is not None:
                _charge(self.reservation, event, Unit(unit))
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
            self._postings.append(posting)
        return posting

    @property
    def head(self) -> str:
        """Hash of the last posting, which covers all before it."""
        return self._postings[-1].hash if self._postings else _GENESIS

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of all postings, in order."""
        return tuple(posting.event for posting in self._postings)

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

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all postings to one file, atomically: arrays and JSON, no code."""
        facts = [{**_facts(posting), "hash": posting.hash} for posting in self._postings]
        text = canonical({"format": FORMAT, "head": self.head, "postings": facts})
        arrays: dict[str, Any] = {
            f"value_{posting.number}": posting.value for posting in self._postings
        }
        buffer = io.BytesIO()
        np.savez(buffer, manifest=np.frombuffer(text.encode(), dtype=np.uint8), **arrays)
        write_whole(Path(path), buffer.getbuffer())

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], reservation: Reservation | None = None
    ) -> Billboard:
        """Read a billboard and verify it; with a ``reservation`` the run can go on posting.

        Raises
        ------
        ModelFileError
            If the file is foreign or damaged.
        PrivacyLeak
            If a posting was edited.
        """
        billboard = cls(reservation)
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                manifest = json.loads(arrays["manifest"].tobytes().decode())
                if manifest["format"] != FORMAT:
                    raise ModelFileError(f"{os.fspath(path)}: not a {FORMAT}; use tacit's version")
                for facts in manifest["postings"]:
                    stored = facts.pop("hash")
                    event = event_from_json(canonical(facts.pop("event")))
                    value = _frozen(arrays[f"value_{facts['number']}"])
                    unit = Unit(facts.pop("unit"))
                    posting = Posting(value=value, event=event, hash=stored, unit=unit, **facts)
                    billboard._postings.append(posting)
        except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            raise ModelFileError(
                f"{os.fspath(path)}: not a billboard, or damaged ({error}); restore it from a copy"
            ) from error
        billboard.verify(manifest["head"])
        return billboard
