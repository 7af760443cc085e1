"""One task's turn, traced: E steps of SGD under the pull, and the clipped distance that leaves.

Everything here is a function of the task's own rows, key and model, and of the public centre.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit._check import positive_integer
from tacit.neural.losses import cross_entropy
from tacit.neural.models import Model
from tacit.neural.pulls import Minibatch, Pull, Quadratic
from tacit.neural.rows import Slice

__all__ = ["Knobs", "LocalTraining", "local_turn"]

_MEAN_REGULARISED = Quadratic()


@dataclass(frozen=True)
class LocalTraining:
    """What a task does when it is asked; fixed for a run, and compiled once.

    Parameters
    ----------
    model : Model
        Pure functions ``init`` and ``apply``.
    loss : callable
        ``loss(outputs, y)`` by row.
    pull : Pull
        Penalty towards the centre, in force at every step.
    batch_size : int
        Rows of a minibatch.
    epochs : int
        Passes over the task's rows in one turn.
    steps : int or None
        Steps in one turn instead of ``epochs``; the order runs on through as many passes as needed.
    """

    model: Model
    loss: Callable[[Any, Any], Any] = cross_entropy
    pull: Pull = _MEAN_REGULARISED
    batch_size: int = 10
    epochs: int = 1
    steps: int | None = None

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs"):
            positive_integer(name, getattr(self, name), remedy="10 rows and 1 epoch are usual")
        if self.steps is not None:
            positive_integer("steps", self.steps, remedy="use steps=None to count epochs")

    def n_steps(self, n_batches: Any) -> Any:
        """Return the steps of a turn of a task with ``n_batches`` minibatches (none: no rows)."""
        if self.steps is None:
            return self.epochs * n_batches
        return jnp.where(n_batches > 0, self.steps, 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Knobs:
    """Numbers that may change from turn to turn without compiling again."""

    learning_rate: Any
    clip: Any


def _objective(
    training: LocalTraining, params: Any, centre: Any, importance: Any, strength: Any, batch: Any
) -> Any:
    x, y, weight = batch
    total = jnp.sum(weight)

    def mean(values: Any) -> Any:
        return jnp.sum(weight * values) / total

    outputs = training.model.apply(params, x)
    seen = Minibatch(outputs, lambda: training.model.apply(centre, x), mean)
    penalty = training.pull(params, centre, importance, seen)
    return mean(training.loss(outputs, y)) + strength * penalty


def _importance(training: LocalTraining, centre: Any, rows: Slice) -> Any:
    """Return the mean squared gradient of the loss over the task's rows, at the centre."""
    if not training.pull.importance:
        return None

    def add(i: Any, total: Any) -> Any:
        x, y = rows.take(i[None])
        gradient = jax.grad(lambda p: training.loss(training.model.apply(p, x), y)[0])(centre)
        return jax.tree.map(lambda t, g: t + g**2, total, gradient)

    total = jax.lax.fori_loop(0, rows.count, add, jax.tree.map(jnp.zeros_like, centre))
    return jax.tree.map(lambda t: t / jnp.maximum(rows.count, 1), total)


def local_turn(
    training: LocalTraining,
    start: Any,
    centre: Any,
    rows: Slice,
    key: Any,
    strength: Any,
    knobs: Knobs,
) -> tuple[Any, Any]:
    """Return the task's model after its turn, and w − c clipped to ``knobs.clip``.

    If training leaves the finite numbers, the model stays where it was and the update is zero.
    """
    size = training.batch_size
    n_batches = (rows.count + size - 1) // size
    wide_centre = training.model.widen(centre)
    importance = _importance(training, wide_centre, rows)

    def step(s: Any, params: Any) -> Any:
        batch = rows.minibatch(key, s // n_batches, s % n_batches, size)
        gradient = jax.grad(
            lambda p: _objective(training, p, wide_centre, importance, strength, batch)
        )(params)
        return jax.tree.map(lambda p, g: p - knobs.learning_rate * g, params, gradient)

    n_steps = training.n_steps(n_batches)
    wide = jax.lax.fori_loop(0, n_steps, step, training.model.widen(start))
    after = training.model.narrow(wide)
    update = jax.tree.map(jnp.subtract, after, centre)
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(update)))
    finite = jnp.isfinite(norm)
    scale = jnp.minimum(1.0, knobs.clip / norm)
    model = jax.tree.map(lambda a, s: jnp.where(finite, a, s), after, start)
    return model, jax.tree.map(lambda u: jnp.where(finite, u * scale, 0.0), update)
