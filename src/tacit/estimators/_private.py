"""The privacy parameters every private estimator shares, and the one way it runs a protocol."""

from __future__ import annotations

import math
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.engines import Batches, conduct
from tacit.errors import InvalidInput
from tacit.estimators._base import Learned, MultiTaskEstimator
from tacit.privacy._pricing import check_data
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation
from tacit.privacy.noise.entropy import entropy_from
from tacit.privacy.plan import Plan
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import DEFINITIONS, Statement
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["PrivateEstimator", "Sizes", "default_delta", "open_ledger"]

_PUBLIC = "the number of tasks and the features are public"


def default_delta(n_units: int) -> float:
    """Return min(1e-5, 1 / n_units²), the largest δ that still means something."""
    return min(1e-5, 1.0 / n_units**2)


def open_ledger(
    ledger: Ledger | str | PathLike[str] | None, epsilon: float, delta: float
) -> Ledger:
    """Return the ledger to charge: the one given, the file named, or one for this run alone."""
    if ledger is None:
        return Ledger(":memory:", epsilon=epsilon, delta=delta)
    return ledger if isinstance(ledger, Ledger) else Ledger(ledger)


@dataclass(frozen=True)
class Sizes:
    """The public numbers that fix what a method releases."""

    n_tasks: int
    n_features: int
    n_outputs: int = 1
    n_rows: int | None = None
    counts: tuple[int, ...] | None = None  # rows by task, for methods that declare them public


class PrivateEstimator(MultiTaskEstimator):
    """An estimator that learns together under joint differential privacy.

    Common parameters
    -----------------
    epsilon : float, default 1.0
        Privacy budget; ``float("inf")`` learns together without privacy.
    delta : "auto" or float
        "auto" is min(1e-5, 1/m²) for m tasks; 0 asks for pure ε.
    mechanism : str, default "auto"
    clip : "auto" or float
        Radius of a task's message. "auto" sends directions, which need no scale.
    n_rounds : int or "auto"
    ledger : Ledger, path or None
        Where the spend is recorded before anything is released.
    data : str or None
        The ledger's name for these rows, which share none with data of another name. None may be
        any data, and counts on every line.
    random_state : int or None
        For tests only: a value makes the noise repeatable and the statement say "not private".
    engine : "local" or an engine
        Where tasks live; see `tacit.engines`.
    progress : callable(release, n_releases) or None
    unknown_task : "error" or "shared"

    To add a method: `_protocol` from public sizes, and `_read_public` where releases give a shared
    model.
    """

    epsilon: float
    delta: float | str
    mechanism: str
    ledger: Ledger | str | PathLike[str] | None
    data: str | None
    random_state: Any
    engine: Any
    progress: Any
    _unit: Unit = Unit.TASK  # what the budget protects
    _assumptions: tuple[str, ...] = ()  # what else is public

    @abstractmethod
    def _protocol(self, sizes: Sizes) -> Protocol[Any, Any]:
        """Return the conversation, from public sizes only."""

    def _learn_open(self, tasks: TaskSet, targets: Array) -> Learned:
        """Learn without privacy; by default the same conversation without noise."""
        return self._converse(tasks, targets.shape[1])

    def _read_public(self, public: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ARG002
        """Return what releases tell: further fields of `Learned`."""
        return {}

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        return Schedule.calibrate(
            protocol.rounds(),
            epsilon=self.epsilon,
            delta=self._delta(self._n_units(sizes)),
            mechanism=self.mechanism,
            n_tasks=sizes.n_tasks,
        )

    def plan(
        self,
        n_tasks: int,
        n_features: int,
        *,
        n_outputs: int = 1,
        n_rows: int | None = None,
    ) -> Plan:
        """Return what a fit would release and cost, without data.

        Parameters
        ----------
        n_outputs : int
            Models per task: 1, or the classes if there are more than two.
        n_rows : int, optional
            Rows of all tasks, where rows are the protected unit.
        """
        self._check_parameters()
        sizes = Sizes(
            _check.positive_integer("n_tasks", n_tasks, remedy="it is the number of parties"),
            _check.positive_integer("n_features", n_features, remedy="it is the columns of X"),
            _check.positive_integer("n_outputs", n_outputs, remedy="it is 1, or the classes"),
            n_rows,
        )
        schedule = self._schedule(self._protocol(sizes), sizes)
        return Plan.of_schedule(
            schedule,
            method=type(self).__name__,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_rows=n_rows,
            epsilon=float(self.epsilon),
            delta=self._delta(self._n_units(sizes)),
        )

    @property
    def _private(self) -> bool:
        return not math.isinf(self.epsilon)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check.positive(
            "epsilon",
            self.epsilon,
            allow_inf=True,
            remedy='use epsilon=float("inf") for no privacy',
        )
        if self.delta != "auto":
            delta = _check.non_negative("delta", self.delta, remedy='use "auto", or 0 for pure ε')
            if delta >= 1:
                raise InvalidInput(f'delta={self.delta!r}: must be below 1; use "auto"')
        check_data(self.data)
        if isinstance(self.engine, str):
            _check.one_of("engine", self.engine, ("local",))
        if self.progress is not None and not callable(self.progress):
            raise InvalidInput(
                f"progress={self.progress!r}: must be None or a function of (round, n_rounds)"
            )

    def _n_units(self, sizes: Sizes) -> int:
        """Return the public number of what is protected."""
        if self._unit is Unit.TASK:
            return sizes.n_tasks
        if sizes.n_rows is None:
            raise InvalidInput(
                "n_rows=None: single rows are protected here; say how many there are"
            )
        return sizes.n_rows

    def _delta(self, n_units: int) -> float:
        return default_delta(n_units) if self.delta == "auto" else float(self.delta)

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        if not self._private:
            return self._learn_open(tasks, targets)
        return self._converse(tasks, targets.shape[1])

    def _converse(self, tasks: TaskSet, n_outputs: int) -> Learned:
        """Reserve the whole budget, hold the conversation, and state what was guaranteed.

        Guarantee: the ledger accepts or refuses the whole schedule before the data are touched;
        each release is charged before it is published.
        """
        counts = tuple(int(count) for count in tasks.counts)
        sizes = Sizes(tasks.n_tasks, tasks.n_features, n_outputs, tasks.n_rows, counts)
        protocol = self._protocol(sizes)
        schedule = self._schedule(protocol, sizes)
        entropy = entropy_from(self.random_state)
        parties = Batches(protocol, tasks, entropy=entropy.child("homes"))
        # What releases nothing needs no budget, and no line in a ledger.
        reserved: AbstractContextManager[Reservation | None] = nullcontext()
        if schedule.rounds:
            reserved = self._reserved(schedule, sizes)
        with reserved as reservation:
            billboard = Billboard(reservation)
            outcome = conduct(
                protocol,
                schedule,
                parties,
                billboard,
                entropy=entropy.child("curator"),
                progress=self.progress,
            )
            models = np.concatenate(list(parties.finish(outcome.public)))
        statements = self._statements(schedule, billboard, sizes)
        public = self._read_public(outcome.public, sizes)
        extra = {**public.pop("extra", {}), **statements}
        return Learned(
            coef=models[..., :-1],
            intercept=models[..., -1],
            statement=extra.pop("privacy_"),
            history=outcome.history,
            billboard=billboard,
            extra=extra,
            **public,
        )

    def _reserved(self, schedule: Schedule, sizes: Sizes) -> Reservation:
        """Set the schedule's whole budget aside, or raise before any data are touched."""
        unit, delta = self._unit, self._delta(self._n_units(sizes))
        rows = schedule.events(Unit.ROW) if unit is Unit.TASK else []
        total = self._total(sizes)
        return open_ledger(self.ledger, *total).reserve(
            schedule.events(unit),
            unit=unit,
            adjacency=schedule.adjacency,
            data=self.data,
            delta=delta,
            rows=rows or None,
            rows_delta=total[1] if rows else None,
            label=type(self).__name__,
        )

    def _total(self, sizes: Sizes) -> tuple[float, float]:
        """Return the (ε, δ) that a ledger made for this run alone must hold."""
        return float(self.epsilon), self._delta(self._n_units(sizes))

    def _statements(self, schedule: Schedule, billboard: Billboard, sizes: Sizes) -> dict[str, Any]:
        """Return what was guaranteed, by fitted attribute."""
        found = Statement.of_run(
            billboard,
            unit=self._unit,
            adjacency=schedule.adjacency,
            delta=self._delta(self._n_units(sizes)),
            definition=DEFINITIONS[0],
            curator=schedule.trust(self._unit) if schedule.rounds else "none",
            n_units=self._n_units(sizes),
            assumptions=(_PUBLIC, *self._assumptions),
        )
        return {"privacy_": found}
