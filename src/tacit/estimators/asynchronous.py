"""Learning with a server that nobody need trust, every task at its own pace."""

from __future__ import annotations

import math
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit.errors import InvalidInput
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES
from tacit.privacy.ledger import Ledger
from tacit.privacy.published import AsynchronousPerIterationPublished
from tacit.privacy.schedule import Curator, Distributed, Place, Schedule
from tacit.privacy.statement import DEFINITIONS
from tacit.privacy.unit import Unit
from tacit.protocols.asynchronous import AsynchronousProtocol, Design
from tacit.protocols.asynchronous_published import PublishedAsynchronousProtocol
from tacit.protocols.protocol import Protocol
from tacit.protocols.summed_gradients import SummedGradientsProtocol

Talk = AsynchronousProtocol | SummedGradientsProtocol

__all__ = ["AsynchronousClassifier", "AsynchronousRegressor"]

_TURNS = 20
_CLIP = 0.5
# Steps over the loss's curvature. f(p + q) has twice that of the loss and rows have norm 1 at most,
# so that steps below 1 always converge; those of rows that spread over many directions may be
# longer, and under a budget must be.
_SAFE, _BOLD, _PRINTED = 0.9, 4.0, 0.1
_PLACES: dict[str, Place] = {"trusted": Curator(), "secure": Distributed()}
_MOST_TASKS = 10**5
_LEAST_INFORMATION = 1.0
_MECHANISMS = ("auto", "gaussian", "gamma-vector", AsynchronousPerIterationPublished.name)
_PUBLIC = "the number of tasks and the features are public"
_COUNTS = "the number of rows of every task is public"
_LIMITS = "row_norm, target_bound and clip are public"
_SECURE = (
    "sums are shown by a protocol for secure sums, and a majority of the tasks, the protected one "
    "among them, keep their messages and their shares of the noise to themselves"
)
_ORDER = "when a task speaks does not depend on what its rows hold"


def _relaxation(name: str, value: Any) -> float:
    """Return a factor between 0 and 2."""
    found = _check.positive(name, value, remedy="use 1.0, or a number below 2")
    if found >= 2:
        raise InvalidInput(f"{name}={value!r}: must lie between 0 and 2; use 1.0")
    return found


class _Asynchronous(PrivateEstimator):
    _definition = DEFINITIONS[0]  # personal models stay at home
    _parameter_constraints: ClassVar[Constraints] = {
        "shared": [rule(_check.one_of, choices=SHARED_PENALTIES)],
        "own": [rule(_check.one_of, choices=OWN_PENALTIES)],
        "shared_strength": ["auto", rule(_check.positive, remedy='use "auto" or a strength')],
        "own_strength": [rule(_check.non_negative, remedy="use 0.1")],
        "n_rounds": [rule(_check.positive_integer, remedy="it is a task's number of releases")],
        "local_steps": [rule(_check.positive_integer, remedy="use 1")],
        "step": ["auto", rule(_check.positive, remedy='use "auto" or the length of a step')],
        "relaxation": [_relaxation],
        "sampling": [1, 1.0, rule(_check.fraction, remedy="give a row's chance to join a turn")],
        "tolerance": [rule(_check.non_negative, remedy="use 0.0 to take every turn")],
        "row_norm": ["auto", rule(_check.positive, remedy='use "auto" or a public norm of rows')],
        "target_bound": [rule(_check.positive, remedy="give a public bound of |y|")],
        "gate": [rule(_check.flag)],
        "aggregation": [rule(_check.one_of, choices=("untrusted", *_PLACES))],
        "unit": [rule(_check.one_of, choices=tuple(Unit))],
        "split": [rule(_check.fraction, remedy="give the first noise's part of ε, 0.5, say")],
        "mechanism": [rule(_check.one_of, choices=_MECHANISMS)],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        shared: str = "low-rank",
        own: str = "ridge",
        shared_strength: float | str = "auto",
        own_strength: float = 0.1,
        n_rounds: int = _TURNS,
        local_steps: int = 1,
        step: float | str = "auto",
        relaxation: float = 1.0,
        sampling: float = 1.0,
        tolerance: float = 0.0,
        clip: float | str = "auto",
        row_norm: float | str = "auto",
        target_bound: float = 1.0,
        gate: bool = True,
        aggregation: str = "untrusted",
        unit: str = "row",
        split: float = 0.5,
        delta: float | str = "auto",
        mechanism: str = "auto",
        fit_intercept: bool = True,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.shared = shared
        self.own = own
        self.shared_strength = shared_strength
        self.own_strength = own_strength
        self.n_rounds = n_rounds
        self.local_steps = local_steps
        self.step = step
        self.relaxation = relaxation
        self.sampling = sampling
        self.tolerance = tolerance
        self.clip = clip
        self.row_norm = row_norm
        self.target_bound = target_bound
        self.gate = gate
        self.aggregation = aggregation
        self.unit = unit
        self.split = split
        self.delta = delta
        self.mechanism = mechanism
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    @property
    def _unit(self) -> Unit:  # type: ignore[override]
        return Unit(self.unit)

    @property
    def _assumptions(self) -> tuple[str, ...]:  # type: ignore[override]
        special = {"untrusted": (_ORDER,), "trusted": (), "secure": (_SECURE,)}
        counts = (_COUNTS,) if self.unit == "row" else ()
        return (_PUBLIC, *counts, _LIMITS, *special.get(self.aggregation, ()))

    @property
    def _printed(self) -> bool:
        return self.mechanism == AsynchronousPerIterationPublished.name

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.aggregation == "untrusted" and self.unit == "task":
            raise InvalidInput(
                'unit="task": a task that adds its own noise would hide its whole gradient; use '
                'aggregation="trusted", or unit="row"'
            )
        if self.aggregation != "untrusted" and (self.sampling != 1 or self._printed):
            raise InvalidInput(
                f"aggregation={self.aggregation!r}: takes every row, with sound noise; use "
                'aggregation="untrusted", or sampling=1.0 and mechanism="auto"'
            )
        if int(self.n_rounds) % int(self.local_steps):
            raise InvalidInput(
                f"local_steps={self.local_steps}: must divide n_rounds={self.n_rounds}; every "
                "local step is a release, and only the last of them moves what is shared"
            )

    def _protocol(self, sizes: Sizes) -> Talk:
        talk = self._talk(sizes)
        if self.aggregation != "untrusted":
            place = _PLACES[self.aggregation]
            once = SummedGradientsProtocol(talk, self._unit, place)
            strength = self._strength(once, sizes)
            return replace(once, talk=replace(talk, shared_strength=strength))
        return replace(talk, shared_strength=self._strength(talk, sizes))

    def _talk(self, sizes: Sizes) -> AsynchronousProtocol:
        squared = self._loss.name == "squared"
        counts = sizes.counts
        if counts is None:  # a plan: tasks are taken to be alike
            if sizes.n_tasks > _MOST_TASKS:
                raise InvalidInput(
                    f"n_tasks={sizes.n_tasks}: a server answers at most {_MOST_TASKS} tasks one by "
                    "one; protect whole tasks with another method"
                )
            alike = self._n_units(sizes) // sizes.n_tasks if self._unit is Unit.ROW else 1
            counts = (max(1, alike),) * sizes.n_tasks
        automatic = self.row_norm == "auto"
        norm = math.sqrt(sizes.n_features) if automatic else float(self.row_norm)
        bound = float(self.target_bound) if squared else 1.0
        clip = (_CLIP if self._private else math.inf) if self.clip == "auto" else float(self.clip)
        printed: dict[str, Any] = {}
        if self._printed:
            # S₁ = 2αC₁C₂/n (Lemma 1); clip stands for C₁C₂.
            first = self._step_length * 2 * clip / max(counts)
            epsilon = self.epsilon / int(self.n_rounds)
            noise = first / (self.split * epsilon) if self._private else 0.0
            printed = {"own_noise": noise, "random_state": self.random_state}
        kind = PublishedAsynchronousProtocol if self._printed else AsynchronousProtocol
        return kind(
            loss=self._loss,
            n_features=sizes.n_features,
            counts=counts,
            design=Design(norm, bound, self.fit_intercept),
            n_outputs=sizes.n_outputs,
            shared=self.shared,
            own=self.own,
            own_strength=float(self.own_strength),
            turns=int(self.n_rounds),
            local_steps=int(self.local_steps),
            step=self._step_length,
            relaxation=float(self.relaxation),
            clip=clip,
            sampling=float(self.sampling),
            tolerance=float(self.tolerance),
            **printed,
        )

    @property
    def _step_length(self) -> float:
        if self.step != "auto":
            return float(self.step)
        if self._printed:
            return _PRINTED / self._loss.curvature
        return (_BOLD if self._private else _SAFE) / self._loss.curvature

    def _strength(self, protocol: Talk, sizes: Sizes) -> float:
        """Return λ: what pure noise would need to be thresholded away, or a small constant."""
        if self.shared_strength != "auto":
            return float(self.shared_strength)
        noise = self._calibrated(protocol, sizes).mechanisms[0]
        return max(1e-3, protocol.noise_edge(noise))

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        """Return the calibrated turns; none where public numbers say that they cannot help."""
        schedule = self._calibrated(protocol, sizes)
        if sizes.n_tasks < 2:
            return Schedule((), ())
        if self.gate and not self._printed and isinstance(protocol, Talk):
            worth = protocol.information(schedule.mechanisms[0]) >= _LEAST_INFORMATION
            return schedule if worth else Schedule((), ())
        return schedule

    def _calibrated(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        if not self._printed or not self._private:
            return super()._schedule(protocol, sizes)
        rounds = protocol.rounds()
        # What the paper claims of one iteration, and adds up nowhere: here it is at least added up.
        noise = AsynchronousPerIterationPublished(
            self.epsilon / rounds[0].turns,
            row_norm=rounds[0].bound.radius,
            derivative_bound=1.0,
            n_rows=1,  # of a sum
            share=1 - self.split,
        )
        return Schedule(rounds, (noise,))

    def _read_public(self, public: Any, sizes: Sizes) -> dict[str, Any]:
        if not np.isfinite(public.moved).any():
            return {}
        shared = self._protocol(sizes).raw_shared(public).mean(axis=0)
        return {"shared_coef": shared[:, :-1], "shared_intercept": shared[:, -1]}


class AsynchronousRegressor(MultiTaskRegressor, _Asynchronous):
    """Regression with a shared part at an untrusted server, every task at its own pace.

    W = P + Q: the server holds P, under a penalty that couples the tasks, and hears one noised sum
    of row gradients a turn; each task's final model is fitted at home, around what the others
    share, and alone where that predicts its rows better.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget of a row over the whole run; ``float("inf")`` learns without privacy.
    shared : "low-rank" or "group-sparse"
        Penalty of P.
    own : "ridge", "entries" or "tasks"
        Penalty of Q. With ``shared`` the four structures of the literature: group-sparse + entries
        (dirty model), low-rank + ridge (alternating structure), group-sparse + tasks (robust
        feature learning), low-rank + tasks (robust multi-task learning).
    shared_strength : "auto" or float
        "auto" is what thresholds pure noise away, from public numbers.
    own_strength : float, default 0.1
    n_rounds : int, default 20
        Turns of every task; each is a release. A task that has taken them listens on.
    local_steps : int, default 1
        So many turns in a row move the own part; the last of them moves the shared part, too.
    step : "auto" or float
        "auto" is 4/L under a budget (for rows that spread over several directions) and 0.9/L,
        which always converges, without; L is the curvature of the loss.
    relaxation : float, default 1.0
        Over-relaxation of both parts, between 0 and 2.
    sampling : float, default 1.0
        A row's chance to join a turn, by a coin tossed at home; accounted with amplification,
        under zero-out adjacency.
    tolerance : float, default 0.0
        Stop once no task's model moved further with its last turn. The budget is spent all the
        same: when to stop was read off the releases.
    clip : "auto" or float
        Largest norm of a row's gradient, in the units of rows of norm 1 and answers within 1;
        "auto" is 0.5.
    row_norm : "auto" or float
        Public limit of a row's norm; longer ones are scaled down. "auto" is √d.
    target_bound : float, default 1.0
        Public limit of the target's size in what is sent.
    gate : bool, default True
        Decide from public numbers, before anything is spent, whether to speak at all.
    aggregation : "untrusted", "trusted" or "secure"
        "untrusted": every task adds noise to what it sends, and speaks when it likes. "trusted":
        the server adds noise once, to the sum of everybody's gradients, and what is shared is one
        vector. "secure": the same, where a protocol for secure sums takes the server's place.
    unit : "row" or "task"
        What is protected; whole tasks only with sums.
    split : float, default 0.5
        ε₁/(ε₁ + ε₂) of the printed scheme.
    delta, mechanism, fit_intercept, ledger, data, random_state, engine, progress
        As in every private estimator; ``mechanism`` is "auto" (Gaussian for δ > 0), "gaussian" or
        "gamma-vector"; "asynchronous-per-iteration-published" is the paper's own scheme, whose
        claim does not hold. ``engine=tacit.engines.Clock(…)`` simulates a network; "local" asks
        tasks in turn.
    unknown_task : "error" or "shared"
        "shared" answers tasks it has not seen with the mean of the shared parts.

    Guarantee: (ε, δ) joint differential privacy with the row as unit; see
    `tacit.protocols.asynchronous.AsynchronousProtocol`.
    """


class AsynchronousClassifier(MultiTaskClassifier, _Asynchronous):
    """Classification with a shared part at an untrusted server, every task at its own pace.

    Parameters are those of `AsynchronousRegressor`; ``target_bound`` has no effect. More than two
    classes are learned one against the rest, in one release a turn.

    Guarantee: (ε, δ) joint differential privacy with the row as unit; see
    `tacit.protocols.asynchronous.AsynchronousProtocol`.
    """
