"""Learning with a server that nobody need trust, every task at its own pace."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

import numpy as np

from tacit import _check
from tacit.errors import InvalidInput
from tacit.estimators._base import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.penalties import OWN_PENALTIES, SHARED_PENALTIES
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import DEFINITIONS
from tacit.privacy.unit import Unit
from tacit.protocols.asynchronous import AsynchronousProtocol, AsynchronousPublic, Design
from tacit.protocols.protocol import Protocol

__all__ = ["AsynchronousClassifier", "AsynchronousRegressor"]

_TURNS = 20
_CLIP = 0.5
_MOST_TASKS = 10**5
_LEAST_INFORMATION = 1.0
_MECHANISMS = ("auto", "gaussian", "gamma-vector")
_PUBLIC = "the number of tasks and the features are public"
_BOUNDS = "the number of rows of every task is public, and row_norm, target_bound and clip are"
_ORDER = "when a task speaks does not depend on what its rows hold"


class _Asynchronous(PrivateEstimator):
    _unit = Unit.ROW
    _definition = DEFINITIONS[0]  # personal models stay at home
    _assumptions = (_PUBLIC, _BOUNDS, _ORDER)

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
        self.delta = delta
        self.mechanism = mechanism
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check.one_of("shared", self.shared, SHARED_PENALTIES)
        _check.one_of("own", self.own, OWN_PENALTIES)
        _check.one_of("mechanism", self.mechanism, _MECHANISMS)
        for name in ("shared_strength", "step", "clip", "row_norm"):
            if getattr(self, name) != "auto":
                _check.positive(name, getattr(self, name), remedy='use "auto", or a public number')
        _check.non_negative("own_strength", self.own_strength, remedy="use 0.1")
        _check.non_negative("tolerance", self.tolerance, remedy="use 0.0 to take every turn")
        _check.positive("target_bound", self.target_bound, remedy="give a public bound of |y|")
        for name in ("n_rounds", "local_steps"):
            _check.positive_integer(name, getattr(self, name), remedy="it is a number of turns")
        if self.sampling != 1:
            _check.fraction("sampling", self.sampling, remedy="give a row's chance to join a turn")
        if not 0 < float(self.relaxation) < 2:
            raise InvalidInput(f"relaxation={self.relaxation!r}: must lie between 0 and 2; use 1.0")
        if int(self.n_rounds) % int(self.local_steps):
            raise InvalidInput(
                f"local_steps={self.local_steps}: must divide n_rounds={self.n_rounds}; every "
                "local step is a release, and only the last of them moves what is shared"
            )

    def _protocol(self, sizes: Sizes) -> AsynchronousProtocol:
        squared = self._loss.name == "squared"
        counts = sizes.counts
        if counts is None:  # a plan: tasks are taken to be alike
            if sizes.n_tasks > _MOST_TASKS:
                raise InvalidInput(
                    f"n_tasks={sizes.n_tasks}: a server answers at most {_MOST_TASKS} tasks one by "
                    "one; protect whole tasks with another method"
                )
            counts = (max(1, self._n_units(sizes) // sizes.n_tasks),) * sizes.n_tasks
        automatic = self.row_norm == "auto"
        norm = math.sqrt(sizes.n_features) if automatic else float(self.row_norm)
        bound = float(self.target_bound) if squared else 1.0
        clip = (_CLIP if self._private else math.inf) if self.clip == "auto" else float(self.clip)
        once = AsynchronousProtocol(
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
            step=self._step_length(sizes),
            relaxation=float(self.relaxation),
            clip=clip,
            sampling=float(self.sampling),
            tolerance=float(self.tolerance),
        )
        return once.with_strength(self._strength(once, sizes))

    def _step_length(self, sizes: Sizes) -> float:
        if self.step != "auto":
            return float(self.step)
        # f(p + q) has twice the curvature of the loss, and a row the norm 1 at most.
        return 1 / (2 * self._loss.curvature)

    def _strength(self, protocol: AsynchronousProtocol, sizes: Sizes) -> float:
        """Return λ: what pure noise would need to be thresholded away, or a small constant."""
        if self.shared_strength != "auto":
            return float(self.shared_strength)
        noise = super()._schedule(protocol, sizes).mechanisms[0]
        return max(1e-3, protocol.noise_edge(noise))

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        """Return the calibrated turns; none where public numbers say that they cannot help."""
        schedule = super()._schedule(protocol, sizes)
        if sizes.n_tasks < 2:
            return Schedule((), ())
        if self.gate and isinstance(protocol, AsynchronousProtocol):
            worth = protocol.information(schedule.mechanisms[0]) >= _LEAST_INFORMATION
            return schedule if worth else Schedule((), ())
        return schedule

    def _read_public(self, public: AsynchronousPublic, sizes: Sizes) -> dict[str, Any]:
        if not np.isfinite(public.moved).any():
            return {}
        shared = self._protocol(sizes).raw_shared(public).mean(axis=0)
        return {"shared_coef": shared[:, :-1], "shared_intercept": shared[:, -1]}


class AsynchronousRegressor(MultiTaskRegressor, _Asynchronous):
    """Regression with a shared part at an untrusted server, every task at its own pace.

    W = P + Q: the server holds P, under a penalty that couples the tasks, and hears one noised sum
    of row gradients a turn; each task's final model is fitted at home, around what the others share,
    and alone where that predicts its rows better.

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
        "auto" is 1/(2L) for rows of norm 1.
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
    delta, mechanism, fit_intercept, ledger, data, random_state, engine, progress
        As in every private estimator; ``mechanism`` is "auto" (Gaussian for δ > 0), "gaussian" or
        "gamma-vector". ``engine=tacit.engines.Clock(…)`` simulates a network; "local" asks tasks
        in turn.
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
