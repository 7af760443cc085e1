"""What a run would cost before anything is spent: noise, signal, bytes, memory, time.

All of it is read off a `Schedule`; no method is known here by name. Times come from slopes that
`benchmarks/suite.py` measures beside what is planned: they tell minutes from days, not more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from tacit import _check
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Round, Schedule
from tacit.privacy.unit import Adjacency, Norm, Unit

__all__ = ["BYTES_PER_NUMBER", "Plan", "PlannedRelease", "least_epsilon"]

BYTES_PER_NUMBER = 8
# Seconds that one core of the curator's takes to bound a number that is sent, to add a number up,
# and to draw the noise on a number of a release.
SECONDS_PER_SENT, SECONDS_PER_ADDED, SECONDS_PER_NOISE = 5e-9, 2e-10, 5e-8
_LARGEST_EPSILON, _SMALLEST_EPSILON = 1e4, 1e-6
# What one curator, one link of 10 GB/s in all and a week are taken to bear.
_MEMORY, _NETWORK, _TIME = 64e9, 10e9 * 7 * 86_400, 7 * 86_400.0


@dataclass(frozen=True)
class PlannedRelease:
    """The noise on one round's release.

    ``noise_to_signal`` is the root mean square norm of the noise over the largest norm the
    noiseless release can have: all messages of full length and in agreement (where rows are
    protected, the rows of an average task; one row, if their number is not known). Real messages
    agree less, so it is a floor.
    """

    name: str
    mechanism: str
    unit: Unit
    n_numbers: int
    turns: int
    sensitivity: float
    scale: float
    noise_multiplier: float
    noise_to_signal: float
    expected_cohort: float | None  # None: everybody

    @classmethod
    def of_round(
        cls, round: Round, mechanism: Mechanism, n_tasks: int, n_rows: int | None = None
    ) -> PlannedRelease:
        """Return the plan of one round."""
        noise = mechanism.noise_norm(round.shape)
        members = 1.0 if round.at_task else round.cohort.expected(n_tasks)
        rows = n_rows / n_tasks if round.unit is Unit.ROW and n_rows is not None else 1.0
        length = rows * round.sensitivity(Norm.L2, Adjacency.ZERO_OUT)
        reach = mechanism.reach if math.isfinite(mechanism.reach) else 0.0
        everybody = round.at_task or members == n_tasks
        return cls(
            name=round.name,
            mechanism=mechanism.name,
            unit=round.unit,
            n_numbers=_numbers(round),
            turns=round.turns,
            sensitivity=reach,
            scale=float(mechanism.scale),
            noise_multiplier=float(mechanism.scale) / reach if reach else 0.0,
            noise_to_signal=noise / (members * length),
            expected_cohort=None if everybody else members,
        )


def _numbers(round: Round) -> int:
    size = math.prod(round.shape)
    d = round.shape[-1] if round.shape else 1
    return size * (d + 1) // (2 * d) if round.bound.kind == "matrix" else size


@dataclass(frozen=True)
class Plan:
    """What a run costs; all of it computed from public numbers, nothing from data.

    ``bytes_up`` and ``bytes_down`` are one task's share of the whole run; the curator adds messages
    up as they arrive, so its memory does not grow with the tasks unless releases are kept by task.
    """

    method: str
    n_tasks: int
    n_features: int
    n_rows: int | None
    epsilon: float
    delta: float
    unit: Unit
    adjacency: Adjacency
    trust: str
    releases: tuple[PlannedRelease, ...]
    bytes_up: int
    bytes_down: int
    bytes_total: int
    curator_memory: int
    curator_seconds: float
    most_tasks: int | None  # that one exact sum can hold; None: any number
    tasks_needed: float | None = None  # by a theorem's assumption, up to its constant
    suggested_rounds: int | None = None  # by a theorem, its constants taken to be 1
    suggested_pull: float | None = None  # λ, as a multiple of the smoothness of a task's loss

    @classmethod
    def of_schedule(
        cls,
        schedule: Schedule,
        *,
        method: str,
        n_tasks: int,
        n_features: int,
        n_rows: int | None,
        epsilon: float,
        delta: float,
    ) -> Plan:
        """Return the plan of a schedule for a public number of tasks."""
        up = down = held = seconds = 0.0
        most = None
        for round in schedule.rounds:
            share = 1.0 if round.at_task else round.cohort.expected(n_tasks) / n_tasks
            size, sent = math.prod(round.shape), math.prod(round.sent)
            released = size * (n_tasks if round.at_task else 1)
            up += round.turns * share * sent
            # Who speaks alone is answered alone.
            down += round.turns * (size if round.apart else released) * round.posted
            spoken = round.turns * share * n_tasks
            seconds += spoken * (sent * SECONDS_PER_SENT + size * SECONDS_PER_ADDED)
            if not round.at_task:
                seconds += round.turns * size * SECONDS_PER_NOISE
                limit = getattr(round.bound, "most_messages", None)
                most = limit if most is None or limit is None else min(most, limit)
            # The sum, the noise, what is read off it and a copy on its way out.
            held = max(held, released * (1 if round.at_task else 4))
        unit = schedule.rounds[-1].unit if schedule.rounds else Unit.TASK
        return cls(
            method=method,
            n_tasks=n_tasks,
            n_features=n_features,
            n_rows=n_rows,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            adjacency=schedule.adjacency,
            trust=schedule.trust(unit),
            releases=tuple(
                PlannedRelease.of_round(round, mechanism, n_tasks, n_rows)
                for round, mechanism in zip(schedule.rounds, schedule.mechanisms, strict=True)
            ),
            bytes_up=math.ceil(up) * BYTES_PER_NUMBER,
            bytes_down=math.ceil(down) * BYTES_PER_NUMBER,
            bytes_total=math.ceil(n_tasks * (up + down)) * BYTES_PER_NUMBER,
            curator_memory=math.ceil(held) * BYTES_PER_NUMBER,
            curator_seconds=seconds,
            most_tasks=most,
        )

    @classmethod
    def without_releases(
        cls,
        method: str,
        n_tasks: int,
        n_features: int,
        *,
        n_outputs: int = 1,
        n_rows: int | None = None,
        pooled: bool = False,
    ) -> Plan:
        """Return the plan of learning alone (nothing leaves a task), or of pooling all rows."""
        sizes = {"n_tasks": n_tasks, "n_features": n_features, "n_outputs": n_outputs}
        for name, value in sizes.items():
            _check.positive_integer(name, value, remedy="it is a public size")
        plan = cls.of_schedule(
            Schedule((), ()),
            method=method,
            n_tasks=n_tasks,
            n_features=n_features,
            n_rows=n_rows,
            epsilon=math.inf if pooled else 0.0,
            delta=0.0,
        )
        if not pooled or n_rows is None:
            return plan
        width = (n_features + 1) * BYTES_PER_NUMBER
        share, model = math.ceil(n_rows / n_tasks) * width, n_outputs * width
        return replace(
            plan,
            bytes_up=share,
            bytes_down=model,
            bytes_total=n_rows * width + n_tasks * model,
            curator_memory=n_rows * width,
        )

    @property
    def protected(self) -> str:
        """Who is protected, in a few words."""
        if math.isinf(self.epsilon):
            return "nobody: not private"
        return f"{self.unit}" if self.releases else f"{self.unit}: nothing leaves it"

    @property
    def noise_to_signal(self) -> float:
        """The worst ratio of the rounds; above 1 the noise drowns even perfect agreement."""
        return max((release.noise_to_signal for release in self.releases), default=0.0)

    @property
    def drowned(self) -> float:
        """The noise-to-signal ratio of the best release, its turns averaged; inf without any."""
        return min(
            (release.noise_to_signal / math.sqrt(release.turns) for release in self.releases),
            default=math.inf,
        )

    @property
    def breaks_first(self) -> str:
        """What stands in the way of a run of this size; "nothing" if nothing does."""
        if not math.isfinite(self.epsilon):
            return "nothing" if self.curator_memory <= _MEMORY else "the memory of one machine"
        if not self.releases:
            return "nothing is released: by choice, or because noise would drown it"
        if self.drowned > 1:
            return "noise: nothing that is released could stand out of it"
        if self.most_tasks is not None and self.n_tasks > self.most_tasks:
            return (
                f"exact sums: at most {self.most_tasks:,} messages add up without rounding; run "
                f"{math.ceil(self.n_tasks / self.most_tasks):,} groups of tasks apart"
            )
        if self.curator_memory > _MEMORY:
            return f"the curator's memory: {_bytes(self.curator_memory)}"
        if self.bytes_total > _NETWORK:
            return f"the network: {_bytes(self.bytes_total)}; send a release once for many tasks"
        if self.curator_seconds > _TIME:
            return f"the curator's time: {_time(self.curator_seconds)} of one core"
        return "nothing"

    def table(self) -> str:
        """Return the plan as lines of text."""
        rows = [
            ("method", self.method),
            ("tasks × features", f"{self.n_tasks:,} × {self.n_features:,}"),
            ("budget", f"ε = {self.epsilon:.4g}, δ = {self.delta:.2g} ({self.adjacency})"),
            ("protected unit", self.protected),
            ("curator", self.trust),
        ]
        for release in self.releases:
            often = f", {release.turns} times" if release.turns > 1 else ""
            rows += [
                (
                    release.name,
                    f"{release.mechanism} noise on {release.n_numbers:,} numbers{often}",
                ),
                ("  noise multiplier", f"{release.noise_multiplier:.6g}"),
                ("  noise scale", f"{release.scale:.6g}"),
                ("  noise to signal", f"{release.noise_to_signal:.3g} at best"),
            ]
            if release.expected_cohort is not None:
                rows.append(("  expected cohort", f"{release.expected_cohort:,.4g} tasks"))
        rows += [
            ("up, one task", _bytes(self.bytes_up)),
            ("down, one task", _bytes(self.bytes_down)),
            ("network, whole run", _bytes(self.bytes_total)),
            ("curator memory", _bytes(self.curator_memory)),
            ("curator time", f"about {_time(self.curator_seconds)} of one core"),
            ("breaks first", self.breaks_first),
        ]
        if self.tasks_needed is not None:
            enough = "yes" if self.n_tasks >= self.tasks_needed else "not by the theorems"
            rows.append(
                ("enough tasks", f"{enough}: Assumption 1 asks for about {self.tasks_needed:,.3g}")
            )
        if self.suggested_rounds is not None:
            pull = f", λ about {self.suggested_pull:.2g} L" if self.suggested_pull else ""
            rows.append(("by Theorems 3 and 5", f"{self.suggested_rounds:,} rounds{pull}"))
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def __str__(self) -> str:
        return self.table()


def _bytes(count: int) -> str:
    for power, unit in ((5, "PB"), (4, "TB"), (3, "GB"), (2, "MB"), (1, "kB")):
        if count >= 1000**power:
            return f"{count / 1000**power:.3g} {unit}"
    return f"{count} B"


def _time(seconds: float) -> str:
    for size, unit in ((86_400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.2g} s"


def least_epsilon(planned: Callable[[float], Plan]) -> float | None:
    """Return the smallest ε, to 5 %, whose plan lets something stand out of the noise.

    Parameters
    ----------
    planned
        Plan at a given ε; noise does not grow with it. None where no ε up to 10⁴ is enough.
    """
    low, high = _SMALLEST_EPSILON, _LARGEST_EPSILON
    if planned(high).drowned > 1:
        return None
    if planned(low).drowned <= 1:
        return low
    while high > 1.05 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if planned(middle).drowned <= 1 else (middle, high)
    return high
