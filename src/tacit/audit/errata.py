"""The asynchronous paper's node as printed, and its sound form, as protocols to replay.

Both are one node with n rows against an untrusted server (unit: one row), for the logistic loss
with rows of norm at most 1. docs/errata.md has what the replay finds.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit

from tacit._types import Array
from tacit.audit.neighbours import replace_row
from tacit.audit.replay import ReplayResult, replay
from tacit.errors import PrivacyWarning
from tacit.privacy.bounds import RowGradientClip
from tacit.privacy.mechanisms import GammaVector, Mechanism
from tacit.privacy.published import AsynchronousPerIterationPublished
from tacit.privacy.unit import Adjacency, Norm, Unit
from tacit.tasks import TaskSet

__all__ = ["Node", "PrintedNode", "SingleReleaseNode", "asynchronous_sensitivity", "node_data"]

_ROW_NORM = 1.0  # C₁
_DERIVATIVE = 1.0  # C₂ of the logistic loss


@dataclass(frozen=True)
class Node:
    """What the node keeps: its rows, the server's p, its q, and what it heard last."""

    tasks: TaskSet
    p: Array
    q: Array
    heard: Array


def _row_gradients(tasks: TaskSet, w: Array) -> Array:
    residual = expit(tasks.X @ w) - np.asarray(tasks.y)
    return tasks.X * residual[:, None]


def _server(p: Array, gradient: Array, step: float, strength: float) -> Array:
    """Return the server's proximal step; the nuclear norm of a single column is its length."""
    moved = p - step * gradient
    length = float(np.linalg.norm(moved))
    return moved * max(0.0, 1.0 - step * strength / length) if length > 0 else moved


@dataclass(frozen=True)
class PrintedNode:
    """Algorithm 1 as printed: two releases a step, q from the raw data of all steps.

    Even rounds are line 10, q^(k) + z₁ with the sensitivity of Lemma 1; odd rounds are line 13,
    the gradient at p + q^(k) + z₁ with the sensitivity of Lemma 2.

    Guarantee: none; see `AsynchronousPerIterationPublished`.
    """

    n_steps: int
    n_rows: int
    epsilon: float = 1.0
    step: float = 0.1
    strength: float = 1e-4
    unit: Unit = field(default=Unit.ROW, init=False)
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, init=False)

    @property
    def n_rounds(self) -> int:
        """Two releases a step."""
        return 2 * self.n_steps

    def start(self, tasks: TaskSet) -> Node:
        """Take the first raw gradient step from q = 0 (the printed start leaks more)."""
        zero = np.zeros(tasks.n_features)
        return self._stepped(Node(tasks, zero, zero, zero))

    def _stepped(self, state: Node) -> Node:
        gradient = _row_gradients(state.tasks, state.p + state.q).mean(axis=0)
        return replace(state, q=state.q - self.step * (gradient + self.strength * state.q))

    def speak(self, state: Node, t: int) -> Array:
        """Say q, or the gradient at what was said of q."""
        if t % 2 == 0:
            return state.q[None]
        return _row_gradients(state.tasks, state.p + state.heard).mean(axis=0)[None]

    def bound(self, messages: Array) -> Array:
        """Nothing is clipped: rows are bounded, and the paper argues from that."""
        return messages

    def aggregate(self, messages: Array) -> Array:
        """The node adds its noise itself."""
        return messages

    def mechanism(self, t: int) -> Mechanism:
        """Return the printed noise of Lemma 1 (even rounds) or Lemma 2 (odd rounds)."""
        with warnings.catch_warnings():
            # Built in order to be refuted: nobody's data are released.
            warnings.simplefilter("ignore", PrivacyWarning)
            return AsynchronousPerIterationPublished(
                self.epsilon,
                _ROW_NORM,
                _DERIVATIVE,
                self.n_rows,
                self.step if t % 2 == 0 else 1.0,
            )

    def listen(self, state: Node, release: Array, t: int) -> Node:
        """Note q + z₁; or let the server answer the gradient and step again."""
        if t % 2 == 0:
            return replace(state, heard=release[0])
        p = _server(state.p, release[0], self.step, self.strength)
        return self._stepped(replace(state, p=p))

    def finish(self, state: Node) -> Array:
        """Return w = p + q."""
        return (state.p + state.q)[None]


@dataclass(frozen=True)
class SingleReleaseNode:
    """The sound form: the noised mean of clipped row gradients is all that is made of the data.

    Guarantee: each release is ε-DP for one row under replace-one with public n (sensitivity
    2C/n); the shadow q̃ and p are functions of past releases, so adaptive composition applies.
    """

    n_steps: int
    n_rows: int
    epsilon: float = 1.0
    step: float = 0.1
    strength: float = 1e-4
    unit: Unit = field(default=Unit.ROW, init=False)
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, init=False)

    @property
    def n_rounds(self) -> int:
        """One release a step."""
        return self.n_steps

    def start(self, tasks: TaskSet) -> Node:
        """Start from public zeros."""
        zero = np.zeros(tasks.n_features)
        return Node(tasks, zero, zero, zero)

    def speak(self, state: Node, t: int) -> Array:  # noqa: ARG002
        """Say the mean of clipped row gradients at p + q̃."""
        gradients = _row_gradients(state.tasks, state.p + state.q)
        return RowGradientClip(_ROW_NORM)(gradients).sum(axis=0)[None] / self.n_rows

    def bound(self, messages: Array) -> Array:
        """Rows were clipped one by one; there is nothing left to bound."""
        return messages

    def aggregate(self, messages: Array) -> Array:
        """The node adds its noise itself."""
        return messages

    def mechanism(self, t: int) -> Mechanism:  # noqa: ARG002
        """Return gamma-vector noise for the sensitivity 2C/n."""
        reach = RowGradientClip(_ROW_NORM).sensitivity(Norm.L2, Adjacency.REPLACE_ONE)
        return GammaVector(reach / self.n_rows, self.epsilon)

    def listen(self, state: Node, release: Array, t: int) -> Node:  # noqa: ARG002
        """Move the shadow q̃ and p by the release alone."""
        q = state.q - self.step * (release[0] + self.strength * state.q)
        return replace(state, p=_server(state.p, release[0], self.step, self.strength), q=q)

    def finish(self, state: Node) -> Array:
        """Return p + q̃."""
        return (state.p + state.q)[None]


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
    return replay(lambda _: kind(n_steps, n_rows, epsilon), tasks, neighbour, random_state=seed)
