"""The privacy parameters every private estimator shares, and the one way it runs a protocol."""

from __future__ import annotations

import inspect
import math
import warnings
from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.engines import Checkpoint, Unkept, conduct, engine_from, fold
from tacit.engines.conduct import history_of, late_models, rehearse
from tacit.engines.gathering import stacked, stacked_in_file
from tacit.errors import InvalidInput, PrivacyWarning
from tacit.estimators import _classes
from tacit.estimators._base import Found, Learned, MultiTaskEstimator
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._progress import check_progress, check_verbose, watching
from tacit.privacy._pricing import check_data
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation
from tacit.privacy.mechanisms import Exact
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.plan import Plan
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import ParquetTasks, TaskSet

__all__ = ["Conversation", "PrivateEstimator", "Sizes", "default_delta", "open_ledger"]

_LEDGER = "None, a Ledger, or the path of one"
_RANDOM_STATE = "None, a whole number of at least 0, a numpy generator or a tacit Entropy"
_RANDOM_STATES = (Integral, np.random.RandomState, np.random.Generator, Entropy)
_PUBLIC = "the number of tasks and the features are public"
_ALONE = "this fit alone is counted: it has no ledger, and other fits on the same rows add to its ε"


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

    @classmethod
    def of(cls, tasks: TaskSet | ParquetTasks, n_outputs: int) -> Sizes:
        """Return the sizes of a task set."""
        return cls(tasks.n_tasks, tasks.n_features, n_outputs, tasks.n_rows)

    def with_counts(self, tasks: TaskSet | ParquetTasks) -> Sizes:
        """Return these sizes with the rows by task, for methods that declare them public."""
        return replace(self, counts=tuple(int(count) for count in tasks.counts))


@dataclass(frozen=True)
class Conversation:
    """What a run leaves: personal models, public state, billboard, and statements by attribute."""

    models: Array
    public: Any
    history: tuple[dict[str, Any], ...]
    billboard: Billboard
    statements: dict[str, Any]


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
        Where tasks live, such as `tacit.engines.Local` with a limit on batches.
    progress : True, callable(release, n_releases) or None
        True shows a bar with the releases made and their ε.
    verbose : bool, default False
        Write a line to standard error after every release.
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
    verbose: bool | int = False
    _parameter_constraints: ClassVar[Constraints] = {
        "epsilon": [
            rule(_check.positive, allow_inf=True, remedy='use epsilon=float("inf") for no privacy')
        ],
        "delta": ["auto", rule(_check.below, limit=1, remedy='use "auto", or 0 for pure ε')],
        "mechanism": [rule(_check.one_of, choices=("auto", "gaussian", "gamma-vector"))],
        "clip": ["auto", rule(_check.positive, remedy='use clip="auto" or a public radius')],
        "n_rounds": ["auto", rule(_check.positive_integer, remedy='use "auto" or at least 1')],
        "ledger": [None, rule(_check.instance, kinds=(Ledger, str, PathLike), wanted=_LEDGER)],
        "data": [None, lambda _, value: check_data(value)],
        "random_state": [None, rule(_check.instance, kinds=_RANDOM_STATES, wanted=_RANDOM_STATE)],
        "engine": [lambda _, value: engine_from(value)],
        "progress": [None, check_progress],
        "verbose": [check_verbose],
    }
    _unit: Unit = Unit.TASK  # what is protected
    _assumptions: tuple[str, ...] = (_PUBLIC,)
    _not_protected: tuple[str, ...] = ()
    _definition: str = "auto"
    _sizes: Sizes | None = None  # of a fit that held a conversation
    _checkpoint: Unkept | Checkpoint = Unkept()

    def __init_subclass__(cls, **options: Any) -> None:
        """Give every private estimator the parameter ``verbose``."""
        super().__init_subclass__(**options)
        constructor = inspect.signature(cls.__init__)
        if "epsilon" in constructor.parameters and "verbose" not in constructor.parameters:
            cls.__init__ = _classes.with_parameter(  # type: ignore[method-assign]
                cls.__init__, "verbose", False
            )

    @abstractmethod
    def _protocol(self, sizes: Sizes) -> Protocol[Any, Any]:
        """Return the conversation, from public sizes only."""

    def _learn_open(self, tasks: TaskSet, targets: Array) -> Found:
        """Learn without privacy; by default the same conversation without noise."""
        return self._converse(tasks, targets.shape[1])

    def _read_public(self, public: Any, sizes: Sizes) -> dict[str, Any]:  # noqa: ARG002
        """Return what releases tell: further fields of `Learned`."""
        return {}

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        return Schedule.calibrate(
            protocol.rounds(),
            epsilon=self.epsilon,
            delta=self._run_delta(sizes),
            mechanism=self.mechanism,
            n_tasks=sizes.n_tasks,
        )

    def _staged(self, sizes: Sizes) -> tuple[Protocol[Any, Any], Schedule]:
        protocol = self._protocol(sizes)
        return protocol, self._schedule(protocol, sizes)

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
        _, schedule = self._staged(sizes)
        return Plan.of_schedule(
            schedule,
            method=type(self).__name__,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_rows=n_rows,
            epsilon=float(self.epsilon) if schedule.rounds else 0.0,
            delta=self._run_delta(sizes) if schedule.rounds else 0.0,
        )

    @property
    def _private(self) -> bool:
        return not math.isinf(self.epsilon)

    @property
    def _protects_rows(self) -> bool:
        """Whether single rows are protected, as the unit or besides the tasks."""
        return self._unit is Unit.ROW or getattr(self, "epsilon_rows", None) is not None

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

    def _run_delta(self, sizes: Sizes) -> float:
        """Return the δ of a run with these sizes."""
        return self._delta(self._n_units(sizes))

    def _learn(self, tasks: TaskSet, targets: Array) -> Found:
        self._sizes = None
        if not self._private:
            self._charge_open()
            return self._learn_open(tasks, targets)
        return self._converse(tasks, targets.shape[1])

    def _charge_open(self) -> None:
        """Put a fit that hides nothing, by a computation of its own, on the ledger it was given."""
        if self.ledger is None or not self._open_apart:
            return
        event, ledger = Exact().event, open_ledger(self.ledger, math.inf, 0.0)
        replaced, name = Adjacency.REPLACE_ONE, type(self).__name__
        with ledger.reserve(
            event, unit=self._unit, adjacency=replaced, data=self.data, label=name
        ) as held:
            held.charge(event)

    @property
    def _open_apart(self) -> bool:
        """Whether learning without privacy is another computation, over all rows at once."""
        return type(self)._learn_open is not PrivateEstimator._learn_open

    @property
    def _reads_batches(self) -> bool:
        own_kind = type(self)._converse is not PrivateEstimator._converse
        return not own_kind and (self._private or not self._open_apart)

    def _learn_file(self, rows: ParquetTasks, n_outputs: int, models: Path | None) -> Found:
        self._sizes = None
        if not self._private and self._open_apart:
            raise InvalidInput(
                f"epsilon={self.epsilon}: without privacy {type(self).__name__} learns from all "
                "rows at once; read the file into a frame and use fit, or give a finite epsilon"
            )
        if not self._reads_batches:  # a talk of its own kind
            return super()._learn_file(rows, n_outputs, models)
        return self._converse(rows, n_outputs, models)

    def _converse(
        self, tasks: TaskSet | ParquetTasks, n_outputs: int, file: Path | None = None
    ) -> Found:
        """Hold the conversation and read it off."""
        sizes = Sizes.of(tasks, n_outputs)
        if self._unit is Unit.ROW:
            sizes = sizes.with_counts(tasks)
        entropy = self._checkpoint.entropy(self.random_state)
        run = self._conversation(self._protocol(sizes), tasks, sizes, entropy, file=file)
        return self._found(run, sizes)

    def _found(self, run: Conversation, sizes: Sizes) -> Found:
        """Read models and public facts off a conversation."""
        public = self._read_public(run.public, sizes)
        extra = {**public.pop("extra", {}), **run.statements}
        return Learned(
            coef=run.models[..., :-1],
            intercept=run.models[..., -1],
            statement=extra.pop("privacy_"),
            history=run.history,
            billboard=run.billboard,
            extra=extra,
            **public,
        )

    def _conversation(
        self,
        protocol: Protocol[Any, Any],
        tasks: TaskSet | ParquetTasks,
        sizes: Sizes,
        entropy: Entropy,
        *,
        charged: bool = False,
        file: Path | None = None,
    ) -> Conversation:
        """Reserve the whole budget, conduct the protocol, and state what was guaranteed.

        Guarantee: the ledger accepts or refuses the whole schedule before the data are touched;
        each release is charged before it is published. With ``charged`` the caller has charged the
        ledger for it already, together with others.
        """
        schedule = self._schedule(protocol, sizes)
        engine = engine_from(self.engine, homes=self._checkpoint.homes)
        parties = engine.parties(protocol, tasks, entropy=entropy.child("homes"))
        delta, name = self._run_delta(sizes), type(self).__name__
        watched = watching(self.progress, self.verbose, schedule, self._unit, delta, name)
        with self._board(schedule, sizes, charged=charged) as billboard, watched as advance:
            outcome = conduct(
                protocol,
                schedule,
                parties,
                billboard,
                entropy=entropy.child("curator"),
                progress=advance,
            )
            finished = parties.finish(outcome.public)
            models = (
                stacked(finished)
                if isinstance(tasks, TaskSet)
                else stacked_in_file(finished, tasks.n_tasks, file)
            )
        self._sizes = self._public_sizes(sizes)
        statements = self._statements(schedule, billboard, sizes)
        stated: Statement = statements["privacy_"]
        if self.ledger is None and not charged and stated.private and stated.n_releases:
            assumed = (*stated.assumptions, _ALONE)
            statements["privacy_"] = replace(stated, assumptions=assumed)
        return Conversation(models, outcome.public, outcome.history, billboard, statements)

    def _board(
        self, schedule: Schedule, sizes: Sizes, *, charged: bool
    ) -> AbstractContextManager[Billboard]:
        """Return the billboard of a run, new or taken up again, with its budget behind it."""
        if charged or not schedule.rounds:  # what releases nothing needs no line in a ledger
            return nullcontext(Billboard())
        ledger = open_ledger(self.ledger, *self._total(sizes))
        return self._checkpoint.held(
            ledger, lambda run: self._reserved(ledger, schedule, sizes, run)
        )

    def _public_sizes(self, sizes: Sizes) -> Sizes:
        """Return what may be kept beside a model: the number of rows only where it is public."""
        return sizes if self._unit is Unit.ROW else replace(sizes, n_rows=None)

    def _reserved(
        self, ledger: Ledger, schedule: Schedule, sizes: Sizes, run: str | None = None
    ) -> Reservation:
        """Set the schedule's whole budget aside, on every line, or raise before data are touched.

        Rows that a task noises on its way are charged besides the tasks.
        """
        rows = schedule.events(Unit.ROW) if self._unit is Unit.TASK else []
        return ledger.reserve(
            schedule.events(self._unit),
            unit=self._unit,
            adjacency=schedule.adjacency,
            data=self.data,
            delta=self._run_delta(sizes),
            rows=rows or None,
            rows_delta=self._total(sizes)[1] if rows else None,
            label=type(self).__name__,
            run=run,
        )

    def _total(self, sizes: Sizes) -> tuple[float, float]:
        """Return the (ε, δ) that a ledger made for this run alone must hold."""
        return float(self.epsilon), self._run_delta(sizes)

    def _statements(self, schedule: Schedule, billboard: Billboard, sizes: Sizes) -> dict[str, Any]:
        """Return what was guaranteed, by fitted attribute."""
        found = Statement.of_run(
            billboard,
            unit=self._unit,
            adjacency=schedule.adjacency,
            delta=self._run_delta(sizes),
            definition=self._definition,
            curator=schedule.trust(self._unit) if schedule.rounds else "none",
            n_units=self._n_units(sizes),
            assumptions=self._assumptions,
            not_protected=self._not_protected,
        )
        return {"privacy_": found}

    def _rehearse(self, sizes: Sizes) -> Statement:
        """Reserve and charge what a fit would, without data, and return what it would state."""
        if not self._private and self._open_apart:
            self._charge_open()
            return self._stated(Statement.non_private(n_units=sizes.n_tasks))
        _, schedule = self._staged(sizes)
        with self._reserved(open_ledger(self.ledger, *self._total(sizes)), schedule, sizes) as held:
            billboard = Billboard(held)
            rehearse(schedule, billboard, seeded=self.random_state is not None)
        stated: Statement = self._statements(schedule, billboard, sizes)["privacy_"]
        return self._stated(stated)

    def _public_state(self, billboard: Billboard | None) -> tuple[Protocol[Any, Any], Any]:
        """Return the protocol and what its releases led to, by reading them again."""
        if self._sizes is None or billboard is None:
            raise InvalidInput(
                "billboard_: this model was not learned from releases (epsilon=inf), or they are "
                "not beside it; fit with a finite epsilon, and keep billboard.npz with the model"
            )
        with warnings.catch_warnings():  # reading what a published mechanism released leaks no more
            warnings.simplefilter("ignore", PrivacyWarning)
            protocol, schedule = self._staged(self._sizes)
        read, kept = history_of(schedule, billboard), self.history_
        own = self.billboard_ is None or self.billboard_.head == billboard.head
        if not own or len(read) != len(kept) or not all(map(_same_noise, read, kept)):
            raise InvalidInput(
                "billboard: its releases are not those of this model; give the model's own"
            )
        return protocol, fold(protocol, schedule, billboard)

    def _later(self, tasks: TaskSet, targets: Array) -> Array:  # noqa: ARG002
        protocol, public = self._public_state(self.billboard_)
        return late_models(protocol, tasks, public)


def _same_noise(read: dict[str, Any], kept: dict[str, Any]) -> bool:
    same = all(read[name] == kept.get(name) for name in ("name", "mechanism"))
    return same and math.isclose(read["scale"], kept.get("scale", math.nan), rel_tol=1e-9)
