"""Private transfer as a conversation: every task releases its models once.

One party learns K private models, one for each group of features; another continues from them,
with stacking on half of its rows, and learns with the other half how to weigh their answers. K = 1
without stacking is plain private logistic regression, and with a source SimComb.

Message sizes: every task releases d (+ K intercepts) numbers per output once, and with stacking
K (+ 1) more; nothing comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import AtTask, Call, Round, Schedule
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet
from tacit.transfer.design import LabelledRows
from tacit.transfer.learning import Learner, combined_centre, trust
from tacit.transfer.package import SourcePackage
from tacit.transfer.stacking import StackedPerturbation, stack_learner

__all__ = ["TransferHome", "TransferProtocol"]


@dataclass(frozen=True)
class TransferHome:
    """What a stack of tasks keeps: its rows, and its places among all tasks."""

    rows: TaskSet
    positions: IntArray


@dataclass(frozen=True)
class TransferProtocol(Protocol[Array, TransferHome]):
    """The conversation.

    Parameters
    ----------
    learner : Learner
        Design, budget and strengths.
    stacked : bool
        Weigh the groups' answers at the end; needs two rows a task.
    sources : tuple of SourcePackage
        Whose models every task continues from.
    eta : float or None
        How far a task is pulled to zero rather than to its sources; None follows from its public
        noise-to-signal ratio.

    Guarantee: (ε, δ)-DP for one replaced row against everybody; a task's noise is added at home, so
    nobody is trusted. A row belongs to one task, so the tasks' releases compose in parallel. The
    numbers of rows, the sources and all parameters are public; the mechanism that is scheduled (and
    so charged) is the one that solves.
    """

    learner: Learner
    stacked: bool = False
    sources: tuple[SourcePackage, ...] = ()
    eta: float | None = None

    @property
    def mechanism(self) -> Mechanism:
        """What solves every task's problems and accounts for it."""
        return StackedPerturbation(self.learner) if self.stacked else self.learner.mechanism

    def schedule(self) -> Schedule:
        """Return the one round with its mechanism."""
        return Schedule(self.rounds(), (self.mechanism,), Adjacency.REPLACE_ONE)

    def rounds(self) -> tuple[Round, ...]:
        """Return the one release of every task."""
        bound, shape = self.learner.design.bound, (sum(self._widths) * self.learner.n_outputs,)
        return (Round("models", bound, shape, unit=Unit.ROW, noise=AtTask()),)

    @property
    def _widths(self) -> tuple[int, ...]:
        """Coefficients of level 0, and of level 1, for one output."""
        level_0 = sum(self.learner.design.dimensions)
        return (level_0, *stack_learner(self.learner).design.dimensions * self.stacked)

    def opening(self) -> Array:
        """Nobody has a model."""
        return np.empty((0, *self.rounds()[0].shape))

    def read(self, public: Array, release: AnyArray, call: Call, noise: Mechanism) -> Array:  # noqa: ARG002
        """Read the models of all tasks."""
        return np.asarray(release)

    def start(self, rows: TaskSet, positions: IntArray) -> TransferHome:
        """Keep the rows."""
        return TransferHome(rows, positions)

    def speak(
        self,
        home: TransferHome,
        public: Array,  # noqa: ARG002
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[TransferHome, Any]:
        """Say rows, labels and the public centres: what the engine bounds and the noise is for."""
        rows = home.rows if joined is None else home.rows.take_tasks(joined)
        y, k = np.asarray(rows.y, dtype=np.float64)[:, None], self.learner.n_outputs
        labels = y if k == 1 else (y == np.arange(k)).astype(np.float64)
        centres = tuple(self._centres(int(count)) for count in rows.counts)
        return home, LabelledRows(rows.X, rows.offsets, labels, centres)

    def _centres(self, n_rows: int) -> tuple[Array, ...]:
        learner = self.learner
        if not self.sources:
            return tuple(np.zeros((learner.n_outputs, d)) for d in learner.design.dimensions)
        used = n_rows // 2 if self.stacked else n_rows
        return combined_centre(
            [source.models for source in self.sources],
            [source.uncertainties for source in self.sources],
            [
                trust(own) if self.eta is None else 1.0 - self.eta
                for own in learner.uncertainties(used)
            ],
        )

    def finish(self, home: TransferHome, public: Array) -> Array:
        """Return what was released of the own task; `models` takes it apart."""
        if (home.positions < 0).any():
            raise InvalidInput("tasks: a party that released nothing has no model; fit with it")
        return public[home.positions]

    def models(self, released: Array) -> list[Array]:
        """Return models (m, n_outputs, dimension): one array a group, and level 1 if stacked."""
        k = self.learner.n_outputs
        cuts = np.cumsum([width * k for width in self._widths])[:-1]
        levels = [part.reshape(len(released), k, -1) for part in np.split(released, cuts, axis=1)]
        ends = np.cumsum(self.learner.design.dimensions)[:-1]
        return [*np.split(levels[0], ends, axis=2), *levels[1:]]
