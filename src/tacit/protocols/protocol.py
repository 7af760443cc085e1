"""What every protocol declares, and nothing about where it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

from tacit._types import AnyArray, Array, IntArray
from tacit.privacy.bounds import RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet

__all__ = ["Home", "Protocol", "Public"]

Public = TypeVar("Public")
Home = TypeVar("Home")


class Protocol(ABC, Generic[Public, Home]):
    """A conversation between tasks and a curator, as pure functions.

    *In public*, by anyone: ``opening`` and ``read`` fold releases into a public state. *At home*,
    on a stack of tasks (the task is axis 0 of everything): ``start``, ``speak``, ``finish``. The
    same functions serve 100 000 tasks in one process and a single task on its owner's machine; a
    task that comes late, or comes back, reads the billboard and misses nothing.

    Guarantee: whatever ``speak`` computes, the round's bound limits what one task contributes, so
    the schedule's noise is right for any message. What is at home sees its own rows and the public
    state only, and row i of its results depends on task i alone; by the billboard lemma personal
    models are jointly private for free when the unit is the task.
    """

    @abstractmethod
    def rounds(self) -> tuple[Round, ...]:
        """Return all that may be released, from public quantities only."""

    @abstractmethod
    def opening(self) -> Public:
        """Return the public state before anything was released: constants."""

    @abstractmethod
    def read(self, public: Public, release: AnyArray, call: Call, noise: Mechanism) -> Public:
        """Return the public state after one more release."""

    @abstractmethod
    def start(self, rows: TaskSet, positions: IntArray) -> Home:
        """Set up what a stack of tasks keeps; ``positions`` are their places among all tasks.

        A task that was not among those who spoke has position −1.
        """

    @abstractmethod
    def speak(
        self, home: Home, public: Public, call: Call, joined: AnyArray | None
    ) -> tuple[Home, Array | RowMessages]:
        """Return the messages of the tasks that ``joined`` (None: all), not yet bounded.

        Where the row is the unit, return what every row says; the engine bounds each and adds
        those of a task up.
        """

    @abstractmethod
    def finish(self, home: Home, public: Public) -> Array:
        """Return the personal models, task on axis 0."""

    def settled(self, public: Public) -> bool:  # noqa: ARG002
        """Return whether nothing more need be asked, from what is public; the rest is charged."""
        return False

    def shown(self, public: Public) -> Shared:  # noqa: ARG002
        """Return what the public state tells a reader, for a report."""
        return Shared()

    def keep(self, home: Home, release: Array, call: Call) -> Home:  # noqa: ARG002
        """Let tasks keep what they noised themselves, where only the curator sees it."""
        return home

    def memory(self, home: Home) -> dict[str, Array]:  # noqa: ARG002
        """Return what tasks must remember between calls beyond their rows; task on axis 0."""
        return {}

    def recall(self, memory: dict[str, Any], call: Call) -> Home | None:  # noqa: ARG002
        """Return the home that answers ``call`` from ``memory`` alone; None if it needs its rows.

        Which it is follows from the memory's names and the call, never from its values.
        """
        return None

    def resume(self, rows: TaskSet, positions: IntArray, memory: dict[str, Any]) -> Home:  # noqa: ARG002
        """Return the home that remembers ``memory``; the inverse of `memory`."""
        return self.start(rows, positions)
