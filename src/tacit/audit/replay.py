"""Record and replay: does what reaches the mechanism move by no more than is declared?

A protocol is run on one data set; its releases are recorded and fed, unchanged, to a second run on
a neighbouring data set. With the noise frozen like this the two runs may differ only in what the
changed task says, and the aggregate may differ by no more than the sensitivity that the mechanism
was calibrated for. This finds wrong proofs, without a single statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.audit.neighbours import changed_task, climb
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.noise.entropy import SeededEntropy
from tacit.privacy.published import AsynchronousPerIterationPublished, WishartPublished
from tacit.privacy.unit import Adjacency, Norm, Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = [
    "ProtocolFactory",
    "ReplayResult",
    "change_in",
    "declared_sensitivity",
    "replay",
    "replay_estimator",
    "search",
]

ProtocolFactory = Callable[[TaskSet], Protocol[Any]]

# Sums in floating point move by rounding; the sensitivity declared is of real numbers.
_ROUNDING = 1e-9

_SENSITIVITY_FIELDS = (
    ("sensitivity_l1", Norm.L1),
    ("sensitivity_l2", Norm.L2),
    ("sensitivity_trace", Norm.TRACE),
    ("sensitivity", Norm.L2),
)


@dataclass(frozen=True)
class ReplayResult:
    """How far two neighbouring runs came apart while hearing the same releases.

    Attributes
    ----------
    changes, declared
        By round: how far the aggregates are apart, and the sensitivity the mechanism declares.
    norms
        By round: the norm both are measured in.
    leaks
        What else differed although it may not: the words of every finding.

    Guarantee: ``violated`` is a proof for this pair of data sets (up to floating-point rounding);
    its absence says that this pair, not that every pair, is within the declaration.
    """

    changes: tuple[float, ...]
    declared: tuple[float, ...]
    norms: tuple[Norm, ...]
    leaks: tuple[str, ...] = field(default=())

    @property
    def ratios(self) -> tuple[float, ...]:
        """True over declared sensitivity, by round."""
        return tuple(
            change / limit if limit > 0 else (0.0 if change == 0 else float("inf"))
            for change, limit in zip(self.changes, self.declared, strict=True)
        )

    @property
    def worst(self) -> float:
        """The largest ratio of all rounds."""
        return max(self.ratios, default=0.0)

    @property
    def violated(self) -> bool:
        """Whether a declared sensitivity was exceeded or something else leaked."""
        return bool(self.leaks) or self.worst > 1.0 + _ROUNDING

    def check(self) -> None:
        """Raise `PrivacyLeak` if the declaration does not hold."""
        if self.leaks:
            raise PrivacyLeak("; ".join(self.leaks))
        if self.violated:
            t = int(np.argmax(self.ratios))
            raise PrivacyLeak(
                f"round {t + 1}: the aggregate moved by {self.changes[t]:.6g} in {self.norms[t]} "
                f"norm, {self.ratios[t]:.4g} times the declared {self.declared[t]:.6g}; "
                "tighten the bound or declare the true sensitivity"
            )


def declared_sensitivity(mechanism: Mechanism) -> tuple[Norm, float]:
    """Return the norm and the sensitivity a mechanism was built for."""
    for name, norm in _SENSITIVITY_FIELDS:
        if hasattr(mechanism, name):
            return norm, float(getattr(mechanism, name))
    if isinstance(mechanism, AsynchronousPerIterationPublished):
        return Norm.L2, mechanism.scale * mechanism.epsilon
    if isinstance(mechanism, WishartPublished):
        return Norm.TRACE, mechanism.radius**2
    raise InvalidInput(
        f"mechanism={mechanism!r}: declares no sensitivity; replay a run that adds noise"
    )


def change_in(norm: Norm, difference: Array) -> float:
    """Return the norm of a change of the aggregate."""
    if norm is Norm.L1:
        return float(np.sum(np.abs(difference)))
    if norm is Norm.TRACE:
        return float(np.sum(np.linalg.svd(difference, compute_uv=False)))
    return float(np.linalg.norm(difference))


def replay(
    protocol_factory: ProtocolFactory,
    tasks: TaskSet,
    neighbour: TaskSet,
    *,
    random_state: int = 0,
) -> ReplayResult:
    """Run a protocol on ``tasks``, replay its releases on ``neighbour``, and compare.

    Parameters
    ----------
    protocol_factory
        Builds the protocol from a task set; it is called once for each of the two, so that
        anything calibrated from private data shows. ``lambda tasks: protocol`` for a fixed one.
    tasks, neighbour
        Two task sets with the same task names that differ in one task's data (for a protocol
        whose unit is the row: in one row). Under add-or-remove and zero-out adjacency the changed
        task says nothing (a zero message) in the second run, whatever its data.
    random_state
        Seed of the recorded noise.

    Returns
    -------
    ReplayResult
        Changes against declared sensitivities, and leaks: mechanisms or numbers of rounds that
        depend on the data, messages or models of *other* tasks that changed although every task
        heard the same releases.
    """
    protocols = (protocol_factory(tasks), protocol_factory(neighbour))
    return _compared(protocols, (tasks, neighbour), random_state)


def _compared(
    protocols: tuple[Protocol[Any], Protocol[Any]],
    data: tuple[TaskSet, TaskSet],
    random_state: int,
) -> ReplayResult:
    """Run the first protocol with fresh noise, the second with the first one's releases."""
    tasks, neighbour = data
    at = changed_task(tasks, neighbour, row=protocols[0].unit is Unit.ROW)
    if protocols[0].n_rounds != protocols[1].n_rounds:
        return ReplayResult((), (), (), ("the number of rounds depends on the data",))
    record = _Record(at)
    entropy = SeededEntropy(random_state)
    states = [run.start(own) for run, own in zip(protocols, data, strict=True)]
    for t in range(protocols[0].n_rounds):
        spoken = [run.speak(state, t) for run, state in zip(protocols, states, strict=True)]
        record.compare_others(f"round {t + 1}: message", *spoken)
        bounded = [run.bound(said) for run, said in zip(protocols, spoken, strict=True)]
        if protocols[0].adjacency is not Adjacency.REPLACE_ONE:
            bounded[1] = _silenced(bounded[1], at)
        record.compare_others(f"round {t + 1}: bounded message", *bounded)
        sums = [run.aggregate(said) for run, said in zip(protocols, bounded, strict=True)]
        mechanisms = [run.mechanism(t) for run in protocols]
        record.add_round(t, sums, mechanisms)
        release = mechanisms[0].release(sums[0], entropy).value
        states = [
            run.listen(state, release, t) for run, state in zip(protocols, states, strict=True)
        ]
    record.compare_others(
        "model", *[run.finish(state) for run, state in zip(protocols, states, strict=True)]
    )
    return record.result()


def search(
    protocol_factory: ProtocolFactory,
    tasks: TaskSet,
    *,
    task: int = 0,
    binary: bool = False,
    n_steps: int = 60,
    random_state: int = 0,
) -> ReplayResult:
    """Hill-climb on a canary task (row) of both neighbours for the worst replay, and return it.

    A leak outside the declared sensitivity ends the search at once.
    """

    def result(first: TaskSet, second: TaskSet) -> ReplayResult:
        return replay(protocol_factory, first, second, random_state=random_state)

    def objective(first: TaskSet, second: TaskSet) -> float:
        found = result(first, second)
        return float("inf") if found.leaks else found.worst

    row = protocol_factory(tasks).unit is Unit.ROW
    pair = climb(
        objective,
        tasks,
        task=task,
        row=row,
        binary=binary,
        n_steps=n_steps,
        random_state=random_state,
    )
    return result(*pair)


def replay_estimator(
    estimator: Any, tasks: TaskSet, neighbour: TaskSet, *, random_state: int = 0
) -> ReplayResult:
    """Replay every protocol that an estimator runs when it is fitted on ``tasks``.

    The estimator is fitted on both data sets to see which protocols it builds from each, so that a
    calibration, clip or number of rounds taken from private data shows as a leak.
    """
    runs = [_protocols_of(estimator, data, random_state) for data in (tasks, neighbour)]
    if not runs[0] or len(runs[0]) != len(runs[1]):
        raise InvalidInput(
            f"estimator={estimator!r}: ran {len(runs[0])} and {len(runs[1])} protocols; "
            "replay needs an estimator that runs the same, at least one, on any data"
        )
    found = [_compared((p, q), (a, b), random_state) for (p, a), (q, b) in zip(*runs, strict=True)]
    return ReplayResult(
        sum((one.changes for one in found), ()),
        sum((one.declared for one in found), ()),
        sum((one.norms for one in found), ()),
        sum((one.leaks for one in found), ()),
    )


def _protocols_of(
    estimator: Any, tasks: TaskSet, random_state: int
) -> list[tuple[Protocol[Any], TaskSet]]:
    """Return the protocols a fit runs, each with the task set it is run on."""
    from tacit.audit.estimator import fit_on

    recorded: list[tuple[Protocol[Any], TaskSet]] = []

    def watch(model: Any) -> None:
        run = getattr(model, "_run", None)
        if run is None:
            return

        def watched(protocol: Protocol[Any], data: TaskSet, **options: Any) -> Any:
            recorded.append((protocol, data))
            return run(protocol, data, **options)

        model._run = watched

    fit_on(estimator, tasks, random_state, prepare=watch)
    return recorded


def _silenced(messages: Array, task: int) -> Array:
    messages = messages.copy()
    messages[task] = 0.0
    return messages


class _Record:
    """Collects what two runs did, round by round."""

    def __init__(self, changed: int) -> None:
        self._changed = changed
        self._changes: list[float] = []
        self._declared: list[float] = []
        self._norms: list[Norm] = []
        self._leaks: list[str] = []

    def compare_others(self, what: str, first: Array, second: Array) -> None:
        others = np.arange(len(first)) != self._changed
        scale = float(np.max(np.abs(first[others]), initial=1.0))
        moved = np.abs(first[others] - second[others]) > _ROUNDING * scale
        if moved.any():
            task = np.flatnonzero(others)[np.argwhere(moved)[0, 0]]
            self._leaks.append(
                f"{what} of task {task} changed with task {self._changed}'s data although both "
                "heard the same releases"
            )

    def add_round(self, t: int, sums: list[Array], mechanisms: list[Mechanism]) -> None:
        if mechanisms[0] != mechanisms[1]:
            self._leaks.append(
                f"round {t + 1}: the mechanism depends on the data "
                f"({mechanisms[0]!r} against {mechanisms[1]!r})"
            )
        norm, limit = declared_sensitivity(mechanisms[0])
        self._norms.append(norm)
        self._declared.append(limit)
        self._changes.append(change_in(norm, sums[1] - sums[0]))

    def result(self) -> ReplayResult:
        return ReplayResult(
            tuple(self._changes), tuple(self._declared), tuple(self._norms), tuple(self._leaks)
        )
