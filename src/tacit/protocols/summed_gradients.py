"""Gradients that a trusted server adds up: noise once, on the sum of all tasks.

The counterpart of `tacit.protocols.asynchronous` where the server is trusted (or its sums are
secure) and only the other tasks are not. What is shared is one vector p, told everybody: a shared
part for every task would be made of that task's gradients, each of which would need its own noise.
Up and down: k(d + 1) numbers a turn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.penalties import Lasso, TaskGroup
from tacit.privacy.bounds import RowGradientClip, RowMessages, VectorClip
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Curator, Place, Round
from tacit.privacy.unit import Unit
from tacit.protocols.asynchronous import AsynchronousHome, AsynchronousProtocol
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = ["SummedGradientsProtocol", "SummedPublic"]


@dataclass(frozen=True)
class SummedPublic:
    """The shared part p, (k, d + 1), and how far it went last."""

    shared: Array
    moved: float = math.inf


@dataclass(frozen=True)
class SummedGradientsProtocol(Protocol[SummedPublic, AsynchronousHome]):
    """The conversation: proximal steps of p by noised sums of gradients at p.

    Parameters
    ----------
    talk : AsynchronousProtocol
        Everything that does not depend on who adds the noise.
    unit : Unit
        One row, or a whole task: then a task says its mean gradient, clipped as a whole.
    place : Place
        `Curator`, or `Distributed`.

    Guarantee: (ε, δ) for the unit under replace-one, against all (other) tasks together. A row's
    gradient is taken at p, which is public, and clipped: a replaced row moves the sum over all
    tasks by 2·clip. A task's mean gradient is clipped as a whole: a replaced task moves the sum by
    2·clip, whatever its rows or their number. P is made of noised sums only, so nothing
    accumulates; divisors are public. With rows as the unit their numbers are public, with tasks
    they are not.
    """

    talk: AsynchronousProtocol
    unit: Unit = Unit.ROW
    place: Place = field(default_factory=Curator)

    @property
    def _divisor(self) -> float:
        return float(sum(self.talk.counts)) if self.unit is Unit.ROW else float(self.talk.n_tasks)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.talk.n_outputs, self.talk.n_features + 1

    def noise_edge(self, noise: Mechanism) -> float:
        """Return the strength that thresholds pure noise away."""
        size = math.prod(self._shape) if self.talk.shared == "low-rank" else 2.0
        deviation = noise.deviation(self._shape) if math.isfinite(noise.reach) else 0.0
        return deviation * math.sqrt(size) / self._divisor

    def information(self, noise: Mechanism) -> float:
        """Return how well a common model can be told, as `AsynchronousProtocol.information`."""
        if not math.isfinite(noise.reach):
            return math.inf
        deviation = noise.deviation(self._shape) / math.sqrt(self.talk.turns)
        return 2 * self.talk.clip * self._divisor / (deviation * self._shape[1])

    def rounds(self) -> tuple[Round, ...]:
        """Return the one round: the sum of everybody's gradients, as often as turns."""
        bound = RowGradientClip if self.unit is Unit.ROW else VectorClip
        return (
            Round(
                "summed gradient",
                bound(self.talk.clip),
                self._shape,
                turns=self.talk.turns,
                unit=self.unit,
                noise=self.place,
            ),
        )

    def opening(self) -> SummedPublic:
        """Return zero."""
        return SummedPublic(np.zeros(self._shape))

    def read(
        self,
        public: SummedPublic,
        release: AnyArray,
        call: Call,  # noqa: ARG002
        noise: Mechanism,  # noqa: ARG002
    ) -> SummedPublic:
        """Step, and shrink: the nuclear norm of equal columns is √m‖p‖, their ℓ2,1 norm √m‖p‖₁."""
        kind = TaskGroup if self.talk.shared == "low-rank" else Lasso
        gradient = np.asarray(release, dtype=np.float64) / self._divisor
        target = public.shared - self.talk.step * gradient
        shared = kind(self.talk.shared_strength).prox(target, self.talk.step)
        return SummedPublic(shared, float(np.linalg.norm(shared - public.shared)))

    def settled(self, public: SummedPublic) -> bool:
        """Whether p moved by no more than the tolerance."""
        return self.talk.tolerance > 0 and public.moved <= self.talk.tolerance

    def raw_shared(self, public: SummedPublic) -> Array:
        """Return p as a model of raw rows, (1, k, d + 1)."""
        return self.talk.design.raw(public.shared)[None]

    def start(self, rows: TaskSet, positions: IntArray) -> AsynchronousHome:
        """Keep the rows, raw and as they speak."""
        return self.talk.start(rows, positions)

    def speak(
        self,
        home: AsynchronousHome,
        public: SummedPublic,
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[AsynchronousHome, Array | RowMessages]:
        """Say every row's gradient at p, or the mean of a task's."""
        n_tasks = len(home.positions)
        asked = np.ones(n_tasks, dtype=bool) if joined is None else np.asarray(joined)
        models = np.broadcast_to(public.shared, (int(asked.sum()), *self._shape))
        rows = self.talk.gradients(home, models, asked)
        if self.unit is Unit.ROW:
            return home, rows
        sums = np.add.reduceat(rows.values, rows.offsets[:-1], axis=0)
        return home, np.asarray(sums / np.diff(rows.offsets)[:, None, None])

    def finish(self, home: AsynchronousHome, public: SummedPublic) -> Array:
        """Return models (m, k, d + 1) fitted at home, around p."""
        return self.talk.personal(home, self.raw_shared(public), np.full(len(home.positions), -1))
