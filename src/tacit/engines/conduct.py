"""The one loop: ask, add noise, charge and post, read."""

from __future__ import annotations

import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.errors import PrivacyLeak
from tacit.numerics.stacks import finite_models
from tacit.numerics.threads import quiet_arithmetic
from tacit.privacy.billboard import Billboard, Posting
from tacit.privacy.mechanisms import Mechanism, Release
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.schedule import Call, Round, Schedule, in_turn
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["Outcome", "Parties", "Progress", "charge_rest", "conduct", "fold", "history_of"]
__all__ += ["late_models", "read_on", "rehearse"]

Progress = Callable[[int, int], None]


class Parties(typing.Protocol):
    """Where homes live; an engine.

    Guarantee: an engine hands out nothing but bounded sums (noise at the curator), sums with their
    shares of noise (distributed) or releases (noise at the task), and what one task computes
    changes nothing of what another says.
    """

    @property
    def n_tasks(self) -> int:
        """Public number of tasks."""
        ...

    def order(self, rounds: Sequence[Round]) -> Collection[Call]:
        """Return the calls of a run in order, from public quantities and nobody's rows.

        It may be found on the way, as messages arrive; then every call waits for one.
        """
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
    with quiet_arithmetic():
        return read_on(protocol, schedule, protocol.opening(), billboard)


def read_on(
    protocol: Protocol[Any, Any], schedule: Schedule, public: Any, postings: Iterable[Posting]
) -> Any:
    """Return the public state after further postings."""
    for posting in postings:
        if not posting.call:  # posted beside the conversation, such as a search's score
            continue
        call = Call.from_json(posting.call)
        _expected(schedule, call, posting.label)
        if schedule.rounds[call.round].posted and posting.value.size:
            public = protocol.read(public, posting.value, call, schedule.mechanisms[call.round])
    return public


def _untaken(schedule: Schedule, posting: Posting) -> bool:
    """Return whether a posting is of a turn that nobody took, since the run had settled."""
    return schedule.rounds[posting.call["round"]].posted and not posting.value.size


def conduct(
    protocol: Protocol[Any, Any],
    schedule: Schedule,
    parties: Parties,
    billboard: Billboard,
    *,
    entropy: Entropy,
    order: Collection[Call] | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Run ``protocol``; every release goes through ``billboard``, which charges it first.

    Parameters
    ----------
    order
        Calls in the order in which they are made; by default the engine's: every turn of every
        round, asked of everybody, of a cohort, or of single tasks as they come.

    A billboard that holds releases already is where the run goes on: they are read, and calls that
    they answer are not made again.

    A run ends early where the protocol says, from releases, that it has settled. Turns that nobody
    took by then are charged all the same, without a value: when to stop was read off the releases,
    so that what was not spent must not be given back as if that had been known in advance.

    Guarantee: a value reaches ``read`` only after ``billboard.post`` has charged the ledger for it.
    A cohort is drawn here, handed to the engine, and kept nowhere. One task is asked alone only
    where it adds the noise itself.
    """
    with quiet_arithmetic():
        return _conducted(protocol, schedule, parties, billboard, entropy, order, progress)


def late_models(protocol: Protocol[Any, Any], rows: TaskSet, public: Any) -> Array:
    """Return the personal models of tasks that come after the conversation, from what is public.

    Guarantee: nothing is said, released or charged; the models are for these tasks alone.
    """
    with quiet_arithmetic():
        strangers = np.full(rows.n_tasks, -1)
        return finite_models(protocol.finish(protocol.start(rows, strangers), public))


def rehearse(schedule: Schedule, billboard: Billboard, *, seeded: bool) -> None:
    """Post every release of a schedule without its value: what a run will charge and state."""
    charge_rest(schedule, billboard, seeded=seeded)


def charge_rest(schedule: Schedule, billboard: Billboard, *, seeded: bool) -> None:
    """Post every turn that nobody took, without a value."""
    taken = {(posting.call.get("round"), posting.call.get("turn")) for posting in billboard}
    for call in in_turn(schedule.rounds):
        if (call.round, call.turn) in taken:
            continue
        round, mechanism = schedule.rounds[call.round], schedule.mechanisms[call.round]
        nothing = np.empty(0)
        release = Release(nothing, mechanism, seeded)
        _post(billboard, release, round, replace(call, number=len(billboard)))


def _post(billboard: Billboard, release: Release, round: Round, call: Call) -> Posting:
    return billboard.post(
        release.value if round.posted else np.empty(0),
        release.event,
        label=f"{round.name}: {release.mechanism}",
        sound=release.sound,
        seeded=release.seeded,
        unit=round.unit,
        call=call.to_json(),
    )


def _conducted(
    protocol: Protocol[Any, Any],
    schedule: Schedule,
    parties: Parties,
    billboard: Billboard,
    entropy: Entropy,
    order: Collection[Call] | None,
    progress: Progress | None,
) -> Outcome:
    for round in schedule.rounds:
        round.bound.check_count(parties.n_tasks)
    public, done = fold(protocol, schedule, billboard), len(billboard)
    if not all(posting.call for posting in billboard):
        raise PrivacyLeak("the billboard holds releases of no call; a run goes on with its own")
    calls = parties.order(schedule.rounds) if order is None else order
    total = len(calls)
    for made, call in enumerate(calls):
        round, mechanism = schedule.rounds[call.round], schedule.mechanisms[call.round]
        ended = _untaken(schedule, billboard[made]) if made < done else protocol.settled(public)
        if ended:
            charge_rest(schedule, billboard, seeded=not entropy.system)
            break
        if made < done:
            _same(call, mechanism, billboard[made])
            if not round.posted:  # homes say it again, to themselves, with the noise of their key
                for _ in parties.ask(call, public, round, mechanism, None):
                    pass
            continue
        source = entropy.child("call", call.number)
        release = _released(call, public, round, mechanism, parties, source)
        posting = _post(billboard, release, round, call)
        if round.posted:
            public = protocol.read(public, posting.value, call, mechanism)
        parties.tell(call, public)
        if progress is not None:
            progress(made + 1, total)
    if len(billboard) > total and order is None:
        raise PrivacyLeak(f"the billboard holds {len(billboard)} releases, this run has {total}")
    return Outcome(public, history_of(schedule, billboard))


def _released(
    call: Call,
    public: Any,
    round: Round,
    mechanism: Mechanism,
    parties: Parties,
    entropy: Entropy,
) -> Release:
    if call.task is not None and not round.at_task:
        raise PrivacyLeak(
            f"round {round.name!r}: task {call.task} was asked alone, but its noise is meant for "
            "the sum of all; ask everybody, or let tasks add the noise"
        )
    if round.at_task:
        parts = list(parties.ask(call, public, round, mechanism, None))
        value = np.concatenate(parts) if call.task is None else parts[0][0]
        return Release(value, mechanism, not entropy.system)
    joined = round.cohort.draw(parties.n_tasks, entropy.child("cohort"))
    value = np.zeros(round.shape)
    for part in parties.ask(call, public, round, mechanism, joined):
        value += part
    if round.distributed:  # the shares are noise already
        return Release(value, mechanism, not entropy.system)
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


def _same(expected: Call, mechanism: Mechanism, posting: Posting) -> None:
    found = Call.from_json(posting.call)
    if expected != found or posting.event != mechanism.event:
        raise PrivacyLeak(
            f"the billboard's release {posting.number} answers {found} with {posting.event}, but "
            f"this run would have asked {expected} with {mechanism.event}; a billboard goes on "
            "with the protocol and order that began it"
        )


def history_of(schedule: Schedule, billboard: Billboard) -> tuple[dict[str, Any], ...]:
    """Return public facts of each release: round, mechanism and noise scale, never messages."""
    rows: list[dict[str, Any]] = []
    for posting in billboard:
        if not posting.call:
            continue
        call = Call.from_json(posting.call)
        mechanism = schedule.mechanisms[call.round]
        rows.append(
            {
                "round": len(rows) + 1,
                "name": schedule.rounds[call.round].name,
                "mechanism": mechanism.name,
                "scale": float(mechanism.scale),
                **({} if call.task is None else {"task": call.task, "turn": call.turn}),
            }
        )
    return tuple(rows)
