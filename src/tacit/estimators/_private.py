"""The privacy parameters every private estimator shares, and the one way it runs a protocol."""

from __future__ import annotations

import math
from dataclasses import dataclass
from os import PathLike
from typing import Any

from tacit import _check
from tacit.engines import local
from tacit.errors import InvalidInput
from tacit.estimators._base import MultiTaskEstimator
from tacit.privacy._pricing import check_data
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger
from tacit.privacy.samplers import entropy_from
from tacit.privacy.statement import Statement
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["PrivateEstimator", "RowNoise", "default_delta", "open_ledger"]


@dataclass(frozen=True)
class RowNoise:
    """The event of noise on rows, drawn once before any message is made, and its (ε, δ)."""

    event: Any = None
    epsilon: float = 0.0
    delta: float = 0.0


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
    engine : "local"
    progress : callable(round, n_rounds) or None
    unknown_task : "error" or "shared"
    """

    epsilon: float
    delta: float | str
    ledger: Ledger | str | PathLike[str] | None
    data: str | None
    random_state: Any
    engine: str
    progress: Any

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
        _check.one_of("engine", self.engine, ("local",))
        if self.progress is not None and not callable(self.progress):
            raise InvalidInput(
                f"progress={self.progress!r}: must be None or a function of (round, n_rounds)"
            )

    def _delta(self, n_units: int) -> float:
        return default_delta(n_units) if self.delta == "auto" else float(self.delta)

    def _run(
        self,
        protocol: Protocol[Any],
        tasks: TaskSet,
        *,
        curator: str = "trusted",
        assumptions: tuple[str, ...] = (),
        not_protected: tuple[str, ...] = (),
        rows: RowNoise | None = None,
    ) -> tuple[local.Outcome, Statement, Billboard]:
        """Reserve the whole budget, run the protocol, and state what was guaranteed.

        Guarantee: the ledger accepts or refuses all of the protocol's releases, and its noise on
        ``rows``, before the data are touched; each is charged before it is made, and a refusal
        changes nothing.
        """
        delta = self._delta(tasks.n_tasks)
        events = [protocol.mechanism(t).event for t in range(protocol.n_rounds)]
        noise = rows or RowNoise()
        total = max(self.epsilon, noise.epsilon), max(delta, noise.delta)
        reservation = open_ledger(self.ledger, *total).reserve(
            events,
            unit=protocol.unit,
            adjacency=protocol.adjacency,
            data=self.data,
            delta=delta,
            rows=noise.event,
            rows_delta=noise.delta if rows else None,
            label=type(self).__name__,
        )
        with reservation:
            if rows is not None:
                reservation.charge_rows()
            billboard = Billboard(reservation)
            outcome = local.run(
                protocol,
                tasks,
                billboard,
                entropy=entropy_from(self.random_state),
                progress=self.progress,
            )
        statement = Statement.of_run(
            billboard,
            unit=protocol.unit,
            adjacency=protocol.adjacency,
            delta=delta,
            curator=curator,
            n_units=tasks.n_tasks,
            assumptions=assumptions,
            not_protected=not_protected,
        )
        return outcome, statement, billboard
