"""The schedule: everything that is accounted, as one value, before any row is seen.

A `Schedule` is rounds (their words are in ``rounds``) with calibrated mechanisms. The ledger's
reservation, the plan, the statement's events and its trust, bytes and memory are read off it;
nobody writes them a second time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.accounting.allocation import scale_gaussian, scale_pure, scale_sampled
from tacit.privacy.accounting.composition import Cost, compose
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon
from tacit.privacy.accounting.leaves import Event
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
from tacit.privacy.rounds import (
    AtTask,
    Call,
    Cohort,
    Curator,
    Distributed,
    Everyone,
    FixedSize,
    Place,
    Poisson,
    Round,
    in_turn,
)
from tacit.privacy.unit import Adjacency, Unit

__all__ = ["AtTask", "Call", "Cohort", "Curator", "Everyone", "FixedSize", "Place", "Poisson"]
__all__ += ["Distributed", "Round", "Schedule", "in_turn"]


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
    # No draw of fixed size is amplified, so that any other noise is what it is for everyone.
    if isinstance(round.cohort, FixedSize) and n_tasks is not None and type(made) is Gaussian:
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
