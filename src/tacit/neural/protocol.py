"""Algorithm 1 of private mean-regularised learning, sound: cohorts, personal models, one centre.

Hu, Wu and Smith, *Private multi-task learning: formulation and applications to federated
learning*. Every turn a cohort trains under the pull of the public centre and sends how far its
models are from it; the curator releases the noisy sum, and the centre moves by it. Up and down: one
number a parameter and turn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import optax

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.neural._flat import Layout, layout_of
from tacit.neural._linear import Extent
from tacit.neural.cohort import LocalTraining, train_cohort
from tacit.neural.finetune import fine_tune
from tacit.neural.losses import CURVATURE
from tacit.neural.radius import Radius
from tacit.neural.relations import Relations, groups
from tacit.neural.rows import StackedRows
from tacit.neural.settling import settled
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Cohort, Everyone, Round
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet, within_range

__all__ = ["Centre", "CohortProtocol", "Ending", "Stack"]


@dataclass(frozen=True, eq=False)
class Centre:
    """The public means (B·P,), float32, block after block, and the state of the server's optimiser.

    ``radius`` is the γ of the next turn; ``noise`` (B,) is about the squared norm of the noise in
    a mean, known from the noise's law, and ``reach`` how far updates in full agreement would
    have moved it.
    """

    value: AnyArray
    server: Any
    radius: float
    noise: Array
    reach: float = 0.0


@dataclass(eq=False)
class Stack:
    """What a stack of tasks keeps: rows, a key a task, and the models of those who have joined.

    ``models`` (m, P) is written in place, and None where tasks keep no model between turns.
    ``strength`` and ``rate`` are those of its turns, by task where its own rows tell them;
    ``weights`` (m, B) are of the means that tasks are drawn to, ``block`` (m,) is their own.
    """

    weights: Array
    block: IntArray
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
_SHARE = 0.05  # of a centre's squared norm that must not be noise, or it tells no direction
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
    relations : Relations or None
        Several means instead of one, by public relations among the tasks.
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
    constant, the server's optimiser reads releases only. With `Relations` a message stands in one
    block of a longer vector, which block is a public constant, and has the same norm. Models at
    home are functions of the task's own rows and of releases. Nothing rests on the order of
    minibatches, which needs no secrecy: the bound holds for any message.
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
    relations: Relations | None = None

    @cached_property
    def related(self) -> Relations:
        """Which means there are, and who is drawn to which."""
        return Relations.one(self.n_tasks) if self.relations is None else self.relations

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
                (self.radius.length(self.related.n_blocks * self.layout.size),),
                turns=self.n_turns,
                cohort=self.cohort,
            ),
        )

    def opening(self) -> Centre:
        """Return the model's public first parameters, in every block."""
        value = np.tile(self._first, self.related.n_blocks)
        nothing = np.zeros(self.related.n_blocks)
        return Centre(value, self.server.init(value), self.radius.first, nothing)

    @cached_property
    def _first(self) -> AnyArray:
        return self.layout.flat(self.training.model.opening(self.seed))

    def read(self, public: Centre, release: AnyArray, call: Call, noise: Mechanism) -> Centre:  # noqa: ARG002
        """Move every mean by its part of the release over the expected number of members."""
        wanted = self.rounds()[0].shape
        if np.shape(release) != wanted:
            raise InvalidInput(
                f"release of {np.size(release)} numbers: this conversation has {wanted[0]}; give "
                "the model and the relations it was held with"
            )
        expected = self.cohort.expected(self.n_tasks)
        update, radius = self.radius.heard(np.asarray(release), public.radius, expected)
        members = self.related.members(expected)
        mean = self._scaled(update, expected / members).astype(np.float32)
        step, server = self.server.update(-mean, public.server, public.value)
        gain = np.linalg.norm(step) / max(float(np.linalg.norm(mean)), _TINY)
        unit = self.radius.unit(public.radius)
        heard = float(gain) * unit * noise.noise_norm((self.layout.size,)) / members
        value = np.asarray(optax.apply_updates(public.value, step))
        reach = public.reach + float(gain) * public.radius
        return Centre(value, server, radius, public.noise + heard**2, reach)

    def _scaled(self, update: Array, factor: Array) -> Array:
        """Return a vector of blocks, each times its factor."""
        if len(factor) == 1:  # which is then 1
            return update
        blocks: Array = update.reshape(len(factor), -1) * factor[:, None]
        return blocks.ravel()

    def drawn_to(self, public: Centre, weights: Array) -> AnyArray:
        """Return what a task of these ``weights`` (B,) is drawn to, (P,)."""
        blocks = public.value.reshape(len(weights), -1)
        centre: AnyArray = (weights.astype(np.float32) @ blocks).astype(np.float32)
        return centre

    def shared(self, public: Centre) -> AnyArray:
        """Return the model (P,) of whoever has no other: the mean of all."""
        return self.drawn_to(public, self.related.stranger())

    def cleared(self, public: Centre, weights: Array) -> AnyArray:
        """Return the centre drawn to the opening by as much as noise pushed it off.

        James and Stein's factor, of releases and the noise's law alone: where there is nothing but
        noise it is the opening, without noise the centre.
        """
        moved = self.drawn_to(public, weights) - self._first
        noise = float(weights**2 @ public.noise)
        kept = max(0.0, 1.0 - noise / max(float(moved @ moved), _TINY))
        cleared: AnyArray = self._first + np.float32(kept) * moved
        return cleared

    def heard(self, public: Centre, weights: Array) -> bool:
        """Return whether the centre tells more than noise, by releases and the noise's law.

        Never where the noise is longer than updates in full agreement could be, by `_DROWNED`. Of
        many parameters noise alone exceeds its expected norm by `_DOUBT` deviations as often as of
        few, and says nothing then: a part `_SHARE` of the squared norm must be left without it.
        """
        moved = self.drawn_to(public, weights) - self._first
        noise = float(weights**2 @ public.noise)
        doubt = max(1.0 + _DOUBT * np.sqrt(2.0 / moved.size), 1.0 / (1.0 - _SHARE))
        drowned = noise > (_DROWNED * public.reach) ** 2
        return not drowned and bool(moved @ moved > doubt * noise)

    def start(self, rows: TaskSet, positions: IntArray) -> Stack:
        """Put the rows on the device; nobody has a model yet."""
        rows = within_range(rows)
        y, m = np.asarray(rows.y), rows.n_tasks
        stacked = StackedRows.of(rows.X, y.astype(np.int32) if self.classes else y, rows.offsets)
        weights, block, factor = self.related.of_places(np.asarray(positions))
        strength, rate = self._pace(stacked, factor)
        return Stack(
            weights,
            block,
            stacked,
            _keys(self.seed, positions),
            strength,
            rate,
            np.zeros((m, self.layout.size), np.float32) if self.personal else None,
            np.zeros(m, dtype=bool),
        )

    def _pace(self, rows: StackedRows, factor: Array) -> tuple[Array, float | Array]:
        """Return λ and step of a turn."""
        if not self.training.full_batch:
            return (self.strength or 0.0) * factor, self.learning_rate
        extent = Extent.of(rows)
        found = self.strength is None
        strength = extent.strength(_PULL) if found else (self.strength or 0.0) * factor
        return strength, extent.rate(CURVATURE[self.training.loss], strength)

    def speak(
        self, home: Stack, public: Centre, call: Call, joined: AnyArray | None
    ) -> tuple[Stack, Array]:
        """Train those who joined and say their distance from the centre."""
        members = np.arange(len(home.keys)) if joined is None else np.flatnonzero(joined)
        size, blocks = self.layout.size, self.related.n_blocks
        said = np.zeros((len(members), blocks, size), np.float32)
        for weights, places in groups(home.weights[members]):
            self._turns(home, public, call, weights, members[places], said, places)
        return home, self.radius.said(said.reshape(len(members), -1), public.radius)

    def _turns(
        self,
        home: Stack,
        public: Centre,
        call: Call,
        weights: Array,
        members: IntArray,
        said: AnyArray,
        places: IntArray,
    ) -> None:
        """Train members who are drawn to one centre; write what they say at their ``places``."""
        centre = self.drawn_to(public, weights)
        if home.models is not None:
            home.models[members[~home.begun[members]]] = centre
            home.begun[members] = True
        done = 0
        for turn in train_cohort(
            self.training,
            home.rows,
            members,
            centre=self.layout.tree(centre),
            models=None if home.models is None else self.layout.tree(home.models),
            keys=home.keys,
            turn=call.number,
            strength=home.strength,
            learning_rate=home.rate,
        ):
            own = places[done : done + len(turn.positions)]
            updates = np.empty((len(own), self.layout.size), np.float32)
            self.layout.write(updates, slice(None), turn.updates)
            said[own, home.block[turn.positions]] = updates
            if home.models is not None:
                self.layout.write(home.models, turn.positions, turn.models)
            done += len(own)
        # What is said is how far a model is from the mean it is added to.
        for block in np.unique(home.block[members]):
            base = public.value[block * self.layout.size : (block + 1) * self.layout.size]
            if not np.array_equal(base, centre):
                said[places[home.block[members] == block], block] += centre - base

    def finish(self, home: Stack, public: Centre) -> Array:
        """Return personal models (m, P); (m, 0) where everybody has the centre and no other."""
        m = len(home.keys)
        if self.ending.method is None:
            several = home.models is not None or self.related.n_blocks > 1
            return self._models(home, public) if several else np.empty((m, 0), np.float32)
        flat = np.empty((m, self.layout.size), np.float32)
        for weights, places in groups(home.weights):
            self.layout.write(flat, places, self._ended(home, public, weights, places))
        return flat

    def _ended(self, home: Stack, public: Centre, weights: Array, places: IntArray) -> Any:
        """Return the models of tasks that are drawn to one centre, after their ending."""
        ending = self.ending
        rows = home.rows if len(places) == len(home.keys) else home.rows.of_tasks(places)
        training = replace(self.training, epochs=ending.epochs, steps=None, full_batch=False)
        given: dict[str, Any] = {
            "keys": home.keys[places],
            "turn": self.n_turns,
            "strength": ending.strength,
            "learning_rate": ending.learning_rate,
        }
        if ending.method == "auto":
            opening = self.layout.tree(self._first)
            cleared = self.layout.tree(self.cleared(public, weights))
            heard = self.heard(public, weights)
            return settled(training, rows, cleared, opening, heard=heard, **given)
        kept = None if home.models is None else self._models(home, public)
        return fine_tune(
            str(ending.method),
            training,
            rows,
            centre=self.layout.tree(self.drawn_to(public, weights)),
            models=None if kept is None else self.layout.tree(kept[places]),
            **given,
        )

    def _models(self, home: Stack, public: Centre) -> AnyArray:
        """Return the kept models; the centre for tasks that have none."""
        kept = np.empty((len(home.keys), self.layout.size), np.float32)
        for weights, places in groups(home.weights):
            kept[places] = self.drawn_to(public, weights)
        if home.models is not None:
            kept[home.begun] = home.models[home.begun]
        return kept

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
