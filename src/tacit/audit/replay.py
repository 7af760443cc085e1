"""Record and replay: does what reaches the mechanism move by no more than is declared?

A protocol is run on one data set; its releases are recorded and fed, unchanged, to a second run on
a neighbouring data set. With the noise frozen like this the two runs may differ only in what the
changed task says, and the aggregate may differ by no more than the sensitivity that the mechanism
was calibrated for. This finds wrong proofs, without a single statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tacit._types import Array
from tacit.audit.neighbours import changed_task, climb
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.bounds import RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.noise.entropy import Entropy, SeededEntropy
from tacit.privacy.schedule import Call, Schedule, in_turn
from tacit.privacy.unit import Adjacency, Norm, Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = [
    "ReplayResult",
    "Replayed",
    "Staged",
    "StagedFrom",
    "change_in",
    "declared_sensitivity",
    "replay",
    "replay_estimator",
    "search",
    "staged_by",
]


class Staged(NamedTuple):
    """A protocol with the schedule that it is run under."""

    protocol: Protocol[Any, Any]
    schedule: Schedule


StagedFrom = Callable[[TaskSet], Staged]

# Sums are exact, but norms of their difference are not.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class ReplayResult:
    """How far two neighbouring runs came apart while hearing the same releases.

    Attributes
    ----------
    changes, declared
        By round: how far the aggregates are apart, and the sensitivity the mechanism declares.
    norms
        By round: the norm both are measured in.
    leaks
        What else differed although it may not: the words of every finding.

    Guarantee: ``violated`` is a proof for this pair of data sets (up to floating-point rounding);
    its absence says that this pair, not that every pair, is within the declaration.
    """

    changes: tuple[float, ...]
    declared: tuple[float, ...]
    norms: tuple[Norm, ...]
    leaks: tuple[str, ...] = field(default=())

    @property
    def ratios(self) -> tuple[float, ...]:
        """True over declared sensitivity, by round."""
        return tuple(
            change / limit if limit > 0 else (0.0 if change == 0 else float("inf"))
            for change, limit in zip(self.changes, self.declared, strict=True)
        )

    @property
    def worst(self) -> float:
        """The largest ratio of all rounds."""
        return max(self.ratios, default=0.0)

    @property
    def violated(self) -> bool:
        """Whether a declared sensitivity was exceeded or something else leaked."""
        return bool(self.leaks) or self.worst > 1.0 + _ROUNDING

    def check(self) -> None:
        """Raise `PrivacyLeak` if the declaration does not hold."""
        if self.leaks:
            raise PrivacyLeak("; ".join(self.leaks))
        if self.violated:
            t = int(np.argmax(self.ratios))
            raise PrivacyLeak(
                f"round {t + 1}: the aggregate moved by {self.changes[t]:.6g} in {self.norms[t]} "
                f"norm, {self.ratios[t]:.4g} times the declared {self.declared[t]:.6g}; "
                "tighten the bound or declare the true sensitivity"
            )


def declared_sensitivity(mechanism: Mechanism) -> tuple[Norm, float]:
    """Return the norm and the sensitivity a mechanism was built for."""
    if np.isinf(mechanism.reach):
        raise InvalidInput(
            f"mechanism={mechanism!r}: declares no sensitivity; replay a run that adds noise"
        )
    return mechanism.norm, mechanism.reach


def change_in(norm: Norm, difference: Array) -> float:
    """Return the norm of a change of the aggregate."""
    if norm is Norm.L1:
        return float(np.sum(np.abs(difference)))
    if norm is Norm.TRACE:
        return float(np.sum(np.linalg.svd(difference, compute_uv=False)))
    return float(np.linalg.norm(difference))


def replay(
    staged_from: StagedFrom, tasks: TaskSet, neighbour: TaskSet, *, random_state: int = 0
) -> ReplayResult:
    """Run a protocol on ``tasks``, replay its releases on ``neighbour``, and compare.

    Parameters
    ----------
    staged_from
        Builds protocol and schedule from a task set; it is called once for each of the two, so
        that anything calibrated from private data shows. ``lambda tasks: staged`` for a fixed one.
    tasks, neighbour
        Two task sets with the same task names that differ in one task's data (for a protocol
        whose unit is the row: in one row). Under add-or-remove and zero-out adjacency the changed
        task says nothing (a zero message) in the second run, whatever its data.
    random_state
        Seed of the recorded noise.

    Returns
    -------
    ReplayResult
        Changes against declared sensitivities, and leaks: mechanisms or numbers of rounds that
        depend on the data, messages or models of *other* tasks that changed although every task
        heard the same releases.
    """
    return _compared((staged_from(tasks), staged_from(neighbour)), (tasks, neighbour), random_state)


class Replayed:
    """One side of a comparison: homes and what they have heard.

    ``only`` keeps one task's home, which hears what is released to all.
    """

    def __init__(self, staged: Staged, tasks: TaskSet, *, only: int | None = None) -> None:
        self.protocol, self.schedule = staged
        self._kept = slice(None) if only is None else slice(only, only + 1)
        at = np.arange(tasks.n_tasks)[self._kept]
        self._start = self.protocol.start(tasks if only is None else tasks.take_tasks(at), at)
        self._begun: dict[Call, tuple[Any, Array]] = {}
        self.restart()

    def restart(self) -> None:
        """Forget what was heard; homes are values, so they are as they were."""
        self._home, self._public, self._heard = self._start, self.protocol.opening(), False

    def said(self, call: Call) -> Array:
        """Return the bounded messages (tasks' sums, where rows speak), task on axis 0."""
        if self._heard:
            self._home, said = self._spoken(call)
        else:  # what opens a conversation is the same in every one
            if call not in self._begun:
                self._begun[call] = self._spoken(call)
            self._home, said = self._begun[call]
        return said

    def _spoken(self, call: Call) -> tuple[Any, Array]:
        home, messages = self.protocol.speak(self._home, self._public, call, None)
        bound = self.schedule.rounds[call.round].bound
        if isinstance(messages, RowMessages):
            return home, bound.by_task(messages)
        return home, bound(messages)

    def aggregate(self, said: Array, call: Call) -> Array:
        """Return what the mechanism of a call would be given."""
        round = self.schedule.rounds[call.round]
        if round.at_task:
            return said
        return said.sum(axis=0) if round.unit is Unit.ROW else round.bound.aggregate(said)

    def released(self, value: Array, call: Call, entropy: Entropy) -> Array:
        """Return the release of a value."""
        return np.asarray(self.schedule.mechanisms[call.round].release(value, entropy).value)

    def hear(self, release: Array, call: Call) -> None:
        """Take a release in, at home or in public."""
        self._heard = True
        round, mechanism = self.schedule.rounds[call.round], self.schedule.mechanisms[call.round]
        if round.at_task:
            self._home = self.protocol.keep(self._home, release[self._kept], call)
        if round.posted:
            self._public = self.protocol.read(self._public, release, call, mechanism)

    def models(self) -> Array:
        """Return the personal models."""
        return self.protocol.finish(self._home, self._public)


def _compared(
    staged: tuple[Staged, Staged], data: tuple[TaskSet, TaskSet], random_state: int
) -> ReplayResult:
    """Run the first protocol with fresh noise, the second with the first one's releases."""
    schedule, other = staged[0].schedule, staged[1].schedule
    at = changed_task(*data, row=schedule.units == (Unit.ROW,))
    if len(in_turn(schedule.rounds)) != len(in_turn(other.rounds)):
        return ReplayResult((), (), (), ("the number of rounds depends on the data",))
    record, source = _Record(at), SeededEntropy(random_state)
    runs = [Replayed(one, own) for one, own in zip(staged, data, strict=True)]
    for call in in_turn(schedule.rounds):
        said = [run.said(call) for run in runs]
        if schedule.adjacency is not Adjacency.REPLACE_ONE:
            said[1] = _silenced(said[1], at)
        record.compare_others(f"release {call.number + 1}: message", *said)
        sums = [run.aggregate(one, call) for run, one in zip(runs, said, strict=True)]
        mechanisms = [one.mechanisms[call.round] for one in (schedule, other)]
        if not _fixed_by(schedule, call):
            record.add_round(call.number, sums, mechanisms)
        # What is posted is frozen; what stays at home is each home's own, under the same noise.
        posted = schedule.rounds[call.round].posted
        for run, own in zip(runs, sums, strict=True):
            noise = source.child("call", call.number)
            run.hear(run.released(sums[0] if posted else own, call, noise), call)
    record.compare_others("model", *[run.models() for run in runs])
    return record.result()


def _fixed_by(schedule: Schedule, call: Call) -> bool:
    """Whether a change of the unit cannot be replayed: rows of a changed *task* are not one row."""
    return schedule.rounds[call.round].unit is Unit.ROW and Unit.TASK in schedule.units


def search(
    staged_from: StagedFrom,
    tasks: TaskSet,
    *,
    task: int = 0,
    binary: bool = False,
    n_steps: int = 60,
    random_state: int = 0,
) -> ReplayResult:
    """Hill-climb on a canary task (row) of both neighbours for the worst replay, and return it.

    A leak outside the declared sensitivity ends the search at once.
    """

    def result(first: TaskSet, second: TaskSet) -> ReplayResult:
        return replay(staged_from, first, second, random_state=random_state)

    def objective(first: TaskSet, second: TaskSet) -> float:
        found = result(first, second)
        return float("inf") if found.leaks else found.worst

    pair = climb(
        objective,
        tasks,
        task=task,
        row=staged_from(tasks).schedule.units == (Unit.ROW,),
        binary=binary,
        n_steps=n_steps,
        random_state=random_state,
    )
    return result(*pair)


def replay_estimator(
    estimator: Any, tasks: TaskSet, neighbour: TaskSet, *, random_state: int = 0
) -> ReplayResult:
    """Replay every protocol that an estimator runs when it is fitted on ``tasks``.

    The estimator is fitted on both data sets to see which protocols and schedules it builds from
    each, so that a calibration, clip or number of rounds taken from private data shows as a leak.
    """
    runs = [staged_by(estimator, data, random_state) for data in (tasks, neighbour)]
    if not runs[0] or len(runs[0]) != len(runs[1]):
        raise InvalidInput(
            f"estimator={estimator!r}: ran {len(runs[0])} and {len(runs[1])} protocols; "
            "replay needs an estimator that runs the same, at least one, on any data"
        )
    pairs = zip(*runs, strict=True)
    found = [_compared(pair, (tasks, neighbour), random_state) for pair in pairs]
    return ReplayResult(
        sum((one.changes for one in found), ()),
        sum((one.declared for one in found), ()),
        sum((one.norms for one in found), ()),
        sum((one.leaks for one in found), ()),
    )


def staged_by(estimator: Any, tasks: TaskSet, random_state: int) -> list[Staged]:
    """Return what a fit stages."""
    from tacit.audit.estimator import fit_on

    recorded: list[Staged] = []

    def watch(model: Any) -> None:
        schedule = getattr(model, "_schedule", None)
        if schedule is None:
            return

        def watched(protocol: Protocol[Any, Any], *arguments: Any) -> Schedule:
            made: Schedule = schedule(protocol, *arguments)
            recorded.append(Staged(protocol, made))
            return made

        model._schedule = watched

    fit_on(estimator, tasks, random_state, prepare=watch)
    return recorded


def _silenced(messages: Array, task: int) -> Array:
    messages = messages.copy()
    messages[task] = 0.0
    return messages


class _Record:
    """Collects what two runs did, round by round."""

    def __init__(self, changed: int) -> None:
        self._changed = changed
        self._changes: list[float] = []
        self._declared: list[float] = []
        self._norms: list[Norm] = []
        self._leaks: list[str] = []

    def compare_others(self, what: str, first: Array, second: Array) -> None:
        others = np.arange(len(first)) != self._changed
        scale = float(np.max(np.abs(first[others]), initial=1.0))
        moved = np.abs(first[others] - second[others]) > _ROUNDING * scale
        if moved.any():
            task = np.flatnonzero(others)[np.argwhere(moved)[0, 0]]
            self._leaks.append(
                f"{what} of task {task} changed with task {self._changed}'s data although both "
                "heard the same releases"
            )

    def add_round(self, t: int, sums: list[Array], mechanisms: list[Mechanism]) -> None:
        if mechanisms[0] != mechanisms[1]:
            self._leaks.append(
                f"round {t + 1}: the mechanism depends on the data "
                f"({mechanisms[0]!r} against {mechanisms[1]!r})"
            )
        norm, limit = declared_sensitivity(mechanisms[0])
        self._norms.append(norm)
        self._declared.append(limit)
        self._changes.append(change_in(norm, sums[1] - sums[0]))

    def result(self) -> ReplayResult:
        return ReplayResult(
            tuple(self._changes), tuple(self._declared), tuple(self._norms), tuple(self._leaks)
        )
