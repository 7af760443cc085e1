"""The one loop: ask, add noise, charge and post, read."""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.errors import PrivacyLeak
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.billboard import Billboard
from tacit.privacy.mechanisms import Mechanism, Release
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.schedule import Call, Round, Schedule, in_turn
from tacit.protocols.protocol import Protocol

__all__ = ["Outcome", "Parties", "Progress", "conduct", "fold"]

Progress = Callable[[int, int], None]


class Parties(typing.Protocol):
    """Where homes live; an engine.

    Guarantee: an engine hands out nothing but bounded sums (noise at the curator) or releases
    (noise at the task), and what one task computes changes nothing of what another says.
    """

    @property
    def n_tasks(self) -> int:
        """Public number of tasks."""
        ...

    def ask(
        self, call: Call, public: Any, round: Round, mechanism: Mechanism, joined: AnyArray | None
    ) -> Iterator[AnyArray]:
        """Yield bounded partial sums as they arrive, or noised messages in order of position."""
        ...

    def tell(self, call: Call, public: Any) -> None:
        """Hand the public state after ``call`` to whoever was asked."""
        ...

    def finish(self, public: Any) -> Iterator[Array]:
        """Yield personal models, in order of position."""
        ...


@dataclass(frozen=True)
class Outcome:
    """What a run leaves in public: the state everybody can read, and one history row a release."""

    public: Any
    history: tuple[dict[str, Any], ...]


def fold(protocol: Protocol[Any, Any], schedule: Schedule, billboard: Billboard) -> Any:
    """Return the public state that a billboard's releases lead to; anybody can do this."""
    public = protocol.opening()
    for posting in billboard:
        call = Call.from_json(posting.call)
        _expected(schedule, call, posting.label)
        if schedule.rounds[call.round].posted:
            public = protocol.read(public, posting.value, call, schedule.mechanisms[call.round])
    return public


def conduct(
    protocol: Protocol[Any, Any],
    schedule: Schedule,
    parties: Parties,
    billboard: Billboard,
    *,
    entropy: Entropy,
    order: Iterable[Call] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run ``protocol``; every release goes through ``billboard``, which charges it first.

    Parameters
    ----------
    order
        Calls in the order in which they are made; by default every turn of every round, asked of
        everybody or of a cohort.

    A billboard that holds releases already is where the run goes on: they are read, and calls that
    they answer are not made again.

    Guarantee: a value reaches ``read`` only after ``billboard.post`` has charged the ledger for it.
    A cohort is drawn here, handed to the engine, and kept nowhere.
    """
    with quiet_arithmetic():
        return _conducted(protocol, schedule, parties, billboard, entropy, order, progress)


def _conducted(
    protocol: Protocol[Any, Any],
    schedule: Schedule,
    parties: Parties,
    billboard: Billboard,
    entropy: Entropy,
    order: Iterable[Call] | None,
    progress: Progress | None,
) -> Outcome:
    for round in schedule.rounds:
        round.bound.check_count(parties.n_tasks)
    public, done = fold(protocol, schedule, billboard), len(billboard)
    calls = in_turn(schedule.rounds) if order is None else order
    total = sum(round.turns for round in schedule.rounds)
    for made, call in enumerate(calls):
        round, mechanism = schedule.rounds[call.round], schedule.mechanisms[call.round]
        if made < done:
            _same(call, Call.from_json(billboard[made].call))
            if not round.posted:  # homes say it again, to themselves, with the noise of their key
                for _ in parties.ask(call, public, round, mechanism, None):
                    pass
            continue
        source = entropy.child("call", call.number)
        release = _released(call, public, round, mechanism, parties, source)
        posting = billboard.post(
            release.value if round.posted else np.empty(0),
            release.event,
            label=_label(round, mechanism),
            sound=release.sound,
            seeded=release.seeded,
            unit=round.unit,
            call=call.to_json(),
        )
        if round.posted:
            public = protocol.read(public, posting.value, call, mechanism)
        parties.tell(call, public)
        if progress is not None:
            progress(made + 1, total)
    return Outcome(public, history_of(schedule, billboard))


def _released(
    call: Call,
    public: Any,
    round: Round,
    mechanism: Mechanism,
    parties: Parties,
    entropy: Entropy,
) -> Release:
    if round.at_task:
        parts = list(parties.ask(call, public, round, mechanism, None))
        value = np.concatenate(parts) if call.task is None else parts[0][0]
        return Release(value, mechanism.event, mechanism.name, mechanism.sound, not entropy.system)
    joined = round.cohort.draw(parties.n_tasks, entropy.child("cohort"))
    value = np.zeros(round.shape)
    for part in parties.ask(call, public, round, mechanism, joined):
        value += part
    return mechanism.release(value, entropy.child("noise"))


def _label(round: Round, mechanism: Mechanism) -> str:
    return f"{round.name}: {mechanism.name}"


def _expected(schedule: Schedule, call: Call, label: str) -> None:
    """Refuse a release that this schedule could not have made."""
    known = call.round < len(schedule.rounds) and call.turn < schedule.rounds[call.round].turns
    if not known or label != _label(schedule.rounds[call.round], schedule.mechanisms[call.round]):
        raise PrivacyLeak(
            f"the billboard's release {call.number} ({label}) is none of this schedule's; a "
            "billboard is read with the protocol and schedule that made it"
        )


def _same(expected: Call, found: Call) -> None:
    if expected != found:
        raise PrivacyLeak(
            f"the billboard's release {found.number} answers {found}, but this run would have "
            f"asked {expected}; a billboard goes on with the protocol and order that began it"
        )


def history_of(schedule: Schedule, billboard: Billboard) -> tuple[dict[str, Any], ...]:
    """Return public facts of each release: round, mechanism and noise scale, never messages."""
    rows = []
    for posting in billboard:
        call = Call.from_json(posting.call)
        mechanism = schedule.mechanisms[call.round]
        rows.append(
            {
                "round": posting.number + 1,
                "name": schedule.rounds[call.round].name,
                "mechanism": mechanism.name,
                "scale": float(mechanism.scale),
            }
        )
    return tuple(rows)
