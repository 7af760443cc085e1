"""The asynchronous paper's node as printed, and its sound form, as protocols to replay.

Both are one node with n rows against an untrusted server (unit: one row), for the logistic loss
with rows of norm at most 1. docs/errata.md has what the replay finds.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from tacit._types import AnyArray, Array, IntArray
from tacit.audit.neighbours import replace_row
from tacit.audit.replay import ReplayResult, Staged, replay
from tacit.errors import PrivacyWarning
from tacit.privacy.bounds import Bound, RowGradientClip, RowMessages
from tacit.privacy.mechanisms import GammaVector, Mechanism
from tacit.privacy.published import AsynchronousPerIterationPublished
from tacit.privacy.schedule import AtTask, Call, Round, Schedule
from tacit.privacy.unit import Adjacency, Norm, Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet

__all__ = [
    "Node",
    "PrintedNode",
    "Server",
    "SingleReleaseNode",
    "asynchronous_sensitivity",
    "node_data",
]

_ROW_NORM = 1.0  # C₁
_DERIVATIVE = 1.0  # C₂ of the logistic loss


@dataclass(frozen=True)
class Node:
    """What the printed node keeps: its rows, its q, and how many answers it has stepped on."""

    tasks: TaskSet
    q: Array
    steps: int = 0


@dataclass(frozen=True)
class Server:
    """What everybody knows: the server's p, the shadow q̃ or what was said of q, and steps taken."""

    p: Array
    q: Array
    steps: int = 0


def _row_gradients(tasks: TaskSet, w: Array) -> Array:
    residual = expit(tasks.X @ w) - np.asarray(tasks.y)
    return tasks.X * residual[:, None]


def _server(p: Array, gradient: Array, step: float, strength: float) -> Array:
    """Return the server's proximal step; the nuclear norm of a single column is its length."""
    moved = p - step * gradient
    length = float(np.linalg.norm(moved))
    return moved * max(0.0, 1.0 - step * strength / length) if length > 0 else moved


def _released_by_node(name: str, n_features: int, n_steps: int, bound: Bound) -> Round:
    shape = (n_features,)
    return Round(name, bound, shape, turns=n_steps, unit=Unit.ROW, noise=AtTask())


@dataclass(frozen=True)
class PrintedNode(Protocol[Server, Node]):
    """Algorithm 1 as printed: two releases a step, q from the raw data of all steps.

    Even rounds are line 10, q^(k) + z₁ with the sensitivity of Lemma 1; odd rounds are line 13,
    the gradient at p + q^(k) + z₁ with the sensitivity of Lemma 2.

    Guarantee: none; see `AsynchronousPerIterationPublished`.
    """

    n_steps: int
    n_rows: int
    n_features: int
    epsilon: float = 1.0
    step: float = 0.1
    strength: float = 1e-4

    def rounds(self) -> tuple[Round, ...]:
        """Return two rounds a step, neither of them clipped: the paper argues from bounded rows."""
        names = ("q", "gradient")
        return tuple(
            _released_by_node(f"{names[t % 2]} {t // 2 + 1}", self.n_features, 1, Bound(math.inf))
            for t in range(2 * self.n_steps)
        )

    def staged(self) -> Staged:
        """Return the node with the printed noise of Lemmas 1 and 2, by turns."""
        with warnings.catch_warnings():
            # Built in order to be refuted: nobody's data are released.
            warnings.simplefilter("ignore", PrivacyWarning)
            noise = [
                AsynchronousPerIterationPublished(
                    self.epsilon, _ROW_NORM, _DERIVATIVE, self.n_rows, step
                )
                for step in (self.step, 1.0)
            ]
        return Staged(self, Schedule(self.rounds(), tuple(noise * self.n_steps)))

    def opening(self) -> Server:
        """Return public zeros."""
        return Server(np.zeros(self.n_features), np.zeros(self.n_features))

    def read(self, public: Server, release: AnyArray, call: Call, noise: Mechanism) -> Server:  # noqa: ARG002
        """Note q + z₁; or let the server answer the gradient."""
        if call.round % 2 == 0:
            return replace(public, q=release[0])
        p = _server(public.p, release[0], self.step, self.strength)
        return Server(p, public.q, public.steps + 1)

    def start(self, rows: TaskSet, positions: IntArray) -> Node:  # noqa: ARG002
        """Take the first raw gradient step from q = 0 (the printed start leaks more)."""
        return self._stepped(Node(rows, np.zeros(rows.n_features)), np.zeros(rows.n_features))

    def _stepped(self, home: Node, p: Array) -> Node:
        gradient = _row_gradients(home.tasks, p + home.q).mean(axis=0)
        return replace(home, q=home.q - self.step * (gradient + self.strength * home.q))

    def speak(
        self,
        home: Node,
        public: Server,
        call: Call,
        joined: AnyArray | None,  # noqa: ARG002
    ) -> tuple[Node, Array]:
        """Say q, or the gradient at what was said of q."""
        if public.steps > home.steps:
            home = replace(self._stepped(home, public.p), steps=public.steps)
        if call.round % 2 == 0:
            return home, home.q[None]
        return home, _row_gradients(home.tasks, public.p + public.q).mean(axis=0)[None]

    def finish(self, home: Node, public: Server) -> Array:
        """Return w = p + q."""
        return (public.p + home.q)[None]


@dataclass(frozen=True)
class SingleReleaseNode(Protocol[Server, TaskSet]):
    """The sound form: the noised sum of clipped row gradients is all that is made of the data.

    Guarantee: each release is ε-DP for one row under replace-one (sensitivity 2C, divided by the
    public n after the noise); the shadow q̃ and p are functions of past releases, so adaptive
    composition applies.
    """

    n_steps: int
    n_rows: int
    n_features: int
    epsilon: float = 1.0
    step: float = 0.1
    strength: float = 1e-4

    def rounds(self) -> tuple[Round, ...]:
        """Return one release a step."""
        bound = RowGradientClip(_ROW_NORM)
        return (_released_by_node("gradient", self.n_features, self.n_steps, bound),)

    def staged(self) -> Staged:
        """Return the node with gamma-vector noise for the sensitivity 2C."""
        reach = RowGradientClip(_ROW_NORM).sensitivity(Norm.L2, Adjacency.REPLACE_ONE)
        return Staged(
            self, Schedule(self.rounds(), (GammaVector(reach, self.epsilon, local=True),))
        )

    def opening(self) -> Server:
        """Return public zeros."""
        return Server(np.zeros(self.n_features), np.zeros(self.n_features))

    def read(self, public: Server, release: AnyArray, call: Call, noise: Mechanism) -> Server:  # noqa: ARG002
        """Move the shadow q̃ and p by the release alone."""
        gradient = release[0] / self.n_rows
        q = public.q - self.step * (gradient + self.strength * public.q)
        return Server(_server(public.p, gradient, self.step, self.strength), q, public.steps + 1)

    def start(self, rows: TaskSet, positions: IntArray) -> TaskSet:  # noqa: ARG002
        """Keep the rows, and nothing else."""
        return rows

    def speak(
        self,
        home: TaskSet,
        public: Server,
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,  # noqa: ARG002
    ) -> tuple[TaskSet, RowMessages]:
        """Let the rows say their gradients at p + q̃."""
        return home, RowMessages(_row_gradients(home, public.p + public.q), home.offsets)

    def finish(self, home: TaskSet, public: Server) -> Array:  # noqa: ARG002
        """Return p + q̃."""
        return (public.p + public.q)[None]


def node_data(n_rows: int = 60, n_features: int = 10, random_state: int = 0) -> TaskSet:
    """Return one node's data: rows of norm 1, labels from a linear model with noise."""
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((n_rows, n_features))
    X /= np.linalg.norm(X, axis=1, keepdims=True) * (1 + 1e-12)
    truth = 5.0 * rng.standard_normal(n_features)
    y = (rng.random(n_rows) < expit(X @ truth)).astype(float)
    return TaskSet.from_arrays(X, y, np.zeros(n_rows, dtype=int))


def asynchronous_sensitivity(
    *, sound: bool, n_steps: int = 1000, n_rows: int = 60, epsilon: float = 1.0, seed: int = 0
) -> ReplayResult:
    """Replay a node on data whose first row is answered the other way.

    For the printed node, even rounds compare q with Lemma 1 and odd rounds the gradient with
    Lemma 2.
    """
    tasks = node_data(n_rows, random_state=seed)
    neighbour = replace_row(tasks, 0, tasks.X[0], 1.0 - float(np.asarray(tasks.y)[0]))
    kind = SingleReleaseNode if sound else PrintedNode
    staged = kind(n_steps, n_rows, tasks.n_features, epsilon).staged()
    return replay(lambda _: staged, tasks, neighbour, random_state=seed)
