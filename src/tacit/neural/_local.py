"""One task's turn, traced: E steps under the pull, and the clipped distance that leaves.

Everything here is a function of the task's own rows, key and model, and of the public centre.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tacit._check import positive_integer
from tacit.errors import InvalidInput
from tacit.neural.losses import CURVATURE, cross_entropy
from tacit.neural.models import Model
from tacit.neural.pulls import Minibatch, NoPull, Pull, Quadratic
from tacit.neural.rows import Slice, order_of

__all__ = ["LocalTraining", "Own", "local_turn"]

_MEAN_REGULARISED = Quadratic()
_BLOCK = 32  # rows whose gradients are added up at once where all rows count in every step
_UNSEEN = Minibatch(None, None, None)  # no pull of full-batch descent looks at outputs
_LONGEST = 1e4  # step, in multiples of the one that is always safe


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
    full_batch : bool
        Descend on all rows at once instead of minibatches, ``steps`` (or ``epochs``) times; for
        convex objectives whose smoothness is known.
    """

    model: Model
    loss: Callable[[Any, Any], Any] = cross_entropy
    pull: Pull = _MEAN_REGULARISED
    batch_size: int = 10
    epochs: int = 1
    steps: int | None = None
    full_batch: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "epochs"):
            positive_integer(name, getattr(self, name), remedy="10 rows and 1 epoch are usual")
        if self.steps is not None:
            positive_integer("steps", self.steps, remedy="use steps=None to count epochs")
        if self.full_batch and not isinstance(self.pull, NoPull | Quadratic):
            raise InvalidInput(
                f"pull={self.pull}: full-batch descent knows NoPull and Quadratic; use minibatches"
            )

    @property
    def linear(self) -> bool:
        """Whether a task's objective is convex with a smoothness that its rows tell."""
        return self.model.linear and self.loss in CURVATURE

    def n_steps(self, n_batches: Any) -> Any:
        """Return the steps of a turn of a task with ``n_batches`` minibatches (none: no rows)."""
        if self.full_batch:
            return jnp.where(n_batches > 0, self.steps or self.epochs, 0)
        if self.steps is None:
            return self.epochs * n_batches
        return jnp.where(n_batches > 0, self.steps, 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Own:
    """What a task brings beside its rows; by task (m, …) outside the loop over tasks.

    ``key`` orders its minibatches, ``strength`` is λ of its pull, ``rate`` its step, and it takes
    the public centre ``stretch`` times as long (None: as it is).
    """

    key: Any
    strength: Any
    rate: Any
    stretch: Any


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


def _stochastic(
    training: LocalTraining, start: Any, centre: Any, rows: Slice, own: Own, n_steps: Any
) -> Any:
    """Return the parameters after ``n_steps`` steps on minibatches."""
    size = training.batch_size
    n_batches = (rows.count + size - 1) // size
    importance = _importance(training, centre, rows)

    def epoch(number: Any, params: Any) -> Any:
        order, done = order_of(own.key, number), number * n_batches

        def step(b: Any, params: Any) -> Any:
            batch = rows.minibatch(order, b, size)
            gradient = jax.grad(
                lambda p: _objective(training, p, centre, importance, own.strength, batch)
            )(params)
            return jax.tree.map(lambda p, g: p - own.rate * g, params, gradient)

        return jax.lax.fori_loop(0, jnp.minimum(n_batches, n_steps - done), step, params)

    n_epochs = (n_steps + n_batches - 1) // jnp.maximum(n_batches, 1)
    return jax.lax.fori_loop(0, n_epochs, epoch, start)


def _descended(
    training: LocalTraining, start: Any, centre: Any, rows: Slice, own: Own, n_steps: Any
) -> Any:
    """Return the lowest point of ``n_steps`` steps of Barzilai and Borwein (1988) on all rows.

    Their two lengths in turn, never below ``own.rate``: steps adapt to the curvature they meet,
    and as the objective may rise on the way, the best point counts.
    """

    def fit(params: Any, b: Any) -> Any:
        x, y, weight = rows.block(b, _BLOCK)
        return jnp.sum(weight * training.loss(training.model.apply(params, x), y)) / rows.count

    def pulled(params: Any) -> Any:
        return own.strength * training.pull(params, centre, None, _UNSEEN)

    def objective(params: Any) -> Any:
        pulled = jax.value_and_grad(
            lambda p: own.strength * training.pull(p, centre, None, _UNSEEN)
        )
        return jax.lax.fori_loop(
            0,
            (rows.count + _BLOCK - 1) // _BLOCK,
            lambda b, sums: jax.tree.map(jnp.add, sums, jax.value_and_grad(fit)(params, b)),
            jax.tree.map(jnp.asarray, pulled(params)),
        )

    def step(k: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
        params, slope, rate, best, lowest = state
        after = jax.tree.map(lambda p, g: p - rate * g, params, slope)
        value, slope_after = objective(after)
        moved, bent = (
            jax.tree.map(jnp.subtract, *pair) for pair in ((after, params), (slope_after, slope))
        )
        across = _dot(moved, bent)
        length = jnp.where(k % 2, across / _dot(bent, bent), _dot(moved, moved) / across)
        rate = jnp.where(across > 0, jnp.clip(length, own.rate, _LONGEST * own.rate), own.rate)
        best = jax.tree.map(lambda b, a: jnp.where(value < lowest, a, b), best, after)
        return after, slope_after, rate, best, jnp.fmin(lowest, value)

    value, slope = objective(start)
    first = (start, slope, own.rate, start, value)
    return jax.lax.fori_loop(0, n_steps, step, first)[3]


def _dot(one: Any, other: Any) -> Any:
    products = jax.tree.map(lambda a, b: jnp.sum(a * b), one, other)
    return sum(jax.tree.leaves(products))


def local_turn(
    training: LocalTraining, start: Any, centre: Any, rows: Slice, own: Own, clip: Any
) -> tuple[Any, Any]:
    """Return the task's model after its turn, and w − c clipped to ``clip``.

    If training leaves the finite numbers, the model stays where it was and the update is zero.
    """
    n_steps = training.n_steps((rows.count + training.batch_size - 1) // training.batch_size)
    descend = _descended if training.full_batch else _stochastic
    wide, wide_centre = training.model.widen(start), training.model.widen(centre)
    after = training.model.narrow(descend(training, wide, wide_centre, rows, own, n_steps))
    update = jax.tree.map(jnp.subtract, after, centre)
    norm = jnp.sqrt(sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(update)))
    finite = jnp.isfinite(norm)
    scale = jnp.minimum(1.0, clip / norm)
    model = jax.tree.map(lambda a, s: jnp.where(finite, a, s), after, start)
    return model, jax.tree.map(lambda u: jnp.where(finite, u * scale, 0.0), update)
