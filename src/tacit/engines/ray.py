"""Tasks of one organisation on many machines: partitions in the processes of a Ray cluster.

Every partition is a `Batches` in an actor of its own. It hands the curator one exact partial sum a
call (or its tasks' releases, in order), so the curator's arithmetic, its one release a round, the
billboard and the ledger are those of one machine, to the bit.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tacit import _check
from tacit._files import write_whole
from tacit._types import AnyArray, Array
from tacit.engines.batches import Batches, clear_homes
from tacit.errors import InvalidInput
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.noise.entropy import Entropy, KeyedEntropy
from tacit.privacy.schedule import Call, Round, in_turn
from tacit.protocols.protocol import Protocol
from tacit.tasks import ParquetTasks, TaskSet

__all__ = ["Ray"]

Request = tuple[Call, Any, Round, Mechanism, AnyArray | None]

# Read when Ray is imported: without it Ray takes the machine's outer address for 127.0.0.1.
_LOOPBACK = ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
_AHEAD = 2  # pieces of finished models that a partition may hold ready


@dataclass(frozen=True)
class Ray:
    """Tasks in partitions on a Ray cluster; needs the extra ``cluster``.

    Parameters
    ----------
    address : str, optional
        ``host:port`` of a running cluster; by default the one this process is connected to, or one
        of this machine alone, on the loopback address and without a dashboard.
    workers : int, optional
        Number of partitions; by default one a processor of the cluster.
    max_rows : int, optional
        Largest batch of a partition, as for `Local`.
    homes : path, optional
        Folder of local checkpoints that every machine of the cluster sees at the same place.
    arrivals : bool
        Whether tasks that take turns apart are answered as their messages arrive, instead of round
        robin. The order is then that of the clock, not the same in two runs, and on the billboard:
        it shows how long tasks took. Such a run cannot be taken up again.
    deaths : int
        How many workers may die before the run gives up.

    Guarantee: as `Batches`. A worker that dies takes nothing with it: another one, on this machine
    or another, takes up its partition from the checkpoints or says again what it said, to nobody,
    with the same noise (from a key of the run), and then answers the call that was open. What had
    not arrived was not released, so nothing is released twice. The machines of the cluster, and
    whoever reads their traffic, see rows and unnoised sums: they are one organisation's, trusted
    like the curator. Parties that do not trust one machine use `tacit.federation`.
    """

    address: str | None = None
    workers: int | None = None
    max_rows: int | None = None
    homes: str | PathLike[str] | None = None
    arrivals: bool = False
    deaths: int = 20

    def __post_init__(self) -> None:
        for name in ("workers", "max_rows"):
            if getattr(self, name) is not None:
                _check.positive_integer(name, getattr(self, name), remedy="use None, or 4, say")

    def parties(
        self, protocol: Protocol[Any, Any], tasks: TaskSet | ParquetTasks, *, entropy: Entropy
    ) -> Partitions:
        """Return the homes of ``tasks``, in the cluster's processes."""
        workers = self.workers or _connected(self.address)
        if entropy.system and not isinstance(entropy, KeyedEntropy):
            # So that what is said again is the same.
            entropy = KeyedEntropy(KeyedEntropy.new())
        return Partitions(self, protocol, tasks, entropy, workers)


def _connected(address: str | None) -> int:
    """Return the number of processors of the cluster, connecting to it first."""
    if address is None and "ray" not in sys.modules:
        os.environ.setdefault(*_LOOPBACK)
    ray = _ray()
    if not ray.is_initialized():
        own = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        found = {"address": address} if address else own
        ray.init(log_to_driver=False, logging_level="ERROR", **found)
        if address is None and not ray.get_runtime_context().gcs_address.startswith("127.0.0.1:"):
            ray.shutdown()
            raise InvalidInput(
                'engine="ray": Ray was imported before and would listen beyond this machine; set '
                f"{'='.join(_LOOPBACK)} in the environment, or call ray.init(…) yourself"
            )
    return max(1, int(ray.cluster_resources().get("CPU", 1)))


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise InvalidInput(
            'engine="ray" needs Ray; install it with: pip install "tacit[cluster]"'
        ) from error
    return ray


class _Partition:
    """Consecutive tasks, in a process of their own."""

    def __init__(self, protocol: Protocol[Any, Any], tasks: Any, options: dict[str, Any]) -> None:
        self._homes = Batches(protocol, tasks, **options)

    def ask(
        self, call: Call, public: Any, round: Round, mechanism: Mechanism, joined: AnyArray | None
    ) -> AnyArray | None:
        """Return one exact sum, or the releases of the tasks that were asked; None of nobody."""
        with quiet_arithmetic():
            parts = list(self._homes.ask(call, public, round, mechanism, joined))
        if not parts:
            return None
        return np.concatenate(parts) if round.at_task else np.add.reduce(parts)

    def finish(self, public: Any, skip: int) -> Iterator[Array]:
        """Yield personal models, but for so many pieces that were handed out before."""
        with quiet_arithmetic():
            for number, piece in enumerate(self._homes.finish(public)):
                if number >= skip:
                    yield piece


class Partitions:
    """The homes of a run, one actor a partition."""

    def __init__(
        self,
        engine: Ray,
        protocol: Protocol[Any, Any],
        tasks: TaskSet | ParquetTasks,
        entropy: Entropy,
        workers: int,
    ) -> None:
        processors = _connected(engine.address)
        self._ray, self._engine, self._n_tasks = _ray(), engine, tasks.n_tasks
        # Workers have another working folder.
        homes = None if engine.homes is None else Path(engine.homes).absolute()
        self._cuts = _cuts(tasks, workers, homes, by_rows=not engine.arrivals)
        self._memory = homes
        self._protocol = self._ray.put(protocol)
        self._parts = [
            self._ray.put(tasks.take_tasks(slice(first, last)))
            if isinstance(tasks, TaskSet)
            else self._ray.put(tasks.part(first, last))
            for first, last in self._cuts
        ]
        self._options = {"entropy": entropy, "max_rows": engine.max_rows, "homes": homes}
        # More partitions than processors share them, instead of waiting for one for ever.
        share = min(1.0, math.floor(1000 * processors / len(self._cuts)) / 1000)
        self._actor = self._ray.remote(num_cpus=share, max_restarts=0)(_Partition)
        self._actors = [self._hired(number) for number in range(len(self._cuts))]
        self._said: list[list[Request]] = [[] for _ in self._cuts]
        self._open: dict[Any, tuple[int, int]] = {}  # by what is waited for: partition and call
        self._deaths = 0
        self._arrivals: _Arrivals | None = None

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self._n_tasks

    def order(self, rounds: Sequence[Round]) -> Collection[Call]:
        """Return every turn; of tasks that take turns apart round robin, or as they arrive."""
        if not self._engine.arrivals or not any(round.apart for round in rounds):
            return in_turn(rounds, self.n_tasks)
        if len(rounds) != 1:
            raise InvalidInput("arrivals=True: needs a conversation of one round; leave it out")
        self._arrivals = _Arrivals(self, rounds[0])
        return self._arrivals

    def ask(
        self, call: Call, public: Any, round: Round, mechanism: Mechanism, joined: AnyArray | None
    ) -> Iterator[AnyArray]:
        """Yield the partitions' sums as they arrive, or their tasks' releases in order."""
        if self._arrivals is not None:
            yield self._arrivals.message(public, round, mechanism)
            return
        self.request(call, public, round, mechanism, joined)
        found: dict[int, AnyArray] = {}
        while self._open:
            number, _, part = self.next()
            if part is not None and round.at_task:
                found[number] = part
            elif part is not None:
                yield part
        yield from (found[number] for number in sorted(found))

    def tell(self, call: Call, public: Any) -> None:
        """Go on with a task that was answered; others read the state when they are next asked."""
        if self._arrivals is not None:
            self._arrivals.answered(call, public)

    def finish(self, public: Any) -> Iterator[Array]:
        """Yield personal models, partition by partition; all work at once."""
        state = self._ray.put(public)
        pieces = {number: self._finishing(number, state, 0) for number in range(len(self._actors))}
        for number in range(len(self._actors)):
            taken = 0
            while True:
                try:
                    for piece in pieces[number]:
                        yield self._ray.get(piece)
                        taken += 1
                    break
                except self._ray.exceptions.RayTaskError as error:
                    raise error.cause from error
                except self._ray.exceptions.RayError as death:
                    self._revive(number, death)  # says again what homes must remember
                    pieces[number] = self._finishing(number, state, taken)

    def _finishing(self, number: int, state: Any, skip: int) -> Any:
        streamed = {"num_returns": "streaming", "_generator_backpressure_num_objects": _AHEAD}
        return self._actors[number].finish.options(**streamed).remote(state, skip)

    def _hired(self, number: int) -> Any:
        options = {**self._options, "first": self._cuts[number][0]}
        return self._actor.remote(self._protocol, self._parts[number], options)

    def request(
        self, call: Call, public: Any, round: Round, mechanism: Mechanism, joined: AnyArray | None
    ) -> None:
        """Ask everybody whom a call is for."""
        if self._memory is not None and call.number == 0 and round.posted:
            # Of another run. A partition sees to itself if it is asked first; where tasks take
            # turns apart, all but one are asked later, and would find what it remembered.
            clear_homes(self._memory, 0, self.n_tasks)
        request = (call, self._ray.put(public), round, mechanism, joined)
        for number, (first, last) in enumerate(self._cuts):
            if call.task is None or first <= call.task < last:
                if self._engine.homes is not None and self._arrivals is None:
                    self._said[number].clear()  # checkpoints know what was said before
                self._said[number].append(request)
                self._open[self._actors[number].ask.remote(*request)] = number, call.number

    def next(self) -> tuple[int, int, AnyArray | None]:
        """Wait for an answer, whoever dies meanwhile; return partition, call and answer."""
        if not self._open:
            raise InvalidInput(
                "arrivals=True: a run that was begun goes on round robin; leave it out"
            )
        while True:
            ready = self._ray.wait(list(self._open), num_returns=1)[0][0]
            number, call = self._open[ready]
            try:
                answer = self._ray.get(ready)
            except self._ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self._ray.exceptions.RayError as death:  # a worker, machine or answer
                self._revive(number, death)
            else:
                del self._open[ready]
                return number, call, answer

    def _revive(self, number: int, death: Exception) -> None:
        """Let another worker take up a partition, say again what was said, and go on."""
        self._deaths += 1
        if getattr(death, "has_creation_task_error", bool)():
            raise InvalidInput(f"a worker could not begin: {death}") from death
        if self._deaths > self._engine.deaths:
            raise InvalidInput(
                f"deaths={self._engine.deaths}: more workers than that have died, the last of "
                f"tasks {self._cuts[number][0]} to {self._cuts[number][1] - 1} ({death}); is there "
                "memory enough? use more workers or smaller batches (max_rows)"
            ) from death
        waiting = {call for of, call in self._open.values() if of == number}
        self._open = {ref: (of, call) for ref, (of, call) in self._open.items() if of != number}
        self._ray.kill(self._actors[number])  # where only its answer was lost
        self._actors[number] = self._hired(number)
        for request in self._said[number]:
            again = self._actors[number].ask.remote(*request)
            if request[0].number in waiting:
                self._open[again] = number, request[0].number


class _Arrivals:
    """The calls of a run in which tasks take turns apart, in the order of their messages.

    Every task has one request open. What arrives first is the next call; once it is read, that task
    alone is asked again. The first call is the first task's: with it come the public state and the
    noise that all the others are asked with.
    """

    def __init__(self, partitions: Partitions, round: Round) -> None:
        self._partitions, self._turns = partitions, round.turns
        self._taken = np.zeros(partitions.n_tasks, dtype=np.int64)
        self._here: dict[int, AnyArray] = {}
        self._ask: Callable[[int, Any], None] | None = None
        self._current = 0

    def __len__(self) -> int:
        return len(self._taken) * self._turns

    def __contains__(self, call: object) -> bool:
        return isinstance(call, Call) and call.round == 0 and call.turn < self._turns

    def __iter__(self) -> Iterator[Call]:
        for number in range(len(self)):
            if number:
                self._current = self._arrived() if not self._here else next(iter(self._here))
            yield Call(number, 0, self._current, int(self._taken[self._current]))

    def _arrived(self) -> int:
        """Wait for a message; return whose it is."""
        _, call, message = self._partitions.next()
        task = call % len(self._taken)
        if message is not None:
            self._here[task] = message
        return task

    def message(self, public: Any, round: Round, mechanism: Mechanism) -> AnyArray:
        """Return the message of the call at hand."""
        if self._ask is None:

            def ask(task: int, public: Any) -> None:
                turn = int(self._taken[task])
                call = Call(turn * len(self._taken) + task, 0, task, turn)
                self._partitions.request(call, public, round, mechanism, None)

            self._ask = ask
            for task in range(len(self._taken)):
                ask(task, public)
        while self._current not in self._here:
            self._arrived()
        return self._here.pop(self._current)

    def answered(self, call: Call, public: Any) -> None:
        """Ask a task whose message was read for its next one."""
        task = self._current
        self._taken[task] = call.turn + 1
        if self._taken[task] < self._turns and self._ask is not None:
            self._ask(task, public)


def _cuts(
    tasks: TaskSet | ParquetTasks, workers: int, kept: Path | None, *, by_rows: bool
) -> list[tuple[int, int]]:
    """Return first and last task of every partition, with about equally many rows, or tasks.

    A run that is taken up again has the partitions of its checkpoints.
    """
    noted = None if kept is None else kept / "partitions.json"
    if noted is not None and noted.exists():
        cuts = [(int(first), int(last)) for first, last in json.loads(noted.read_text())]
        ends = [0, *(last for _, last in cuts)]
        if ends[-1] != tasks.n_tasks or cuts != list(pairwise(ends)):
            raise InvalidInput(
                f"homes={kept}: holds another run's checkpoints; give an empty folder"
            )
        return cuts
    places = tasks.offsets if by_rows else np.arange(tasks.n_tasks + 1)
    shares = np.linspace(0, places[-1], min(workers, tasks.n_tasks) + 1)
    whole = np.unique(np.searchsorted(places, shares))
    cuts = [(int(first), int(last)) for first, last in pairwise(whole)]
    if noted is not None:
        noted.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(noted, json.dumps(cuts))
    return cuts
