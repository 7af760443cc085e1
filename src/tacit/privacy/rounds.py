"""The words of a schedule: rounds, where their noise is added, who takes part, and calls."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import AnyArray
from tacit.errors import InvalidInput
from tacit.privacy.bounds import Bound
from tacit.privacy.noise.entropy import Entropy, bernoulli, sample_without_replacement
from tacit.privacy.unit import Adjacency, Norm, Unit

__all__ = ["AtTask", "Call", "Cohort", "Curator", "Distributed", "Everyone", "FixedSize", "Place"]
__all__ += ["Poisson", "Round", "in_turn"]


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
