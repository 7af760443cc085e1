"""Sites as parties: a run's homes are elsewhere, and everything goes through a post."""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import write_whole
from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.federation import sums
from tacit.federation.arrivals import Arrivals
from tacit.federation.errors import Interrupted, Refused
from tacit.federation.gate import check_message, most_bytes
from tacit.federation.terms import Terms
from tacit.federation.wire import pack, unpack
from tacit.privacy.billboard import Billboard
from tacit.privacy.mechanisms import Mechanism, Shares
from tacit.privacy.schedule import Call, Round, in_turn
from tacit.privacy.unit import Unit

__all__ = ["Answer", "Post", "Sites", "Watch", "opened"]

Answer = bytes | Refused | Interrupted
Watch = Callable[[str, str], None]  # a site and what became of it


def opened(answer: Answer, most: int) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return what a site answered, or raise what it, or the post, said instead."""
    if isinstance(answer, Refused | Interrupted):
        raise answer
    return unpack(answer, most=most)


def _said(error: Refused | Interrupted) -> str:
    return f"refused: {error}" if isinstance(error, Refused) else f"failed: {error}"


class Post(typing.Protocol):
    """What carries requests to sites and their answers back; one outstanding request a site."""

    def ask(
        self, task: str, requests: dict[str, bytes], seconds: float
    ) -> Iterator[tuple[str, Answer]]:
        """Yield every site's answer as it arrives, until all have come or ``seconds`` are over.

        Answers to earlier requests are dropped. Closing the iterator gives the others up.
        """
        ...

    def send(self, task: str, site: str, request: bytes) -> None:
        """Send one request; the answer comes by `receive`."""
        ...

    def receive(self, seconds: float) -> tuple[str, Answer] | None:
        """Return the next answer to a request that was sent, or None if none came in time."""
        ...


class Sites:
    """The parties of a federated run (`tacit.engines.conduct.Parties`).

    Guarantee: an answer counts only if the gate lets it pass; anything else (NaN, another shape or
    round, further fields, too long, late, twice) is as if the site had not answered. Who counts in
    a release is written down before the release is charged, so that a run taken up again makes the
    same one.
    """

    def __init__(
        self, terms: Terms, post: Post, billboard: Billboard, folder: Path, *, watch: Watch
    ) -> None:
        self._terms, self._post, self._board = terms, post, billboard
        self._folder, self._watch = folder, watch
        self._known = dict.fromkeys(terms.sites, 0)
        self._arrivals: Arrivals | None = None
        folder.mkdir(exist_ok=True)

    @property
    def n_tasks(self) -> int:
        """Number of sites that speak."""
        return len(self._terms.speakers)

    def knows(self, site: str, count: int) -> None:
        """Note how many postings a site has read."""
        self._known[site] = count

    def order(self, rounds: Sequence[Round]) -> Collection[Call]:
        """Return every turn of everybody; where tasks take turns apart, as messages arrive."""
        if not any(round.apart for round in rounds):
            return in_turn(rounds)
        if len(rounds) != 1:
            raise InvalidInput("rounds: sites come as they like in a conversation of one round")
        mechanism = self._terms.staged().schedule.mechanisms[0]
        self._arrivals = Arrivals(self, self._terms.sites, self._board, rounds[0], mechanism)
        return self._arrivals

    def ask(
        self,
        call: Call,
        public: Any,  # noqa: ARG002 - sites read the billboard themselves
        round: Round,
        mechanism: Mechanism,
        joined: AnyArray | None,
    ) -> Iterator[AnyArray]:
        """Yield the messages of those who answered, or all sites' releases in order."""
        if self._arrivals is not None:
            yield self._arrivals.message[None]
            return
        if call.number < len(self._board):  # said before a restart; sites have kept it
            return
        names = [
            name
            for position, name in enumerate(self._terms.speakers)
            if (joined is None or joined[position]) and call.task in (None, position)
        ]
        # A roster binds once its release was charged; before that another may take its place.
        settled = self._settled(call) if self._board.owes else None
        names = names if settled is None else [name for name in names if name in settled]
        got = self._messages(call, round, mechanism, names, patient=settled is not None)
        if settled is None:
            write_whole(self._roster(call), json.dumps(sorted(got)))
        if round.distributed:
            yield self._summed(got, mechanism)
        elif round.at_task:
            nobody = np.zeros(round.shape)  # as in a sum: who is missing says zero
            asked = self._terms.speakers if call.task is None else names
            yield np.stack([got.get(name, nobody) for name in asked])
        else:
            yield from got.values()

    def _messages(
        self, call: Call, round: Round, mechanism: Mechanism, names: list[str], *, patient: bool
    ) -> dict[str, AnyArray]:
        """Return the messages that came; raise `Interrupted` where the terms say to stop."""
        book = self._book(call, names) if round.distributed else None
        got: dict[str, AnyArray] = {}
        for name, (header, arrays) in self._asked(
            "speak", names, call=call.to_json(), book=book, most=most_bytes(round)
        ):
            try:
                got[name] = check_message(
                    header,
                    arrays,
                    run=self._terms.run,
                    call=call,
                    round=round,
                    mechanism=mechanism,
                    n_rows=self._rows_of(name, round),
                )
                self._watch(name, f"answered round {call.number + 1}")
            except Refused as refusal:
                self._watch(name, _said(refusal))
        missing = [name for name in names if name not in got]
        go_on = self._terms.late == "go on" and not round.distributed and not patient
        if missing and (not go_on or not got):
            raise Interrupted(f"round {call.number + 1}: no answer from {', '.join(missing)}")
        for name in missing:
            self._watch(name, f"missing in round {call.number + 1}; the run goes on")
        return {name: got[name] for name in names if name in got}

    def _rows_of(self, name: str, round: Round) -> int | None:
        if round.unit is not Unit.ROW or self._terms.counts is None:
            return None
        return self._terms.counts[self._terms.speakers.index(name)]

    def _asked(
        self, task: str, names: list[str], *, most: int, **facts: Any
    ) -> Iterator[tuple[str, tuple[dict[str, Any], dict[str, AnyArray]]]]:
        """Yield what sites answered to a task, once each has read the billboard."""
        waiting = list(names)
        for _ in range(2):  # a site that lost postings says how many it has, and is told the rest
            behind = []
            requests = {name: self._request(name, facts) for name in waiting}
            for name, answer in self._post.ask(task, requests, self._terms.deadline):
                try:
                    header, arrays = opened(answer, most)
                except (Refused, Interrupted) as error:
                    self._watch(name, _said(error))
                    continue
                if self._is_behind(name, header):
                    behind.append(name)
                    continue
                self._known[name] = len(self._board)
                yield name, (header, arrays)
            waiting = behind
            if not waiting:
                return

    def _is_behind(self, name: str, header: dict[str, Any]) -> bool:
        """Note how far a site is that lost postings; whether it said so instead of answering."""
        known = header.get("known")
        if set(header) != {"known"} or type(known) is not int or known < 0:
            return False
        self._known[name] = min(known, len(self._board))
        return True

    def _request(self, name: str, facts: dict[str, Any]) -> bytes:
        first = self._known[name]
        header = {
            "run": self._terms.run,
            "terms": self._terms.digest,
            "known": len(self._board),
            **{key: value for key, value in facts.items() if value is not None},
        }
        if first >= len(self._board):
            return pack(header)
        postings = np.frombuffer(self._board.packed(first), dtype=np.uint8)
        return pack(header, postings=postings)

    # -- secure sums -----------------------------------------------------------------------------

    def _book(self, call: Call, names: list[str]) -> dict[str, Any]:
        book = {}
        for name, (header, arrays) in self._asked("key", names, call=call.to_json(), most=1 << 16):
            if set(header) == {"page"} and not arrays:
                book[name] = header["page"]
        missing = [name for name in names if name not in book]
        if missing:
            raise Interrupted(f"round {call.number + 1}: no key from {', '.join(missing)}")
        return book

    def _summed(self, got: dict[str, AnyArray], mechanism: Mechanism) -> Array:
        if not isinstance(mechanism, Shares):
            raise Refused(f"mechanism {mechanism.name!r}: has no grid on which sums are exact")
        return sums.total(list(got.values()), mechanism.step)

    # -- who counts ------------------------------------------------------------------------------

    def _roster(self, call: Call) -> Path:
        return self._folder / f"{call.number:08d}.json"

    def _settled(self, call: Call) -> set[str] | None:
        path = self._roster(call)
        return set(json.loads(path.read_text())) if path.exists() else None

    def absent(self) -> dict[int, list[str]]:
        """Return who was missing in which release."""
        found = {}
        for path in sorted(self._folder.glob("*.json")):
            there = set(json.loads(path.read_text()))
            gone = [name for name in self._terms.speakers if name not in there]
            if gone:
                found[int(path.stem)] = gone
        return found

    def tell(self, call: Call, public: Any) -> None:  # noqa: ARG002
        """Answer the one site that spoke; others read the billboard with the next request."""
        if self._arrivals is not None and call.task is not None:
            self._arrivals.answered(self._terms.sites[call.task])

    def next_at(self, number: int) -> str | None:
        """Return whose message was settled to be release ``number``, if any was."""
        path = self._folder / f"{number:08d}.next"
        return path.read_text() if path.exists() else None

    def settle(self, number: int, name: str) -> None:
        """Write down whose message is release ``number``, before it is charged."""
        write_whole(self._folder / f"{number:08d}.next", name)

    def sent(self, name: str, call: Call) -> None:
        """Send one site a call, with the postings that it lacks."""
        self._post.send("speak", name, self._request(name, {"call": call.to_json()}))

    @property
    def ended(self) -> bool:
        """Whether a run in which sites come as they like was ended without some of them."""
        return (self._folder / "ended").exists()

    def end(self) -> None:
        """Write down that the run is over, though some sites had turns left."""
        write_whole(self._folder / "ended", "")

    def left(self) -> list[str]:
        """Return who left before its last turn, where sites come as they like."""
        return [] if self._arrivals is None else self._arrivals.left

    def arrived(
        self,
        call_of: Callable[[str], Call],
        round: Round,
        mechanism: Mechanism,
        *,
        may_end: bool,
    ) -> tuple[str, AnyArray] | None:
        """Wait for the next message; if none comes within the deadline, end or interrupt the run.

        None is for a run that ``may_end`` and whose terms say to go on.
        """
        while True:
            found = self._post.receive(self._terms.deadline)
            if found is None and may_end and self._terms.late == "go on":
                return None
            if found is None:
                raise Interrupted("no site answered within the deadline")
            name, answer = found
            try:
                header, arrays = opened(answer, most_bytes(round))
                if self._is_behind(name, header):
                    self.sent(name, call_of(name))
                    continue
                value = check_message(
                    header,
                    arrays,
                    run=self._terms.run,
                    call=call_of(name),
                    round=round,
                    mechanism=mechanism,
                    n_rows=self._rows_of(name, round),
                )
            except (Refused, Interrupted) as error:
                self._watch(name, _said(error))
                if self._terms.late != "go on":
                    raise Interrupted(f"{name}: {error}") from None
                continue  # without it: it is not asked again in this attempt
            self._watch(name, f"took turn {call_of(name).turn + 1}")
            return name, value

    def finish(self, public: Any) -> Iterator[Array]:  # noqa: ARG002
        """Yield nothing: personal models stay at the sites; see `told_the_end`."""
        return iter(())

    def told_the_end(self) -> list[str]:
        """Hand the last releases to every site; return those who were not there.

        They learn the end, and get their models, in a later attempt.
        """
        done = set()
        for name, (header, _) in self._asked("finish", list(self._terms.sites), most=1 << 16):
            if header == {"finished": self._terms.run}:
                self._watch(name, "has all releases")
                done.add(name)
        return [name for name in self._terms.sites if name not in done]
