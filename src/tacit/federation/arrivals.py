"""Asynchronous runs: the order of calls is that in which messages arrive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tacit._types import AnyArray
from tacit.privacy.billboard import Billboard
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round

if TYPE_CHECKING:
    from tacit.federation.sites import Sites

__all__ = ["Arrivals"]


class Arrivals:
    """The calls of a run in which sites take turns apart.

    Every site has one request outstanding. What arrives first is the next call; once it is posted
    and read, that site alone is answered, and asked again.

    A site that left is waited for until somebody has taken all turns and, where the terms say to go
    on, nobody has come for as long as a round waits; then the run is over, and stays so.

    Guarantee: whose message is a release is written down before the release is charged. A run taken
    up again repeats the calls that its billboard shows, then waits for the one that was settled.
    """

    def __init__(
        self,
        sites: Sites,
        names: tuple[str, ...],
        board: Billboard,
        round: Round,
        mechanism: Mechanism,
    ) -> None:
        self._sites, self._names, self._board = sites, names, board
        self._round, self._mechanism = round, mechanism
        self._taken = dict.fromkeys(names, 0)
        self._asked: set[str] = set()
        self._here: dict[str, AnyArray] = {}  # messages that wait for one that was settled
        self.message: AnyArray = np.empty(0)

    def __len__(self) -> int:
        return len(self._names) * self._round.turns

    def __contains__(self, call: object) -> bool:
        return isinstance(call, Call) and call.round == 0 and call.turn < self._round.turns

    def _call(self, name: str) -> Call:
        """Return a site's next call, numbered by the site's own turns."""
        turn = self._taken[name]
        return Call(turn, 0, self._names.index(name), turn)

    def answered(self, name: str) -> None:
        """Go on with a site whose message was read."""
        self._taken[name] += 1
        self._ask(name)

    def _ask(self, name: str) -> None:
        if self._taken[name] < self._round.turns:
            self._asked.add(name)
            self._sites.sent(name, self._call(name))

    def __iter__(self) -> Iterator[Call]:
        for posting in self._board:
            call = Call.from_json(posting.call)
            if call.task is not None:
                self._taken[self._names[call.task]] += 1
            yield call
        if self._sites.ended:
            return
        for name in self._names:
            self._ask(name)
        while self._asked or self._here:
            first = self._next()
            if first is None:
                self._sites.end()
                return
            self.message = self._here.pop(first)
            yield replace(self._call(first), number=len(self._board))

    @property
    def left(self) -> list[str]:
        """Who has not taken all turns."""
        return [name for name, taken in self._taken.items() if taken < self._round.turns]

    def _next(self) -> str | None:
        """Wait until the next release is there, and settle whose it is; None at the end."""
        number = len(self._board)
        settled = self._sites.next_at(number) if self._board.owes else None
        while not (self._here if settled is None else settled in self._here):
            may_end = settled is None and len(self.left) < len(self._names)
            found = self._sites.arrived(self._call, self._round, self._mechanism, may_end=may_end)
            if found is None:
                return None
            name, message = found
            self._asked.discard(name)
            self._here[name] = message
        name = settled or next(iter(self._here))
        self._sites.settle(number, name)
        return name
