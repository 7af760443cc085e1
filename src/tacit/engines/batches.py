"""Tasks on this machine: one stack, many batches, or a parquet file larger than memory."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import whole_folder, write_whole
from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.numerics.stacks import finite_models
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.bounds import RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.schedule import Call, Round, in_turn
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import ParquetTasks, TaskSet
from tacit.tasks._splits import runs_of_tasks

__all__ = ["Batches", "clear_homes"]

_ROW_NUMBERS = 1 << 23  # numbers of rows in a batch that is read from a file: 64 MB
_MESSAGE_NUMBERS = 1 << 23  # numbers of messages bounded at once: 64 MB


class Batches:
    """Homes in this process, a batch of tasks at a time.

    Parameters
    ----------
    tasks : TaskSet or ParquetTasks
        A task set is one stack unless ``max_rows`` cuts it; a parquet file is streamed, and what
        homes must remember between calls is kept in temporary files that only this user can read.
    entropy : Entropy
        Source of the noise that tasks add themselves.
    max_rows : int, optional
        Largest batch; by default a task set is one, and a file's hold about 64 MB of rows.
    homes : path, optional
        Folder of local checkpoints, for a run that may be taken up again.
    first : int
        Position of the first of these tasks among all tasks of the run.

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
        homes: str | PathLike[str] | None = None,
        first: int = 0,
    ) -> None:
        self._protocol, self._tasks, self._entropy = protocol, tasks, entropy
        self._max_rows, self._first = max_rows, first
        self._streamed = isinstance(tasks, ParquetTasks)
        kept = homes is not None or self._streamed
        self._shelf = _Shelf(None if homes is None else Path(homes)) if kept else None
        if self._shelf is not None:
            self._shelf.check(first, _identity(protocol, tasks))
        self._homes: dict[int, Any] = {}  # by first position

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self._tasks.n_tasks

    @property
    def _most(self) -> int:
        return self._max_rows or max(1, _ROW_NUMBERS // (self._tasks.n_features + 1))

    def _batches(self) -> Iterator[tuple[int, TaskSet]]:
        if isinstance(self._tasks, TaskSet) and self._max_rows is None:
            yield self._first, self._tasks
            return
        first = self._first
        for part in self._tasks.batches(self._most):
            yield first, part
            first += part.n_tasks

    def _visited(self, call: Call) -> Iterator[tuple[int, int, Any]]:
        """Yield first position, number of tasks and home of every batch, before ``call``."""
        if self._streamed and self._shelf is not None:
            runs = runs_of_tasks(self._tasks.offsets, self._most)
            cuts = [(self._first + first, self._first + last) for first, last in runs]
            if all(self._recalled(first, call) is not None for first, _ in cuts):
                for first, last in cuts:
                    yield first, last - first, self._recalled(first, call)
                return
        for first, rows in self._batches():
            if call.task is None or first <= call.task < first + rows.n_tasks:
                yield first, rows.n_tasks, self._home(first, rows, call)

    def _recalled(self, first: int, call: Call) -> Any:
        """Return the home of a batch that answers without its rows; None if there is none."""
        memory = None if self._shelf is None else self._shelf.get(first, call)
        return None if memory is None else self._protocol.recall(memory, call)

    def _home(self, first: int, rows: TaskSet, call: Call | None = None) -> Any:
        """Return a batch's home as it was before ``call``; None: at the end."""
        if first in self._homes:
            return self._homes[first]
        positions = np.arange(first, first + rows.n_tasks)
        memory = None if self._shelf is None else self._shelf.get(first, call)
        if memory is None:
            return self._protocol.start(rows, positions)
        return self._protocol.resume(rows, positions, memory)

    def _keep(self, first: int, home: Any, call: Call, before: dict[str, Array]) -> None:
        if not self._streamed:
            self._homes[first] = home
        memory = self._protocol.memory(home)
        # The very same memory lies on the shelf already, unless this was the first call.
        if self._shelf is not None and (memory is not before or not self._shelf.holds(first)):
            self._shelf.put(first, call, memory)

    def order(self, rounds: Sequence[Round]) -> tuple[Call, ...]:
        """Return every turn, of everybody or, where they take turns apart, round robin."""
        return in_turn(rounds, self.n_tasks)

    def ask(
        self, call: Call, public: Any, round: Round, mechanism: Mechanism, joined: AnyArray | None
    ) -> Iterator[AnyArray]:
        """Yield bounded partial sums (or the noised messages) of every batch."""
        if self._shelf is not None and call.number == 0 and round.posted:
            # Nothing was released yet: what lies there is of another run, maybe of other rows.
            self._shelf.clear(self._first, self._first + self.n_tasks)
        for first, count, home in self._visited(call):
            asked = _asked(call, first, count, joined)
            if asked is not None and not asked.any():
                continue
            members = np.arange(count) if asked is None else np.flatnonzero(asked)
            before = self._protocol.memory(home)
            home, said = self._protocol.speak(home, public, call, asked)
            _check_said(said, len(members), round)
            if round.at_task or round.distributed:
                bounded = self._bounded(said, round, call, first + members)
                noised = self._noised(bounded, mechanism, call, first + members)
                home = self._protocol.keep(home, noised, call) if round.at_task else home
                yield noised if round.at_task else noised.sum(axis=0)  # on one public step: exact
            else:
                yield from _sums(said, round)
            self._keep(first, home, call, before)

    def _bounded(
        self, messages: Array | RowMessages, round: Round, call: Call, places: IntArray
    ) -> Array:
        """Return what tasks may hand out: bounded messages, or their sums over bounded rows.

        Rows that toss coins whether to join do so here, each task's by its own source.
        """
        if not isinstance(messages, RowMessages):
            return round.bound(messages)
        if round.by_row:
            source = self._entropy.child("call", call.number)
            counts = np.diff(messages.offsets)
            joined = [
                round.cohort.draw(int(count), source.child("rows of task", int(place)))
                for count, place in zip(counts, places, strict=True)
            ]
            messages = messages.only(np.concatenate([np.asarray(coins) for coins in joined]))
        return round.bound.by_task(messages)

    def _noised(self, messages: Array, mechanism: Mechanism, call: Call, places: IntArray) -> Array:
        source = self._entropy.child("call", call.number)
        if source.system:
            # A source that a key repeats must not say the same to two parts of one call.
            part = source.child("from task", int(places[0])) if len(places) else source
            return mechanism.at_home(messages, part)
        # Repeatable noise is a task's own, so that it is the same wherever the task lives.
        parts = [
            mechanism.at_home(messages[[row]], source.child("task", int(place)))
            for row, place in enumerate(places)
        ]
        return np.concatenate(parts)

    def tell(self, call: Call, public: Any) -> None:
        """Do nothing: homes here read the public state when they are next asked."""

    def finish(self, public: Any) -> Iterator[Array]:
        """Yield the personal models of every batch."""
        for first, rows in self._batches():
            with quiet_arithmetic():
                models = finite_models(self._protocol.finish(self._home(first, rows), public))
            yield models


class _Shelf:
    """What homes remember after each call that changed it, by batch, on the disk.

    The memory before the last call stays, too: a run that is killed before it posted what homes
    said asks the same call again, and must hear the same.
    """

    def __init__(self, folder: Path | None) -> None:
        self._durable = folder is not None
        if folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="tacit-homes-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        else:
            self._folder = folder
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def check(self, first: int, identity: str) -> None:
        """Refuse memory of other tasks or of another protocol."""
        noted = self._folder / f"{first}.of"
        if not noted.exists():
            write_whole(noted, identity)
        elif noted.read_text() != identity:
            raise InvalidInput(
                f"homes={self._folder}: holds another run's checkpoints; give an empty folder"
            )

    def _numbers(self, first: int) -> list[int]:
        return sorted(int(part.name.split("-")[1]) for part in self._folder.glob(f"{first}-*"))

    def _place(self, first: int, number: int) -> Path:
        return self._folder / f"{first}-{number}"

    def holds(self, first: int) -> bool:
        return bool(self._numbers(first))

    def clear(self, first: int, last: int) -> None:
        clear_homes(self._folder, first, last)

    def put(self, first: int, call: Call, memory: dict[str, Array]) -> None:
        place = self._place(first, call.number)
        with whole_folder(place, durable=self._durable) as beside:
            for name, array in memory.items():
                np.save(beside / f"{name}.npy", array, allow_pickle=False)
        for number in [n for n in self._numbers(first) if n < call.number][:-1]:
            shutil.rmtree(self._place(first, number))

    def get(self, first: int, call: Call | None) -> dict[str, Array] | None:
        """Return the memory, mapped: what is not looked at is not read."""
        known = [n for n in self._numbers(first) if call is None or n < call.number]
        if not known:
            return None
        files = sorted(self._place(first, known[-1]).glob("*.npy"))
        return {file.stem: np.asarray(np.load(file, mmap_mode="c")) for file in files}


def clear_homes(folder: Path, first: int, last: int) -> None:
    """Forget what batches that begin from ``first`` to before ``last`` remember."""
    for place in folder.glob("[0-9]*-*"):
        if first <= int(place.name.split("-")[0]) < last:
            shutil.rmtree(place)


def _identity(protocol: Protocol[Any, Any], tasks: TaskSet | ParquetTasks) -> str:
    """Return what memory is bound to: the protocol, its rounds and the tasks' sizes."""
    rounds = [(round.name, round.shape, round.turns) for round in protocol.rounds()]
    named = repr((type(protocol).__qualname__, rounds)).encode()
    return hashlib.sha256(named + np.asarray(tasks.offsets).tobytes()).hexdigest()


def _check_said(messages: Array | RowMessages, count: int, round: Round) -> None:
    rows = isinstance(messages, RowMessages)
    if rows is not (round.unit is Unit.ROW):
        raise PrivacyLeak(
            f"round {round.name!r}: rows must speak where, and only where, the unit is"
        )
    if len(messages) != count:
        raise PrivacyLeak(
            f"round {round.name!r}: {count} tasks were asked, but {len(messages)} spoke; return "
            "the messages of those who joined"
        )


def _sums(messages: Array | RowMessages, round: Round) -> Iterator[Array]:
    """Yield exact partial sums of bounded messages, so many at a time as fit in memory."""
    if isinstance(messages, RowMessages):
        yield round.bound.by_task(messages).sum(axis=0)  # on one public step: exact again
        return
    size = max(1, _MESSAGE_NUMBERS // max(1, int(np.prod(round.sent))))
    for start in range(0, len(messages), size):
        yield round.bound.total(messages[start : start + size])


def _asked(call: Call, first: int, count: int, joined: AnyArray | None) -> AnyArray | None:
    """Return which tasks of a batch are asked; None for all of them."""
    if call.task is not None:
        return np.arange(first, first + count) == call.task
    return None if joined is None else np.asarray(joined[first : first + count])
