"""The asynchronous conversation as the paper prints it, which does not keep what it claims.

For reproductions only, by the full name of its noise. Every task keeps an own part that it updates
with its exact gradient, adds one noise to it, sends the gradient there with a second noise; the
server applies all cached gradients at every arrival.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.numerics.columns import COLUMNS
from tacit.penalties import OWN_PENALTIES
from tacit.privacy.bounds import RowMessages
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.noise.entropy import entropy_from
from tacit.privacy.noise.perturb import perturb_gamma_vector
from tacit.privacy.schedule import Call
from tacit.protocols.asynchronous import (
    AsynchronousHome,
    AsynchronousProtocol,
    AsynchronousPublic,
)
from tacit.tasks import TaskSet

__all__ = ["PublishedAsynchronousProtocol", "PublishedHome"]


@dataclass(frozen=True)
class PublishedHome(AsynchronousHome):
    """A home that remembers its own parts, (m, k, d + 1): made of raw gradients."""

    own: Array


@dataclass(frozen=True)
class PublishedAsynchronousProtocol(AsynchronousProtocol):
    """Algorithm 1 of the paper.

    Parameters
    ----------
    own_noise : float
        Scale S₁/ε₁ of the first noise, on a task's own part; the second is the round's.
    random_state : int or None
        Seed of the first noise, which is drawn at home; None for a secret one.

    Guarantee: none. The own part carries the rows of all earlier turns, so that the sensitivity of
    one step (Lemma 1) is not that of what is sent: hundreds of times the bound after a thousand
    turns. The sound form is `AsynchronousProtocol`.
    """

    own_noise: float = 0.0
    random_state: int | None = None

    def read(
        self,
        public: AsynchronousPublic,
        release: AnyArray,
        call: Call,
        noise: Mechanism,
    ) -> AsynchronousPublic:
        """Cache the gradient and step by all cached ones: ``own`` holds them here."""
        tasks = np.arange(self.n_tasks) if call.task is None else np.array([call.task])
        cached, before = public.own.copy(), public.told[tasks]
        cached[tasks] = self._gradient(np.asarray(release, dtype=np.float64), tasks, noise)
        now, _ = public.server.shrunk(self.threshold)
        flat = now - self.step * cached.reshape(now.shape)
        server = replace(COLUMNS[self.shared](flat), **_warm(public.server))
        told, moved = public.told.copy(), public.moved.copy()
        answer, server = server.shrunk(self.threshold, self._places(tasks))
        told[tasks] = answer.reshape(before.shape)
        moved[tasks] = np.sqrt(np.sum((told[tasks] - before) ** 2, axis=(1, 2)))
        return AsynchronousPublic(server, told, cached, moved)

    def start(self, rows: TaskSet, positions: IntArray) -> PublishedHome:
        """Start with own parts of zero."""
        home = super().start(rows, positions)
        own = np.zeros((rows.n_tasks, *self._shape))
        return PublishedHome(home.outputs, home.rows, home.answers, home.positions, own)

    def memory(self, home: AsynchronousHome) -> dict[str, Array]:
        """Return the own parts."""
        return {"own": home.own} if isinstance(home, PublishedHome) else {}

    def resume(self, rows: TaskSet, positions: IntArray, memory: dict[str, Any]) -> PublishedHome:
        """Return the home with its own parts."""
        return replace(self.start(rows, positions), own=np.asarray(memory["own"]))

    def speak(
        self,
        home: AsynchronousHome,
        public: AsynchronousPublic,
        call: Call,
        joined: AnyArray | None,
    ) -> tuple[AsynchronousHome, RowMessages]:
        """Step the own part by its exact gradient, then say the gradient beside it."""
        if not isinstance(home, PublishedHome):
            return super().speak(home, public, call, joined)
        asked = np.ones(len(home.positions), dtype=bool) if joined is None else np.asarray(joined)
        at = home.positions[asked]
        exact = self.gradients(home, public.told[at] + home.own[asked], asked)
        sums = np.add.reduceat(exact.values, exact.offsets[:-1], axis=0)
        counts = np.diff(exact.offsets)[:, None, None]
        penalty = OWN_PENALTIES[self.own](self.own_strength)
        target = (home.own[asked] - self.step * sums / counts).reshape(-1, self._shape[1])
        own = home.own.copy()
        own[asked] = penalty.prox(target, self.step).reshape(-1, *self._shape)
        drawn = np.stack([self._first_noise(call, int(place)) for place in at])
        said = self.gradients(home, public.told[at] + own[asked] + drawn, asked)
        return replace(home, own=own), said

    def _first_noise(self, call: Call, place: int) -> Array:
        """Return noise of density ∝ exp(−‖z‖ / own_noise)."""
        if self.own_noise == 0:
            return np.zeros(self._shape)
        source = entropy_from(self.random_state).child("first", call.number).child("task", place)
        return perturb_gamma_vector(np.zeros(self._shape), self.own_noise, source)

    def finish(self, home: AsynchronousHome, public: AsynchronousPublic) -> Array:
        """Return w = p + q, as printed."""
        told = public.told[np.maximum(home.positions, 0)]
        own = home.own if isinstance(home, PublishedHome) else np.zeros_like(told)
        return self.design.raw(told + own)

    def parts(self, public: AsynchronousPublic) -> tuple[Array, Array]:
        """Return the shared parts; own parts are at home here."""
        shared, _ = public.server.shrunk(self.threshold)
        return shared.reshape(public.told.shape), np.zeros_like(public.told)


def _warm(server: Any) -> dict[str, Any]:
    return {"basis": server.basis} if hasattr(server, "basis") else {}
