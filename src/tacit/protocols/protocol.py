"""What every protocol declares, and nothing about where it runs."""

from __future__ import annotations

import typing
from typing import TypeVar

from tacit._types import Array
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet

__all__ = ["Protocol"]

State = TypeVar("State")


class Protocol(typing.Protocol[State]):
    """A conversation between tasks and a curator, as pure functions on stacked tasks.

    The task is axis 0 of everything that lives at the tasks, so the same functions serve
    100 000 tasks in one process and a single task on its owner's machine. One round is

    ``speak`` (at the tasks) → ``bound`` → ``aggregate`` (at the curator) → ``mechanism`` →
    billboard → ``listen`` (at the tasks).

    Guarantee: whatever ``speak`` computed, ``bound`` limits what one task contributes to the
    aggregate, so ``mechanism(t)`` is calibrated for any message. ``start``, ``speak``, ``listen``
    and ``finish`` see the task's own data and past releases only; by the billboard lemma their
    results are jointly private for free when the unit is the task.
    """

    @property
    def n_rounds(self) -> int:
        """Number of releases."""
        ...

    @property
    def unit(self) -> Unit:
        """What is protected."""
        ...

    @property
    def adjacency(self) -> Adjacency:
        """Which data sets are neighbours."""
        ...

    def start(self, tasks: TaskSet) -> State:
        """Set up what each task keeps to itself."""
        ...

    def speak(self, state: State, t: int) -> Array:
        """Return each task's message of round ``t``, task on axis 0, not yet bounded."""
        ...

    def bound(self, messages: Array) -> Array:
        """Limit every message; the only thing the curator may see."""
        ...

    def aggregate(self, messages: Array) -> Array:
        """Combine bounded messages into what is noised (the stack itself if noise is local)."""
        ...

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of round ``t``, calibrated from public quantities only."""
        ...

    def listen(self, state: State, release: Array, t: int) -> State:
        """Let every task read the release of round ``t``."""
        ...

    def finish(self, state: State) -> Array:
        """Return the personal models, task on axis 0."""
        ...
