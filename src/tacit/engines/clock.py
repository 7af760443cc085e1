"""A clock: who speaks when, with delays, stragglers, drop-outs and returns, all by chance and seed.

Delays are public facts of the network and never of the rows, so that a run's whole timetable is
known before it begins; `Clock.timeline` returns it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import Array, IntArray
from tacit.engines.batches import Batches
from tacit.errors import InvalidInput
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.schedule import Call, Round, in_turn
from tacit.protocols.protocol import Protocol
from tacit.tasks import ParquetTasks, TaskSet

__all__ = ["Away", "Clock", "Delay", "Timeline"]


@dataclass(frozen=True)
class Delay:
    """How long a task takes from an answer to its next message.

    Parameters
    ----------
    law : "fixed", "uniform" or "heavy"
        Always ``high``; uniform between ``low`` and ``high``; or Pareto above ``low`` with the
        given tail, of mean ``low · tail / (tail − 1)``.
    """

    law: str = "uniform"
    low: float = 0.0
    high: float = 15.0
    tail: float = 1.5

    def __post_init__(self) -> None:
        _check.one_of("law", self.law, ("fixed", "uniform", "heavy"))
        _check.non_negative("low", self.low, remedy="give a time, in milliseconds, say")
        _check.positive("high", self.high, remedy="give a time, in milliseconds, say")
        _check.positive("tail", self.tail, remedy="use 1.5; smaller is heavier")
        if self.law == "uniform" and self.low > self.high:
            raise InvalidInput(f"low={self.low!r}: must be at most high={self.high!r}")
        if self.law == "heavy" and self.low == 0:
            raise InvalidInput("low=0.0: a heavy tail needs a shortest delay; use 1.0, say")

    def draw(self, rng: np.random.Generator, size: int) -> Array:
        """Return delays."""
        if self.law == "fixed":
            return np.full(size, float(self.high))
        if self.law == "uniform":
            return rng.uniform(self.low, self.high, size)
        return np.asarray(self.low * (1 + rng.pareto(self.tail, size)))


@dataclass(frozen=True)
class Away:
    """A task that leaves at a time, and returns at another or never."""

    leaves: float
    returns: float = math.inf

    def __post_init__(self) -> None:
        if not 0 <= self.leaves < self.returns:
            raise InvalidInput(
                f"leaves={self.leaves!r}, returns={self.returns!r}: must be in this order, from 0"
            )


@dataclass(frozen=True)
class Timeline:
    """Everything that happens, in order of arrival.

    Attributes
    ----------
    calls
        What is asked, of whom.
    time
        When each message arrives.
    staleness
        How many messages of others the server had taken in since it last answered the sender.
    """

    calls: tuple[Call, ...]
    time: Array
    staleness: IntArray
    n_tasks: int

    @property
    def tasks(self) -> IntArray:
        """Who sent each message; −1 for everybody."""
        return np.array([-1 if call.task is None else call.task for call in self.calls])

    def messages(self, until: float = math.inf) -> IntArray:
        """Return how many messages each task had sent by then: the turns of its budget."""
        sent = self.tasks[self.time <= until]
        alone = np.bincount(sent[sent >= 0], minlength=self.n_tasks)
        return np.asarray(alone + np.sum(sent < 0))

    def spent(self, course: Sequence[tuple[float, float]], until: float = math.inf) -> Array:
        """Return the ε that each task's rows had spent by then, (m,).

        ``course`` is `Schedule.course`: what turns cost alone and together.
        """
        totals = np.array([0.0, *(total for _, total in course)])
        return np.asarray(totals[self.messages(until)])

    def within(self, until: float) -> int:
        """Return how many messages had arrived by then."""
        return int(np.searchsorted(self.time, until, side="right"))


@dataclass(frozen=True)
class Clock:
    """Tasks on this machine that speak in the order of a simulated network.

    Parameters
    ----------
    delay : Delay
        Of every task, unless it has its own.
    stragglers : mapping of positions to factors
        Tasks whose delays are so many times as long.
    away : mapping of positions to `Away`
        Tasks that leave, and may return. Who never returns leaves turns unused; everybody's last
        release stays with the server.
    synchronous : bool
        Every turn waits for everybody who is there: the order the asynchronous one is compared
        with, on the same delays.
    seed : int
        Of the delays. It has nothing to do with the noise.
    max_rows : int, optional
        As in `tacit.engines.Local`.

    Guarantee: the order of calls is a function of these parameters and public sizes, so that it
    tells nothing of any row; the noise is that of `Batches`.
    """

    delay: Delay = field(default_factory=Delay)
    stragglers: Mapping[int, float] = field(default_factory=dict)
    away: Mapping[int, Away] = field(default_factory=dict)
    synchronous: bool = False
    seed: int = 0
    max_rows: int | None = None

    def __post_init__(self) -> None:
        for factor in self.stragglers.values():
            _check.positive("stragglers", factor, remedy="give a factor of the delay, 10.0, say")
        if self.synchronous and self.away:
            raise InvalidInput(
                "away: who leaves would stop everybody; use synchronous=False, or nobody away"
            )

    def parties(
        self, protocol: Protocol[Any, Any], tasks: TaskSet | ParquetTasks, *, entropy: Entropy
    ) -> ClockParties:
        """Return the homes of ``tasks``, in this process."""
        strangers = [at for at in (*self.stragglers, *self.away) if not 0 <= at < tasks.n_tasks]
        if strangers:
            raise InvalidInput(
                f"task {strangers[0]}: there are {tasks.n_tasks}, counted from 0; name tasks of "
                "stragglers and away by their position"
            )
        return ClockParties(self, protocol, tasks, entropy=entropy, max_rows=self.max_rows)

    def timeline(self, rounds: Sequence[Round], n_tasks: int, *, burst: int = 1) -> Timeline:
        """Return a run's timetable.

        Parameters
        ----------
        burst : int
            Messages that a task sends at once, one after the other (its local steps).
        """
        if not any(round.apart for round in rounds) or self.synchronous:
            return self._together(rounds, n_tasks, burst)
        if len(rounds) != 1:
            raise InvalidInput("rounds: tasks come as they like in a conversation of one round")
        return self._apart(rounds[0], n_tasks, burst)

    def _delays(self, n_tasks: int, turns: int) -> Array:
        """Return the delays before each turn, (m, turns)."""
        rng = np.random.default_rng(self.seed)
        drawn = self.delay.draw(rng, n_tasks * turns).reshape(n_tasks, turns)
        for at, factor in self.stragglers.items():
            drawn[at] *= factor
        return drawn

    def _together(self, rounds: Sequence[Round], n_tasks: int, burst: int) -> Timeline:
        calls = in_turn(rounds)
        slowest = self._delays(n_tasks, math.ceil(len(calls) / burst)).max(axis=0)
        time = np.cumsum(slowest)[np.arange(len(calls)) // burst]
        return Timeline(calls, time, np.zeros(len(calls), dtype=np.int64), n_tasks)

    def _apart(self, round: Round, n_tasks: int, burst: int) -> Timeline:
        delays = self._delays(n_tasks, math.ceil(round.turns / burst))
        due = [(self._arrival(t, 0.0, delays[t, 0]), t, 0) for t in range(n_tasks)]
        heapq.heapify(due)
        calls: list[Call] = []
        times: list[float] = []
        stale: list[int] = []
        answered = np.zeros(n_tasks, dtype=np.int64)
        while due:
            now, task, visit = heapq.heappop(due)
            if math.isinf(now):
                break
            first = visit * burst
            for turn in range(first, min(first + burst, round.turns)):
                stale.append(len(calls) - int(answered[task]))
                calls.append(Call(len(calls), 0, task, turn))
                times.append(now)
                answered[task] = len(calls)
            if visit + 1 < delays.shape[1]:
                later = self._arrival(task, now, float(delays[task, visit + 1]))
                heapq.heappush(due, (later, task, visit + 1))
        return Timeline(tuple(calls), np.array(times), np.array(stale, dtype=np.int64), n_tasks)

    def _arrival(self, task: int, now: float, delay: float) -> float:
        """Return when a message arrives; who is away by then sends it on returning."""
        at, away = now + delay, self.away.get(task)
        if away is not None and away.leaves <= at < away.returns:
            return away.returns
        return at


class ClockParties(Batches):
    """Homes in this process, asked in a clock's order."""

    def __init__(
        self,
        clock: Clock,
        protocol: Protocol[Any, Any],
        tasks: TaskSet | ParquetTasks,
        *,
        entropy: Entropy,
        max_rows: int | None,
    ) -> None:
        super().__init__(protocol, tasks, entropy=entropy, max_rows=max_rows)
        self._clock = clock
        self._burst = int(getattr(protocol, "local_steps", 1))

    def order(self, rounds: Sequence[Round]) -> tuple[Call, ...]:
        """Return the calls in order of arrival."""
        return self._clock.timeline(rounds, self.n_tasks, burst=self._burst).calls
