"""A site: a party with its rows, its rules and its ledger, answering on its own machine."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit._types import AnyArray, Array
from tacit.errors import BudgetExceeded, InvalidInput, LedgerError, PrivacyLeak, TacitError
from tacit.federation.consent import Policy, consent, described
from tacit.federation.errors import Refused
from tacit.federation.gate import MESSAGE
from tacit.federation.seat import Seat, Speaker
from tacit.federation.sums import Identity
from tacit.federation.terms import Terms
from tacit.federation.transfer import Source, Target
from tacit.federation.wire import pack, unpack
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import Call
from tacit.tasks import TaskSet

__all__ = ["LEDGER", "TASKS", "Rows", "Site", "locked"]

Rows = Callable[[Terms], tuple[Array, AnyArray]]
TASKS = ("join", "agree", "key", "speak", "finish")
LEDGER = "ledger.db"
_RUN = re.compile(r"[0-9a-f]{32}")
_log = logging.getLogger(__name__)


class Site:
    """One party.

    Parameters
    ----------
    name
        Its name among the sites.
    folder
        Its own files: ledger, runs, models. One process at a time may use it.
    rows
        Reads X and y as terms describe them; called when a run is joined.
    policy
        What it lets itself in for.
    identity
        Its long-lived key, for secure sums.
    ledger
        The one that guards its rows; by default one in its folder, with the policy's total.

    Guarantee: `answer` hands out nothing but what `tacit.federation.gate` lets pass, after the
    site's own ledger was charged for it, durably; asked again it answers with the same bytes. What
    it refuses changes nothing.
    """

    def __init__(
        self,
        name: str,
        folder: str | os.PathLike[str],
        rows: Rows,
        policy: Policy,
        *,
        identity: Identity | None = None,
        ledger: str | os.PathLike[str] | None = None,
    ) -> None:
        self.name, self.policy = name, policy
        self._folder, self._rows, self._identity = Path(folder), rows, identity
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = locked(self._folder / "lock")
        self._ledger = (
            Ledger(self._folder / LEDGER, epsilon=policy.max_epsilon, delta=policy.max_delta)
            if ledger is None
            else Ledger(ledger)
        )
        self._seats: dict[str, Seat] = {}

    def close(self) -> None:
        """Close ledger and lock; what was said stays said."""
        self._ledger.close()
        os.close(self._lock)

    def answer(self, task: str, request: bytes) -> bytes:
        """Answer one request, or raise `Refused`."""
        try:
            return self._answered(task, *unpack(request))
        except (InvalidInput, PrivacyLeak) as error:  # of terms and releases, never of rows
            raise Refused(f"{self.name}: {error}") from None
        except BudgetExceeded as error:
            raise self._reason_stays("too little is left in its ledger", error) from None
        except LedgerError as error:
            raise self._reason_stays("its ledger does not allow it", error) from None

    def _answered(self, task: str, header: dict[str, Any], arrays: dict[str, AnyArray]) -> bytes:
        if task == "join":
            return self._join(Terms.from_json(_text(header, "terms")))
        if task == "agree":
            return self._agree(Terms.from_json(_text(header, "terms")))
        seat = self._seat(_text(header, "run"), _text(header, "terms"))
        known = seat.read(arrays["postings"].tobytes() if "postings" in arrays else b"")
        if known < int(header.get("known", 0)):
            return pack({"known": known})
        if task == "key":
            return pack({"page": seat.key(_call(header))})
        if task == "speak":
            return self._speak(seat, _call(header), header.get("book"))
        if task == "finish":
            return self._finish(seat)
        raise Refused(f"{self.name}: there is no task {task!r}")

    def model(self, run: str) -> Path:
        """Return the folder of the site's own model of a run."""
        return self._run_folder(run) / "model"

    def _run_folder(self, run: str) -> Path:
        if not _RUN.fullmatch(run):
            raise Refused(f"{self.name}: a run is named by 32 hex digits")
        return self._folder / "runs" / run

    def _read(self, terms: Terms) -> TaskSet:
        estimator = terms.estimator
        try:
            X, y = self._rows(terms)
            targets = estimator._encode_target(estimator._target_values(y, len(X)))
            column = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
            names = [self.name] * len(X)
            return TaskSet.from_arrays(X, column, names, feature_names=terms.features)
        except TacitError as error:  # it names lines and cells, which are this site's alone
            raise self._reason_stays("its rows cannot be read as the terms say", error) from None

    def _reason_stays(self, told: str, error: Exception) -> Refused:
        """Return a refusal without the reason, which may name rows, files or other spending."""
        _log.warning("%s: %s", self.name, error)
        return Refused(f"{self.name}: {told}; its own log says why")

    def _join(self, terms: Terms) -> bytes:
        self.policy.check(terms, self.name)
        rows = self._read(terms)
        told = terms.counted and self.name in terms.speakers
        return pack({"rows": rows.n_rows if told else None})

    def _agree(self, terms: Terms) -> bytes:
        folder = self._run_folder(terms.run)
        self._seats.pop(terms.run, None)
        self._seats[terms.run] = self._seated(folder, terms)
        write_whole(folder / "consent.txt", described(consent(terms), self.name) + "\n")
        return pack({"agreed": terms.digest, "known": len(self._seats[terms.run].board)})

    def _seated(self, folder: Path, terms: Terms) -> Seat:
        """Take the site's place in a run; its rules are asked again whenever it does."""
        self.policy.check(terms, self.name)
        self.policy.check_cost(terms.staged(), self.name)
        rows, new = self._read(terms), not (folder / "terms.json").exists()
        counts = dict(zip(terms.speakers, terms.counts or (), strict=False))
        if counts.get(self.name, rows.n_rows) != rows.n_rows:
            raise Refused(f"{self.name}: the terms give it another number of rows than it has")
        try:
            if self.name not in terms.speakers:
                return Target(folder, terms, self.name, rows, self._ledger)
            kind = Source if terms.sources else Speaker
            return kind(folder, terms, self.name, rows, self._ledger, self._identity)
        except TacitError as error:
            if new:  # nothing was said
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, Refused | LedgerError):
                raise
            raise self._reason_stays("cannot take its place in this run", error) from None

    def _seat(self, run: str, digest: str) -> Seat:
        if run not in self._seats:
            folder = self._run_folder(run)
            if not (folder / "terms.json").exists():
                raise Refused(f"{self.name}: has not agreed to this run")
            self._seats[run] = self._seated(folder, Terms.load(folder / "terms.json"))
        seat = self._seats[run]
        if seat.terms.digest != digest:
            raise Refused(f"{self.name}: agreed to other terms of this run")
        return seat

    def _speak(self, seat: Seat, call: Call, book: Any) -> bytes:
        value = seat.speak(call, book if isinstance(book, dict) else None)
        return pack({"run": seat.terms.run, "call": call.to_json()}, **{MESSAGE: value})

    def _finish(self, seat: Seat) -> bytes:
        """Learn from a run that is over, and say that it was heard of; not whether that worked.

        Whether a model can be learned from these rows and releases depends on the rows, and
        releases may have been made to find out.
        """
        place = self.model(seat.terms.run)
        if not place.exists():
            try:
                seat.finish(place)
                seat.forget()
            except (Refused, LedgerError, OSError, MemoryError):  # of releases, or this machine
                raise
            except Exception:
                _log.exception("%s: no model could be learned in this run", self.name)
        return pack({"finished": seat.terms.run})


def _text(header: dict[str, Any], name: str) -> str:
    value = header.get(name)
    if not isinstance(value, str):
        raise Refused(f"request: {name!r} is missing")
    return value


def _call(header: dict[str, Any]) -> Call:
    body = header.get("call")
    names = {"number", "round", "task", "turn"}
    if not isinstance(body, dict) or set(body) != names:
        raise Refused("request: names no call")
    given = {name: value for name, value in body.items() if name != "task" or value is not None}
    if not all(type(value) is int for value in given.values()):
        raise Refused("request: a call is whole numbers")
    return Call.from_json(body)


def locked(path: Path) -> int:
    """Take the folder's lock, which ends with the process; refuse a second process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Refused(
            f"{path.parent}: another process uses this site's files; stop it first"
        ) from None
    return descriptor
