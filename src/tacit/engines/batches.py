"""Tasks on this machine: one stack, many batches, or a parquet file larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import PrivacyLeak
from tacit.numerics.stacks import finite_tasks
from tacit.privacy.bounds import RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.schedule import Call, Round
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import ParquetTasks, TaskSet

__all__ = ["Batches"]

_MESSAGE_NUMBERS = 1 << 23  # numbers of messages held at once: 64 MB


class Batches:
    """Homes in this process, a batch of tasks at a time.

    Parameters
    ----------
    tasks : TaskSet or ParquetTasks
        A task set is one stack unless ``max_rows`` cuts it; a parquet file is streamed, and only
        what homes must remember between calls is kept.
    entropy : Entropy
        Source of the noise that tasks add themselves.
    max_rows : int, optional
        Largest batch.

    Guarantee: a task's message and model are the same bits in any batch; bounded messages are
    multiples of a public step, so that partial sums add up exactly in any order. One task's
    numbers, whatever they are, neither stop the run nor make it warn: a message that is not finite
    counts as zero (`tacit.privacy.bounds`), and so does such a model.
    """

    def __init__(
        self,
        protocol: Protocol[Any, Any],
        tasks: TaskSet | ParquetTasks,
        *,
        entropy: Entropy,
        max_rows: int | None = None,
    ) -> None:
        self._protocol, self._tasks, self._entropy = protocol, tasks, entropy
        self._max_rows = max_rows
        self._streamed = isinstance(tasks, ParquetTasks)
        self._homes: dict[int, Any] = {}  # by first position: whole homes, or memories if streamed

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self._tasks.n_tasks

    def _batches(self) -> Iterator[tuple[int, TaskSet]]:
        if isinstance(self._tasks, TaskSet) and self._max_rows is None:
            yield 0, self._tasks
            return
        first = 0
        for part in self._tasks.batches(self._max_rows or 1_000_000):
            yield first, part
            first += part.n_tasks

    def _home(self, first: int, rows: TaskSet) -> Any:
        positions = np.arange(first, first + rows.n_tasks)
        kept = self._homes.get(first)
        if kept is None:
            return self._protocol.start(rows, positions)
        return self._protocol.resume(rows, positions, kept) if self._streamed else kept

    def _keep(self, first: int, home: Any) -> None:
        self._homes[first] = self._protocol.memory(home) if self._streamed else home

    def ask(
        self, call: Call, public: Any, round: Round, mechanism: Mechanism, joined: AnyArray | None
    ) -> Iterator[AnyArray]:
        """Yield a bounded partial sum (or the noised messages) of every batch."""
        for first, rows in self._batches():
            asked = _asked(call, first, rows.n_tasks, joined)
            if asked is not None and not asked.any():
                continue
            home, noised = self._home(first, rows), []
            for part in _chunks(asked, rows.n_tasks, round):
                home, messages = self._protocol.speak(home, public, call, part)
                bounded = _of_members(_bounded(messages, round), part, rows.n_tasks)
                if round.at_task:
                    members = np.arange(rows.n_tasks) if part is None else np.flatnonzero(part)
                    bounded = self._noised(bounded, mechanism, call, first + members)
                    noised.append(bounded)
                    yield bounded
                elif round.unit is Unit.ROW:
                    yield bounded.sum(axis=0)  # sums of rows on one public step: exact again
                else:
                    yield round.bound.aggregate(bounded)
            if noised:
                home = self._protocol.keep(home, np.concatenate(noised), call)
            self._keep(first, home)

    def _noised(self, messages: Array, mechanism: Mechanism, call: Call, places: IntArray) -> Array:
        source = self._entropy.child("call", call.number)
        if source.system:
            return np.asarray(mechanism.release(messages, source).value)
        # Repeatable noise is a task's own, so that it is the same wherever the task lives.
        parts = [
            mechanism.release(messages[[row]], source.child("task", int(place))).value
            for row, place in enumerate(places)
        ]
        return np.concatenate(parts)

    def tell(self, call: Call, public: Any) -> None:
        """Do nothing: homes here read the public state when they are next asked."""

    def finish(self, public: Any) -> Iterator[Array]:
        """Yield the personal models of every batch."""
        for first, rows in self._batches():
            models = self._protocol.finish(self._home(first, rows), public)
            finite = finite_tasks(models).reshape(-1, *(1,) * (models.ndim - 1))
            yield np.where(finite, models, 0.0)


def _bounded(messages: Array | RowMessages, round: Round) -> Array:
    """Return what tasks may hand out: bounded messages, or their sums over bounded rows."""
    if isinstance(messages, RowMessages) and round.unit is Unit.ROW:
        return round.bound.by_task(messages)
    if isinstance(messages, RowMessages) or round.unit is Unit.ROW:
        raise PrivacyLeak(
            f"round {round.name!r}: rows must speak where, and only where, the unit is"
        )
    return round.bound(messages)


def _of_members(messages: Array, part: AnyArray | None, count: int) -> Array:
    """Return the messages of those asked; a protocol may have worked all of the batch out.

    Guarantee: a task enters one part, so its message is counted once, and not at all if it is in
    no cohort.
    """
    members = count if part is None else int(np.sum(part))
    if len(messages) == members:
        return messages
    if part is None or len(messages) != count:
        raise PrivacyLeak(f"{members} tasks were asked, and {len(messages)} answered")
    return messages[part]


def _asked(call: Call, first: int, count: int, joined: AnyArray | None) -> AnyArray | None:
    """Return which tasks of a batch are asked; None for all of them."""
    if call.task is not None:
        return np.arange(first, first + count) == call.task
    return None if joined is None else np.asarray(joined[first : first + count])


def _chunks(asked: AnyArray | None, count: int, round: Round) -> Iterator[AnyArray | None]:
    """Cut those asked into parts whose messages fit in memory."""
    size = max(1, _MESSAGE_NUMBERS // max(1, int(np.prod(round.sent))))
    if asked is None and count <= size:
        yield None
        return
    members = np.arange(count) if asked is None else np.flatnonzero(asked)
    for start in range(0, len(members), size):
        part = np.zeros(count, dtype=bool)
        part[members[start : start + size]] = True
        yield part
