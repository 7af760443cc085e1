"""The schedule: everything that is accounted, as one value, before any row is seen.

A `Round` says what may be released: the bound of a message, the shape of the release, who takes
part, where the noise is added, its share of the budget. A `Schedule` is rounds with calibrated
mechanisms. The ledger's reservation, the plan, the statement's events and its trust, bytes and
memory are read off it; nobody writes them a second time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import AnyArray
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.accounting.allocation import scale_gaussian, scale_pure, scale_sampled
from tacit.privacy.accounting.composition import Cost, compose
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon
from tacit.privacy.accounting.leaves import Event
from tacit.privacy.bounds import Bound
from tacit.privacy.mechanisms import (
    MECHANISMS,
    DistributedGaussian,
    DistributedSymmetricGaussian,
    Exact,
    FixedSizeGaussian,
    Gaussian,
    Mechanism,
    PoissonGaussian,
    Shares,
    SymmetricGaussian,
)
from tacit.privacy.noise.entropy import Entropy, bernoulli, sample_without_replacement
from tacit.privacy.unit import Adjacency, Norm, Unit

__all__ = ["AtTask", "Call", "Cohort", "Curator", "Everyone", "FixedSize", "Place", "Poisson"]
__all__ += ["Distributed", "Round", "Schedule", "in_turn"]


@dataclass(frozen=True)
class Curator:
    """Noise is added by the curator, who sees the bounded messages and is trusted with them."""

    trust: ClassVar[str] = "trusted"


@dataclass(frozen=True)
class AtTask:
    """Every task adds noise to its own message; what leaves it is a release already."""

    trust: ClassVar[str] = "untrusted"


@dataclass(frozen=True)
class Distributed:
    """Every task adds a share of the noise; a protocol for secure sums shows the total alone.

    Parameters
    ----------
    min_honest
        Least number of tasks that keep message and share to themselves, the protected one among
        them: so many shares are as much noise as is accounted. None is a majority of the tasks.
    """

    min_honest: int | None = None
    trust: ClassVar[str] = "secure sums"

    def __post_init__(self) -> None:
        if self.min_honest is not None:
            remedy = "use None for a majority of the tasks"
            _check.positive_integer("min_honest", self.min_honest, remedy=remedy)

    def honest(self, n_tasks: int) -> int:
        """Return the least number of honest tasks among ``n_tasks``."""
        return n_tasks // 2 + 1 if self.min_honest is None else self.min_honest


Place = Curator | AtTask | Distributed


@dataclass(frozen=True)
class Everyone:
    """All tasks take part."""

    def draw(self, n_tasks: int, entropy: Entropy) -> AnyArray | None:  # noqa: ARG002
        """Return None: nobody is left out."""
        return None

    def expected(self, n_tasks: int) -> float:
        """Return the expected number of members."""
        return float(n_tasks)


@dataclass(frozen=True)
class Poisson:
    """Every task joins by its own secret coin.

    Guarantee: amplified, as long as neither the size nor the members of a cohort appear on the
    billboard, in a history, a report or a log; `conduct` hands membership to the engine only.
    """

    rate: float

    def __post_init__(self) -> None:
        if self.rate != 1:
            _check.fraction("rate", self.rate, remedy="give the probability to join a round")

    def draw(self, n_tasks: int, entropy: Entropy) -> AnyArray | None:
        """Return who joins, by exact independent coins."""
        return bernoulli(self.rate, n_tasks, entropy)

    def expected(self, n_tasks: int) -> float:
        """Return the expected number of members, the public divisor."""
        return self.rate * n_tasks


@dataclass(frozen=True)
class FixedSize:
    """A uniformly drawn cohort of fixed size.

    Guarantee: not amplified under joint privacy: all other tasks, pooled, know who was chosen.
    """

    size: int

    def __post_init__(self) -> None:
        _check.positive_integer("size", self.size, remedy="give the number of members")

    def draw(self, n_tasks: int, entropy: Entropy) -> AnyArray | None:
        """Return who joins."""
        joined = np.zeros(n_tasks, dtype=bool)
        joined[sample_without_replacement(n_tasks, self.size, entropy)] = True
        return joined

    def expected(self, n_tasks: int) -> float:  # noqa: ARG002
        """Return the number of members."""
        return float(self.size)


Cohort = Everyone | Poisson | FixedSize


@dataclass(frozen=True)
class Round:
    """One kind of release.

    Parameters
    ----------
    name
        What it is about, in the protocol's words; unique in a schedule.
    bound
        Limits a message, adds messages up, answers the sensitivity.
    shape
        Of what is released (of one task's release, if the noise is added at the task).
    message
        Shape of what one task sends; by default ``shape``.
    share
        Weight of the budget of one turn, relative to the other rounds of the same unit.
    turns
        How often it happens: in all if the curator adds the noise, to each task if tasks do.
    unit
        What is protected.
    cohort
        Who joins: tasks, by a draw of the curator; or, where tasks add noise for their rows, the
        rows of each, by coins that are tossed at home and told nobody.
    posted
        False for a release that only the curator sees, inside later messages: it is charged and
        stands on the billboard without its value.
    apart
        Tasks take their turns one by one, as they come; only where they add the noise themselves.
    """

    name: str
    bound: Bound
    shape: tuple[int, ...]
    message: tuple[int, ...] | None = None
    share: float = 1.0
    turns: int = 1
    unit: Unit = Unit.TASK
    noise: Place = field(default_factory=Curator)
    cohort: Cohort = field(default_factory=Everyone)
    posted: bool = True
    apart: bool = False

    def __post_init__(self) -> None:
        _check.positive("share", self.share, remedy="give a weight, 1.0 for equal ones")
        _check.positive_integer("turns", self.turns, remedy="a round happens at least once")
        hidden = isinstance(self.cohort, Everyone) or self.by_row
        if not isinstance(self.noise, Curator) and not hidden:
            raise InvalidInput(f"round {self.name!r}: noise at the task has no cohort to hide in")
        if self.apart and not self.at_task:
            raise InvalidInput(
                f"round {self.name!r}: a sum has no part that one task could release"
            )

    @property
    def at_task(self) -> bool:
        """Whether every task adds its own noise."""
        return isinstance(self.noise, AtTask)

    @property
    def by_row(self) -> bool:
        """Whether the cohort is one of rows, drawn at home."""
        poisson = isinstance(self.cohort, Poisson)
        return poisson and self.at_task and self.unit is Unit.ROW

    @property
    def distributed(self) -> bool:
        """Whether every task adds a share of the noise, and only sums are seen."""
        return isinstance(self.noise, Distributed)

    @property
    def sent(self) -> tuple[int, ...]:
        """Shape of one task's message."""
        return self.shape if self.message is None else self.message

    def sensitivity(self, norm: Norm, adjacency: Adjacency) -> float:
        """Return how far one unit can move what is noised, as the bound answers it."""
        return self.bound.sensitivity(norm, adjacency, dimension=math.prod(self.sent))


@dataclass(frozen=True)
class Call:
    """One asking: which round, for the how-manieth time, and of whom (None: everybody or a cohort).

    Calls are public, and stand beside the releases they led to.
    """

    number: int
    round: int
    task: int | None = None
    turn: int = 0

    def to_json(self) -> dict[str, int | None]:
        """Return the fields."""
        return {"number": self.number, "round": self.round, "task": self.task, "turn": self.turn}

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Call:
        """Return the call that `to_json` wrote."""
        return cls(**body)


def in_turn(rounds: Sequence[Round], n_tasks: int | None = None) -> tuple[Call, ...]:
    """Return every turn of every round, one after the other.

    Everybody is asked together; with ``n_tasks``, of rounds that tasks take ``apart`` every task by
    itself, in the order of their places.
    """
    calls: list[Call] = []
    for index, round in enumerate(rounds):
        alone = round.apart and n_tasks is not None
        tasks: Sequence[int | None] = range(n_tasks or 0) if alone else (None,)
        for turn in range(round.turns):
            first = len(calls)
            calls += [Call(first + at, index, task, turn) for at, task in enumerate(tasks)]
    return tuple(calls)


@dataclass(frozen=True)
class Schedule:
    """Rounds, the mechanism of each, and the adjacency under which both are meant.

    Guarantee: a schedule exists only if every mechanism's noise covers what its round's bound lets
    one unit change (`PrivacyLeak` otherwise), if a sampled round is accounted as sampled and an
    adjacency that its sampling allows. What it lists is all that a run may release.
    """

    rounds: tuple[Round, ...]
    mechanisms: tuple[Mechanism, ...]
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    def __post_init__(self) -> None:
        if len(self.rounds) != len(self.mechanisms):
            raise InvalidInput(
                f"mechanisms: {len(self.mechanisms)} for {len(self.rounds)} rounds; give one each"
            )
        names = [round.name for round in self.rounds]
        if len(set(names)) != len(names):
            raise InvalidInput(f"rounds: names must differ, not {names}")
        for round, mechanism in zip(self.rounds, self.mechanisms, strict=True):
            mechanism.check(round, self.adjacency)
            _check_place(round, mechanism)
            _check_cohort(round, mechanism, self.adjacency)

    @classmethod
    def calibrate(
        cls,
        rounds: Sequence[Round],
        *,
        epsilon: float,
        delta: float,
        mechanism: str = "auto",
        n_tasks: int | None = None,
    ) -> Schedule:
        """Return the schedule whose rounds together cost (ε, δ) at most.

        Parameters
        ----------
        rounds
            All of one unit.
        mechanism
            A name from `MECHANISMS` (or a published one): the noise of every round whose aggregate
            it serves; other rounds get the default of its family. "auto" is the Gaussian family
            for δ > 0 and the pure one for δ = 0.
        n_tasks
            Public number of tasks, for cohorts of fixed size and noise in shares.

        Guarantee: `compose` of all events costs at most ε at δ. Poisson cohorts are accounted under
        zero-out adjacency, everything else under replace-one.
        """
        rounds, epsilon, delta = tuple(rounds), check_epsilon(epsilon), check_delta(delta)
        if not rounds:
            return cls((), ())
        if len({round.unit for round in rounds}) > 1:
            raise InvalidInput("rounds: of two units; calibrate them apart and join the schedules")
        sampled = any(isinstance(round.cohort, Poisson) for round in rounds)
        adjacency = Adjacency.ZERO_OUT if sampled else Adjacency.REPLACE_ONE
        if math.isinf(epsilon) or not rounds:
            return cls(rounds, (Exact(),) * len(rounds), adjacency)
        kinds = [_kind(round, mechanism, delta) for round in rounds]
        strengths = _strengths(rounds, kinds, epsilon, delta)
        made = tuple(
            _made(kind, round, strength, adjacency, n_tasks)
            for kind, round, strength in zip(kinds, rounds, strengths, strict=True)
        )
        return cls(rounds, made, adjacency)

    def joined(self, later: Schedule) -> Schedule:
        """Return this schedule followed by one of another unit, under the same adjacency."""
        if self.adjacency is not later.adjacency:
            raise InvalidInput(f"adjacency: {self.adjacency} and {later.adjacency} do not join")
        return Schedule(
            self.rounds + later.rounds, self.mechanisms + later.mechanisms, self.adjacency
        )

    @property
    def units(self) -> tuple[Unit, ...]:
        """What is protected, each unit once."""
        return tuple(dict.fromkeys(round.unit for round in self.rounds))

    def events(self, unit: Unit) -> list[Event]:
        """Return the events of all turns that protect ``unit``, in order.

        A row (or a task that adds its own noise) belongs to one task, so the releases of different
        tasks compose in parallel: turns are counted once, not once a task.
        """
        found: list[Event] = []
        for round, mechanism in zip(self.rounds, self.mechanisms, strict=True):
            if round.unit is unit:
                found += [mechanism.event] * round.turns
        return found

    def cost(self, unit: Unit, delta: float) -> Cost:
        """Return what the whole schedule costs one unit."""
        return compose(self.events(unit), delta=delta, adjacency=self.adjacency)

    def course(self, unit: Unit, delta: float) -> tuple[tuple[float, float], ...]:
        """Return, after every turn, what it costs a unit alone and what all costs by then.

        Guarantee: only the second number is one; what a single step costs says nothing of a run.
        """
        events = self.events(unit)
        alone = {event: self._epsilon([event], delta) for event in set(events)}
        return tuple(
            (alone[event], self._epsilon(events[: number + 1], delta))
            for number, event in enumerate(events)
        )

    def _epsilon(self, events: list[Event], delta: float) -> float:
        return float(compose(events, delta=delta, adjacency=self.adjacency).epsilon)

    def trust(self, unit: Unit) -> str:
        """Return whether the curator must be trusted: "trusted" if it sees anything unnoised.

        "none" where there is nothing to see.
        """
        if not self.rounds:
            return "none"
        places = {round.noise.trust for round in self.rounds if round.unit is unit}
        return next(
            (one for one in (Curator.trust, Distributed.trust) if one in places), "untrusted"
        )

    @property
    def sound(self) -> bool:
        """Whether every mechanism is."""
        return all(mechanism.sound for mechanism in self.mechanisms)


def _check_place(round: Round, mechanism: Mechanism) -> None:
    cut = isinstance(mechanism, Shares)
    if round.distributed and not cut and not isinstance(mechanism, Exact):
        raise PrivacyLeak(
            f"round {round.name!r}: its noise is added in shares, but {mechanism.name} noise is "
            "not cut into any"
        )
    if cut and not round.distributed:
        raise PrivacyLeak(f"round {round.name!r}: nobody adds up the shares of {mechanism.name}")


def _check_cohort(round: Round, mechanism: Mechanism, adjacency: Adjacency) -> None:
    amplified = isinstance(mechanism, PoissonGaussian)
    if isinstance(round.cohort, Poisson):
        if amplified and mechanism.sampling_rate < round.cohort.rate:  # type: ignore[attr-defined]
            raise PrivacyLeak(
                f"round {round.name!r}: tasks join with probability {round.cohort.rate}, but the "
                f"noise is accounted for {mechanism.sampling_rate}"  # type: ignore[attr-defined]
            )
        if amplified and adjacency is Adjacency.REPLACE_ONE:
            raise PrivacyLeak(f"round {round.name!r}: Poisson cohorts need zero-out adjacency")
    elif amplified:
        raise PrivacyLeak(
            f"round {round.name!r}: accounted as a Poisson cohort, but its cohort is "
            f"{round.cohort}; only secret independent coins are amplified"
        )
    if isinstance(mechanism, FixedSizeGaussian) and mechanism.observer != "participants":
        raise PrivacyLeak(
            f"round {round.name!r}: a cohort of fixed size is not amplified for the tasks "
            "themselves, who together know who was chosen"
        )


def _kind(round: Round, name: str, delta: float) -> type[Mechanism]:
    """Return the mechanism of a round: the named one, or its family's for this aggregate."""
    if name == "auto":
        family = "gaussian" if delta > 0 else "pure"
    else:
        named = _named(name)
        if round.bound.kind in named.serves:
            return named
        family = named.family
    if family == "gaussian" and delta == 0:
        raise InvalidInput(f'mechanism={name!r}: has no pure ε; use delta > 0 or mechanism="auto"')
    for kind in MECHANISMS.values():
        # A subclass serves what its parent serves, but is nobody's default unless it says so.
        if kind.family == family and round.bound.kind in vars(kind).get("default_for", ()):
            return kind
    raise InvalidInput(
        f"mechanism={name!r}: no mechanism of the {family} family serves the {round.bound.kind} "
        f"of round {round.name!r}; use mechanism='auto'"
    )


def _named(name: str) -> type[Mechanism]:
    if name in MECHANISMS:
        return MECHANISMS[name]
    from tacit.privacy.published import PUBLISHED

    if name in PUBLISHED:
        return PUBLISHED[name]
    raise InvalidInput(f"mechanism={name!r}: must be one of auto, {', '.join(sorted(MECHANISMS))}")


def _strengths(
    rounds: Sequence[Round], kinds: Sequence[type[Mechanism]], epsilon: float, delta: float
) -> list[float]:
    """Return each round's noise multiplier (Gaussian family) or ε (pure), all turns counted."""
    families = {kind.family for kind in kinds}
    if len(families) > 1:
        raise InvalidInput(f"rounds: mechanisms of families {sorted(families)} do not mix")
    shares = np.repeat([round.share for round in rounds], [round.turns for round in rounds])
    rates = [r.cohort.rate if isinstance(r.cohort, Poisson) else 1.0 for r in rounds]
    first = np.cumsum([0, *(round.turns for round in rounds[:-1])])
    if families == {"gaussian"} and delta == 0:
        raise InvalidInput("delta=0: Gaussian noise has no pure ε; use delta > 0")
    if families == {"pure"}:
        bound = "published" if any(k.composition == "published" for k in kinds) else "optimal"
        return [float(e) for e in scale_pure(shares, epsilon, delta, bound=bound)[first]]
    if any(rate < 1 for rate in rates):
        turns = [round.turns for round in rounds]
        weights = [round.share for round in rounds]
        return [float(s) for s in scale_sampled(weights, rates, turns, epsilon, delta)]
    return [float(s) for s in scale_gaussian(shares, epsilon, delta)[first]]


def _made(
    kind: type[Mechanism],
    round: Round,
    strength: float,
    adjacency: Adjacency,
    n_tasks: int | None,
) -> Mechanism:
    made = kind.of_round(round, strength, adjacency)
    if isinstance(round.cohort, Poisson) and round.cohort.rate < 1:
        if kind.family != "gaussian":
            raise InvalidInput(
                f"round {round.name!r}: a Poisson cohort is accounted with Gaussian noise only, "
                f"not {kind.name!r}; use delta > 0, or no sampling"
            )
        return PoissonGaussian(made.reach, strength, round.cohort.rate)
    if isinstance(round.noise, Distributed):
        return _in_shares(made, round, round.noise, n_tasks)
    if isinstance(round.cohort, FixedSize) and n_tasks is not None:
        return FixedSizeGaussian(made.reach, strength, n_tasks, round.cohort.size)
    return made


def _in_shares(made: Mechanism, round: Round, place: Distributed, n_tasks: int | None) -> Mechanism:
    if n_tasks is None:
        raise InvalidInput(f"round {round.name!r}: noise in shares needs n_tasks, their number")
    honest = place.honest(n_tasks)
    if isinstance(made, SymmetricGaussian):
        return DistributedSymmetricGaussian(
            made.sensitivity, made.noise_multiplier, n_tasks, honest
        )
    if isinstance(made, Gaussian):
        return DistributedGaussian(made.sensitivity, made.noise_multiplier, n_tasks, honest)
    raise InvalidInput(
        f"mechanism={made.name!r}: cannot be cut into shares; use Gaussian noise, with delta > 0"
    )
