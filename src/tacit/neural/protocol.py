"""Algorithm 1 of private mean-regularised learning, sound: cohorts, personal models, one centre.

Hu, Wu and Smith, *Private multi-task learning: formulation and applications to federated
learning*. Every turn a cohort trains under the pull of the public centre and sends how far its
models are from it; the curator releases the noisy sum, and the centre moves by it. Up and down: one
number a parameter and turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import optax

from tacit._types import AnyArray, Array, IntArray
from tacit.neural._flat import Layout, layout_of
from tacit.neural._linear import Extent
from tacit.neural.cohort import LocalTraining, train_cohort
from tacit.neural.finetune import fine_tune
from tacit.neural.losses import CURVATURE
from tacit.neural.radius import Radius
from tacit.neural.rows import StackedRows
from tacit.neural.settling import settled
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Cohort, Everyone, Round
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet, within_range

__all__ = ["Centre", "CohortProtocol", "Ending", "Stack"]


@dataclass(frozen=True, eq=False)
class Centre:
    """The public centre (P,), float32, and the state of the server's optimiser.

    ``radius`` is the γ of the next turn; ``noise`` is about the squared norm of the noise in
    ``value``, known from the noise's law, and ``reach`` how far updates in full agreement would
    have moved it.
    """

    value: AnyArray
    server: Any
    radius: float
    noise: float = 0.0
    reach: float = 0.0


@dataclass(eq=False)
class Stack:
    """What a stack of tasks keeps: rows, a key a task, and the models of those who have joined.

    ``models`` (m, P) is written in place, and None where tasks keep no model between turns.
    ``strength`` and ``rate`` are those of its turns, by task where its own rows tell them.
    """

    rows: StackedRows
    keys: AnyArray
    strength: float | Array
    rate: float | Array
    models: AnyArray | None
    begun: AnyArray  # which tasks have a model of their own


@dataclass(frozen=True)
class Ending:
    """What tasks do after the last release, each by itself.

    ``method`` is "auto" (every task chooses by its own rows how far to follow the centre), a
    method of `tacit.neural.fine_tune`, or None: the models stay as the last turn left them.
    """

    method: str | None = "auto"
    epochs: int = 20
    strength: float = 0.1
    learning_rate: float = 0.1


_TINY = 1e-30
_DOUBT = 0.5  # standard deviations of its squared norm by which a centre must exceed noise
_DROWNED = 1.5
_PULL = 1 / 16  # of a turn, relative to what a row says, where λ is found at home
_EVERYONE, _SETTLED = Everyone(), Ending()


@dataclass(frozen=True)
class CohortProtocol(Protocol[Centre, Stack]):
    """The conversation.

    Parameters
    ----------
    training : LocalTraining
        Model, loss, pull and steps of a turn.
    n_tasks, n_turns : int
        Public number of tasks; releases.
    radius : FixedRadius or QuantileRadius
        γ, the length of an update.
    cohort : Everyone, Poisson or FixedSize
        Who takes part in a turn; the release is divided by the expected number of members.
    strength : float or None
        λ of the pull; None, for full-batch training, lets every task find it by its own rows.
    learning_rate : float
        Step of stochastic descent; full-batch descent finds its own.
    personal : bool
        Whether tasks keep their model between turns (mean-regularised) or begin every turn at the
        centre (FedAvg and FedProx).
    server : optax.GradientTransformation
        What moves the centre, given minus the mean update as gradient.
    ending : Ending
    classes : bool
        Whether targets are classes 0 … k − 1, not numbers.
    seed : int
        Public constant of the first centre and of the order of minibatches.

    Guarantee: joint DP with the task as unit. A message's norm is bounded by a public constant
    whatever the task did before (γ, or as `QuantileRadius` proves), so the sum moves by so much if
    a task is zeroed out, and by twice as much if it is replaced. With a
    Poisson cohort every turn is a Poisson-sampled Gaussian under zero-out adjacency, as neither the
    size nor the members of a cohort are part of the public state, a call, the history or another
    task's bits; a cohort of fixed size is not amplified. Divisors are public, the first centre is a
    constant, the server's optimiser reads releases only. Models at home are functions of the
    task's own rows and of releases. Nothing rests on the order of minibatches, which needs no
    secrecy: the bound holds for any message.
    """

    training: LocalTraining
    n_tasks: int
    n_turns: int
    radius: Radius
    server: optax.GradientTransformation
    cohort: Cohort = _EVERYONE
    strength: float | None = 0.1
    learning_rate: float = 0.1
    personal: bool = True
    ending: Ending = _SETTLED
    classes: bool = True
    seed: int = 0

    @property
    def layout(self) -> Layout:
        """Where parameters stand in a message."""
        return layout_of(self.training.model)

    def rounds(self) -> tuple[Round, ...]:
        """Return the one round: the sum of the cohort's updates."""
        return (
            Round(
                "mean update",
                self.radius.bound,
                (self.radius.length(self.layout.size),),
                turns=self.n_turns,
                cohort=self.cohort,
            ),
        )

    def opening(self) -> Centre:
        """Return the model's public first parameters."""
        value = self.layout.flat(self.training.model.opening(self.seed))
        return Centre(value, self.server.init(value), self.radius.first)

    def read(self, public: Centre, release: AnyArray, call: Call, noise: Mechanism) -> Centre:  # noqa: ARG002
        """Move the centre by the release over the expected number of members."""
        members = self.cohort.expected(self.n_tasks)
        update, radius = self.radius.heard(np.asarray(release), public.radius, members)
        mean = update.astype(np.float32)
        step, server = self.server.update(-mean, public.server, public.value)
        gain = np.linalg.norm(step) / max(float(np.linalg.norm(mean)), _TINY)
        unit = self.radius.unit(public.radius)
        heard = float(gain) * unit * noise.noise_norm(mean.shape) / members
        value = np.asarray(optax.apply_updates(public.value, step))
        reach = public.reach + float(gain) * public.radius
        return Centre(value, server, radius, public.noise + heard**2, reach)

    def cleared(self, public: Centre) -> AnyArray:
        """Return the centre drawn to the opening by as much as noise pushed it off.

        James and Stein's factor, of releases and the noise's law alone: where there is nothing but
        noise it is the opening, without noise the centre.
        """
        opening = self.opening().value
        moved = public.value - opening
        kept = max(0.0, 1.0 - public.noise / max(float(moved @ moved), _TINY))
        cleared: AnyArray = opening + np.float32(kept) * moved
        return cleared

    def heard(self, public: Centre) -> bool:
        """Return whether the centre tells more than noise, by releases and the noise's law.

        Never where the noise is longer than updates in full agreement could be, by `_DROWNED`.
        """
        moved = public.value - self.opening().value
        doubt = 1.0 + _DOUBT * np.sqrt(2.0 / moved.size)
        drowned = public.noise > (_DROWNED * public.reach) ** 2
        return not drowned and bool(moved @ moved > doubt * public.noise)

    def start(self, rows: TaskSet, positions: IntArray) -> Stack:
        """Put the rows on the device; nobody has a model yet."""
        rows = within_range(rows)
        y, m = np.asarray(rows.y), rows.n_tasks
        stacked = StackedRows.of(rows.X, y.astype(np.int32) if self.classes else y, rows.offsets)
        return Stack(
            stacked,
            _keys(self.seed, positions),
            *self._pace(stacked),
            np.zeros((m, self.layout.size), np.float32) if self.personal else None,
            np.zeros(m, dtype=bool),
        )

    def _pace(self, rows: StackedRows) -> tuple[float | Array, float | Array]:
        """Return λ and step of a turn."""
        if not self.training.full_batch:
            return 0.0 if self.strength is None else self.strength, self.learning_rate
        extent = Extent.of(rows)
        found = self.strength is None
        strength = extent.strength(_PULL) if found else np.full(len(extent.counts), self.strength)
        return strength, extent.rate(CURVATURE[self.training.loss], strength)

    def speak(
        self, home: Stack, public: Centre, call: Call, joined: AnyArray | None
    ) -> tuple[Stack, Array]:
        """Train those who joined and say their distance from the centre."""
        members = np.arange(len(home.keys)) if joined is None else np.flatnonzero(joined)
        if home.models is not None:
            home.models[members[~home.begun[members]]] = public.value
            home.begun[members] = True
        said = np.zeros((len(members), self.layout.size), np.float32)
        done = 0
        for turn in train_cohort(
            self.training,
            home.rows,
            members,
            centre=self.layout.tree(public.value),
            models=None if home.models is None else self.layout.tree(home.models),
            keys=home.keys,
            turn=call.number,
            strength=home.strength,
            learning_rate=home.rate,
        ):
            own = slice(done, done + len(turn.positions))
            self.layout.write(said, own, turn.updates)
            if home.models is not None:
                self.layout.write(home.models, turn.positions, turn.models)
            done = own.stop
        return home, self.radius.said(said, public.radius)

    def finish(self, home: Stack, public: Centre) -> Array:
        """Return personal models (m, P); (m, 0) where everybody has the centre and no other."""
        ending, m = self.ending, len(home.keys)
        training = replace(self.training, epochs=ending.epochs, steps=None, full_batch=False)
        given: dict[str, Any] = {
            "keys": home.keys,
            "turn": self.n_turns,
            "strength": ending.strength,
            "learning_rate": ending.learning_rate,
        }
        centre = self.layout.tree(public.value)
        if ending.method == "auto":
            opening = self.layout.tree(self.opening().value)
            cleared = self.layout.tree(self.cleared(public))
            heard = self.heard(public)
            models = settled(training, home.rows, cleared, opening, heard=heard, **given)
        elif ending.method is not None:
            kept = self._models(home, public)
            models = fine_tune(
                ending.method,
                training,
                home.rows,
                centre=centre,
                models=None if kept is None else self.layout.tree(kept),
                **given,
            )
        else:
            kept = self._models(home, public)
            return np.empty((m, 0), np.float32) if kept is None else kept
        flat = np.empty((m, self.layout.size), np.float32)
        self.layout.write(flat, slice(None), models)
        return flat

    def _models(self, home: Stack, public: Centre) -> AnyArray | None:
        """Return the kept models, if any; the centre for tasks that were never asked."""
        return (
            None
            if home.models is None
            else np.where(home.begun[:, None], home.models, public.value)
        )

    def memory(self, home: Stack) -> dict[str, Array]:
        """Return the kept models and who has one."""
        if home.models is None:
            return {}
        return {"models": home.models, "begun": home.begun}

    def resume(self, rows: TaskSet, positions: IntArray, memory: dict[str, Any]) -> Stack:
        """Return the stack with the models of ``memory``."""
        home = self.start(rows, positions)
        if memory:
            home.models, home.begun = memory["models"], memory["begun"]
        return home


def _keys(seed: int, positions: IntArray) -> AnyArray:
    """Return a key a task (m, 2), for the order of its minibatches."""
    places = np.asarray(positions, np.int64).astype(np.uint32)
    return np.stack([np.full_like(places, np.uint32(seed % 2**32)), places], axis=1)
