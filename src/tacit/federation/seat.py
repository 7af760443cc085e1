"""A site's place in one run: its files, its ledger's reservation, what it said and what it read."""

from __future__ import annotations

import json
import shutil
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import whole_folder, write_whole
from tacit._types import AnyArray, Array
from tacit.engines import Batches, Checkpoint
from tacit.engines.conduct import charge_rest, history_of, read_on
from tacit.estimators._base import Found
from tacit.estimators._private import Conversation
from tacit.federation import sums
from tacit.federation.errors import Refused
from tacit.federation.gate import MESSAGE, check_message
from tacit.federation.terms import Terms
from tacit.federation.unfailing import Unfailing
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.billboard import Billboard, Posting
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import Mechanism, Shares
from tacit.privacy.schedule import Call, Round, in_turn
from tacit.tasks import TaskSet

__all__ = ["PEERS", "Seat", "Speaker"]

PEERS = "peers.json"  # whose key is which, in the site's own folder


class Seat(ABC):
    """One site in one run, from its files: new, or taken up again after any crash."""

    def __init__(self, folder: Path, terms: Terms, name: str) -> None:
        self.terms, self.name, self._folder = terms, name, folder
        self.staged = terms.staged()
        self._kept = _kept(folder, terms)
        self.board = Billboard.load(folder / "board")
        self._state, self._n_read = self.staged.protocol.opening(), 0

    def read(self, postings: bytes) -> int:
        """Take further postings of the public billboard in; return how many are known."""
        return self.board.take(postings) if postings else len(self.board)

    def _public(self) -> Any:
        """Return the public state that the postings read so far lead to."""
        new = [self.board[number] for number in range(self._n_read, len(self.board))]
        protocol, schedule = self.staged.protocol, self.staged.schedule
        for posting in new:
            self._check_posting(posting)
        self._state = read_on(protocol, schedule, self._state, new)
        self._n_read = len(self.board)
        return self._state

    def _check_posting(self, posting: Posting) -> None:
        """Refuse a release that states another price than the schedule: statements follow it."""
        try:
            number = posting.call["round"]
            round, mechanism = self.staged.schedule.rounds[number], self._mechanism(number)
        except (KeyError, IndexError, TypeError):
            raise Refused(f"{self.name}: release {posting.number} is of no call") from None
        stated = (posting.event, posting.unit, posting.sound, posting.seeded)
        if stated != (mechanism.event, round.unit, mechanism.sound, self.terms.seeded):
            raise Refused(
                f"{self.name}: release {posting.number} is stated as {posting.event}, and the "
                f"schedule has {mechanism.event}"
            )

    def _mechanism(self, number: int) -> Mechanism:
        return self.staged.schedule.mechanisms[number]

    def _at_the_end(self) -> Any:
        """Return the public state of a run that is over; refuse one that is not."""
        public = self._public()
        taken = {_key(Call.from_json(posting.call)) for posting in self.board}
        left = [call for call in in_turn(self.staged.schedule.rounds) if _key(call) not in taken]
        if left:
            raise Refused(f"{self.name}: the run is not over; {len(left)} turns are left")
        return public

    def _taken(self, learned: Found) -> None:
        """Give the estimator what was learned, and the names of the columns."""
        estimator = self.staged.estimator
        estimator.n_features_in_ = len(self.terms.features)
        estimator.feature_names_in_ = np.asarray(self.terms.features, dtype=object)
        estimator._take(learned, (self.name,))

    @abstractmethod
    def learned(self) -> Any:
        """Return the site's own fitted estimator, from its rows and what everybody can read."""

    def finish(self, place: Path) -> None:
        """Write the site's own model of a run that is over, with a report beside it."""
        estimator = self.learned()
        estimator.report(place.with_name("report.html"), party=self.name)
        with whole_folder(place) as stage:
            estimator.save(stage)

    def forget(self) -> None:
        """Forget the key of the site's noise and masks, once the site has what it learned."""
        self._kept.forget()

    def key(self, call: Call) -> dict[str, str]:
        """Return this site's signed key for one secure sum."""
        raise Refused(f"{self.name}: only listens in this run; call {call.number} is for others")

    def speak(self, call: Call, book: dict[str, Any] | None) -> AnyArray:  # noqa: ARG002
        """Return this site's message for a call: charged, written down, then handed out."""
        raise Refused(f"{self.name}: only listens in this run; call {call.number} is for others")


class Speaker(Seat):
    """A site that sends messages.

    Guarantee: every message is charged to the site's own ledger and written down, with its bytes,
    before it is handed out; for a call that was answered the same bytes come again, and a message
    that was charged and lost is made again, to the same bytes, from the seat's secret key. The
    outbox is a `Billboard` of the site's own, charged to the site's own reservation.
    """

    def __init__(
        self,
        folder: Path,
        terms: Terms,
        name: str,
        rows: TaskSet,
        ledger: Ledger,
        identity: sums.Identity | None,
    ) -> None:
        super().__init__(folder, terms, name)
        self._identity = identity
        self._position = terms.speakers.index(name)
        self._n_rows = terms.counts[self._position] if terms.counts is not None else None
        self._homes = self._made_homes(rows)
        self._keys = self._kept.entropy(None).child("mask keys")
        self._reservation = None
        schedule = self.staged.schedule
        if schedule.rounds:
            run = self._kept.run
            self._reservation = (
                ledger.resume(run, settled=True)
                if ledger.knows(run)
                else self.staged.estimator._reserved(ledger, schedule, self.staged.sizes, run)
            )
        self._outbox = Billboard.load(self._kept.folder / "releases", self._reservation)
        self._check_charged()
        self._said = {_key(Call.from_json(posting.call)): posting for posting in self._outbox}

    def _check_charged(self) -> None:
        """Refuse to go on if the ledger knows less than was said: it is an older copy."""
        marks = frozenset() if self._reservation is None else self._reservation.marks
        unknown = [posting for posting in self._outbox if posting.hash not in marks]
        if unknown:
            raise Refused(
                f"{self.name}: its ledger does not know {len(unknown)} messages of this run; "
                "restore the ledger and the run's files together"
            )

    def _made_homes(self, rows: TaskSet) -> Batches:
        entropy = self._kept.entropy(self.terms.settings.get("random_state"))
        return Batches(
            Unfailing(self.staged.protocol, rows),
            rows,
            entropy=entropy.child("homes"),
            homes=self._kept.homes,
            first=self._position,
        )

    def _round(self, call: Call) -> tuple[Round, Mechanism]:
        schedule = self.staged.schedule
        # Noise and masks are named by a call's number: two calls of one number would share them.
        if replace(call, task=None) not in in_turn(schedule.rounds):
            raise Refused(f"{self.name}: call {call.number} is none of the schedule's")
        if call.task not in (None, self._position):
            raise Refused(f"{self.name}: call {call.number} is for another site")
        return schedule.rounds[call.round], schedule.mechanisms[call.round]

    def _about(self, call: Call) -> bytes:
        return f"{self.terms.digest}|{call.number}".encode()

    def key(self, call: Call) -> dict[str, str]:
        """Return this site's signed key for one secure sum."""
        round, _ = self._round(call)
        if not round.distributed or self._identity is None:
            raise Refused(f"{self.name}: has no keys for round {round.name!r}")
        secret = sums.new_key(self._keys.child(call.number))
        return self._identity.signed(self._about(call), secret.public_key().public_bytes_raw())

    def speak(self, call: Call, book: dict[str, Any] | None) -> AnyArray:
        """Return this site's message for a call: charged, written down, then handed out."""
        round, mechanism = self._round(call)
        label = f"{round.name}: {mechanism.name}"
        if round.distributed:
            label += f" {sums.book_digest(book or {})}"
        before = self._said.get(_key(call))
        if before is not None:
            if before.call != call.to_json() or before.label != label:
                raise Refused(
                    f"{self.name}: round {round.name!r} was answered for another call or roster; "
                    "another roster is another run"
                )
            return before.value
        with quiet_arithmetic():
            message = self._made(call, round, mechanism, book)
        check_message(
            {"run": self.terms.run, "call": call.to_json()},
            {MESSAGE: message},
            run=self.terms.run,
            call=call,
            round=round,
            mechanism=mechanism,
            n_rows=self._n_rows,
        )
        self._said[_key(call)] = self._outbox.post(
            message,
            mechanism.event,
            label=label,
            sound=mechanism.sound,
            seeded=self.terms.seeded,
            unit=round.unit,
            call=call.to_json(),
        )
        return self._said[_key(call)].value

    def _made(
        self, call: Call, round: Round, mechanism: Mechanism, book: dict[str, Any] | None
    ) -> AnyArray:
        parts = list(self._homes.ask(call, self._public(), round, mechanism, None))
        value = parts[0][0] if round.at_task else np.sum(parts, axis=0)
        if not round.distributed:
            return np.asarray(value, dtype=np.float64)
        return self._hidden(call, value, mechanism, book or {})

    def _hidden(
        self, call: Call, value: Array, mechanism: Mechanism, book: dict[str, Any]
    ) -> AnyArray:
        if self._identity is None or not isinstance(mechanism, Shares):
            raise Refused(f"{self.name}: cannot take part in secure sums without keys of a kit")
        strangers = sorted(set(book) ^ set(self.terms.sites))
        if strangers:
            raise Refused(f"{self.name}: a sum is over all sites of the run, not {sorted(book)}")
        steps = sums.whole_steps(value, mechanism.step, len(book))
        secret = sums.new_key(self._keys.child(call.number))
        hidden = sums.masked(steps, secret, self._identity, book, self._about(call))
        self._check_peers(
            {name: sums.fingerprint(page["certificate"]) for name, page in book.items()}
        )
        return hidden

    def _check_peers(self, shown: dict[str, str]) -> None:
        """Refuse keys of sites that were others in an earlier sum; note those that are new.

        Whoever holds the root can sign keys of its own in everybody's name, and would learn what
        this site masks. It cannot do so later than in the first sum, nor unnoticed by sites that
        compare the file with each other.
        """
        path = self._folder.parent.parent / PEERS
        known: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        changed = sorted(name for name in shown if known.get(name, shown[name]) != shown[name])
        if changed:
            raise Refused(
                f"{self.name}: {changed[0]} shows another key than in earlier sums; ask there "
                f"whether it joined anew, then remove its line from {PEERS}"
            )
        if shown.keys() - known.keys():
            write_whole(path, json.dumps({**known, **shown}, indent=1, sort_keys=True) + "\n")

    def learned(self) -> Any:
        """Return the site's own fitted estimator, from its rows and what everybody can read."""
        schedule, sizes = self.staged.schedule, self.staged.sizes
        with quiet_arithmetic():
            public = self._at_the_end()
            models = np.concatenate(list(self._homes.finish(public)))
        estimator = self.staged.estimator
        statements = estimator._statements(schedule, self.board, sizes)
        history = history_of(schedule, self.board)
        run = Conversation(models, public, history, self.board, statements)
        estimator._sizes = estimator._public_sizes(sizes)
        self._taken(estimator._found(run, sizes))
        self._settle()
        return estimator

    def _settle(self) -> None:
        """Give back what was not used; not where the run ended early because of releases."""
        rounds = self.staged.schedule.rounds
        early = any(rounds[p.call["round"]].posted and not p.value.size for p in self.board)
        if early:
            charge_rest(self.staged.schedule, self._outbox, seeded=self.terms.seeded)
        if self._reservation is not None:
            self._reservation.close()


def _key(call: Call) -> tuple[int, int]:
    return call.round, call.turn


def _kept(folder: Path, terms: Terms) -> Checkpoint:
    """Return the seat's checkpoint; a folder that a crash left half made is made anew."""
    own = folder / "own"
    if not (folder / "terms.json").exists():
        # Nothing is reserved or said before the terms are written, so nothing is lost.
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "board").mkdir(parents=True, mode=0o700)
        kept = Checkpoint.begin(own)
        terms.save(folder / "terms.json")
        return kept
    if Terms.load(folder / "terms.json").digest != terms.digest:
        raise Refused("the run was agreed on with other terms; begin another run")
    return Checkpoint(own)
