"""After the last release: every task settles by its own rows how far to follow the centre.

A task tries ways to end (stay at the centre, train from it under a strong or a weak pull, train
alone) on some of its rows, each in turn, and looks how likely the others are. Ends of a linear
model are averaged with the weight of that likelihood; of a network the likeliest is taken. Free
under joint DP, as nothing but the task's own rows and the releases is read, and nothing leaves it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.neural._linear import Extent
from tacit.neural._outputs import lost
from tacit.neural.cohort import LocalTraining, train_cohort
from tacit.neural.losses import CURVATURE, cross_entropy
from tacit.neural.pulls import Quadratic
from tacit.neural.rows import StackedRows

__all__ = ["settled"]


@dataclass(frozen=True)
class _Way:
    """One way to end: where to begin, how strong the pull there (inf: stay), how long the steps.

    Pull and steps are relative: to the rows' extent for a linear model, else to the task's λ and
    learning rate.
    """

    from_centre: bool
    pull: float
    steps: float = 1.0


# From strong to weak, so that each begins where the one before it ended.
_LINEAR = (
    *(_Way(True, pull) for pull in (math.inf, 1 / 4, 1 / 16, 1 / 64)),
    *(_Way(False, pull) for pull in (1 / 4, 1 / 16, 1 / 64, 1 / 256, 1 / 2048, 1 / 16384)),
)
# Nobody knows how features are scaled, so both small and large steps are tried.
_NETWORK = (
    _Way(True, math.inf),
    *(_Way(start, 1.0, steps) for start in (True, False) for steps in (1, 10)),
)
_FOLDS = {True: 3, False: 2}  # by whether the model is linear
_ALONE = 1e-3  # pull to the opening of a network that learns alone
_STEPS = 12  # from the way before, of a linear model
_SHARPNESS = 0.5  # of the average: 1 is likelihood itself, 0 the plain mean
_SCALES = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
_MOST = 1e3  # worse by so much is not at all likely
_TINY = 1e-30
_STRETCHES = tuple(2.0 ** (half / 2) for half in range(-6, 11))
# Factors by which scores and centre are usually too short: a few rows that are all foretold would
# ask for any length. Scores may be as much too long as they are: where classes are missing among a
# task's rows, the right direction is known long before the right length.
_USUAL_SCALE, _USUAL_STRETCH = 2.0, 4.0


@dataclass(frozen=True, eq=False)
class _Home:
    """Tasks that settle: what they train, and with what."""

    training: LocalTraining
    centre: Any
    opening: Any
    keys: AnyArray
    turn: int
    strength: float
    learning_rate: float
    ways: tuple[_Way, ...]

    @property
    def scales(self) -> Sequence[float]:
        """Factors by which scores may be taken: the likelihood of classes asks for the right one.

        A network's parameters cannot be scaled, but its ways are compared at their best.
        """
        return _SCALES if self.training.loss is cross_entropy else (1.0,)

    def first(self, way: _Way) -> Any:
        return self.centre if way.from_centre else self.opening


def settled(
    training: LocalTraining,
    rows: StackedRows,
    centre: Any,
    opening: Any,
    *,
    heard: bool,
    keys: AnyArray,
    turn: int,
    strength: float,
    learning_rate: float,
) -> Any:
    """Return personal models (m, …), each ended in the ways that its own rows prefer.

    Parameters
    ----------
    heard : bool
        Whether the centre tells more than noise, by what is public; otherwise all end alone.
    training, rows, centre, keys, turn, strength, learning_rate
        As in `train_cohort`; a linear model finds strengths and steps by itself.

    Guarantee: joint DP at no cost; model i is a function of task i's rows and key and of releases.
    """
    training = replace(training, pull=Quadratic(), full_batch=training.linear)
    if training.linear:
        training = replace(training, steps=_STEPS)
    ways = _LINEAR if training.linear else _NETWORK
    ways = tuple(way for way in ways if heard or not way.from_centre)
    home = _Home(training, centre, opening, keys, turn, strength, learning_rate, ways)
    end = _averaged if training.linear else _chosen
    return end(home, rows, _costs(home, rows))


def _costs(home: _Home, rows: StackedRows) -> Array:
    """Return minus the log-likelihood of held-out rows (ways, scales, m)."""
    k = _FOLDS[home.training.linear]
    costs = np.zeros((len(home.ways), len(home.scales), len(home.keys)))
    for fold in range(k):
        learn, held = _split(rows, fold, k)
        for number, models in enumerate(_ended(home, learn)):
            costs[number] += lost(home.training, models, held, home.scales)
    if home.training.loss is not cross_entropy:  # of Gaussian errors with the variance they have
        counts = np.maximum(np.asarray(rows.counts), 1)
        costs = counts / 2 * np.log(np.maximum(costs / counts, _TINY))
    costs += _unlikely(np.maximum(home.scales, 1.0), _USUAL_SCALE)
    return np.where(np.isfinite(costs), costs, np.inf)


def _unlikely(factors: Sequence[float] | Array, usual: float) -> Array:
    """Return minus the log-density (factors, 1) of a log-normal law around 1."""
    return 0.5 * (np.log(factors) / math.log(usual))[:, None] ** 2


def _averaged(home: _Home, rows: StackedRows, costs: Array) -> Any:
    """Return the average of all ends, each at its best scale, by their likelihoods."""
    scale, cost = np.array(home.scales)[costs.argmin(axis=1)], costs.min(axis=1)
    best = np.where(np.isfinite(cost.min(axis=0)), cost.min(axis=0), 0.0)
    weight = np.exp(-_SHARPNESS * np.minimum(cost - best, _MOST))
    # To follow the centre and to learn alone are as likely at first, however many ways each has.
    kin = [sum(way.from_centre is other.from_centre for other in home.ways) for way in home.ways]
    weight /= np.array(kin)[:, None]
    weight = scale * weight / weight.sum(axis=0)
    found = jax.tree.map(lambda leaf: np.zeros((len(home.keys), *leaf.shape)), home.opening)

    def add(total: AnyArray, leaf: AnyArray, own: Array) -> None:
        total += _times(own, leaf)

    for models, own in zip(_ended(home, rows), weight, strict=True):
        jax.tree.map(partial(add, own=own), found, models)
    return jax.tree.map(lambda leaf: leaf.astype(np.float32), found)


def _chosen(home: _Home, rows: StackedRows, costs: Array) -> Any:
    """Return the end of the likeliest way; ties go to the centre."""
    best = np.argmin(costs.min(axis=1), axis=0)
    found = jax.tree.map(
        lambda leaf: np.empty((len(home.keys), *leaf.shape), np.float32), home.opening
    )
    for number, way in enumerate(home.ways):
        own = np.flatnonzero(best == number)
        jax.tree.map(partial(_put, own), found, _by_steps(home, rows, way, own))
    return found


def _put(own: IntArray, stack: AnyArray, leaf: AnyArray) -> None:
    stack[own] = leaf


def _split(rows: StackedRows, fold: int, k: int) -> tuple[StackedRows, StackedRows]:
    """Return the rows of every task without every k-th, and those.

    Both are slices of arrays of one shape, so that nothing is compiled for them.
    """
    counts = np.asarray(rows.counts)
    task = np.repeat(np.arange(len(counts)), counts)
    first = np.cumsum(counts, dtype=counts.dtype) - counts
    place = np.arange(len(task)) - first[task]
    own = np.asarray(rows.first)[task] + place
    out = place % k == fold
    order = own[np.lexsort((place, out, task))]
    order = np.concatenate([order, np.setdiff1d(np.arange(len(rows.X)), own)])
    held = np.bincount(task, out, minlength=len(counts)).astype(counts.dtype)
    X, y, learn = rows.X[order], rows.y[order], counts - held
    return (
        replace(rows, X=X, y=y, first=jnp.asarray(first), counts=jnp.asarray(learn)),
        replace(rows, X=X, y=y, first=jnp.asarray(first + learn), counts=jnp.asarray(held)),
    )


def _ended(home: _Home, rows: StackedRows) -> Iterator[Any]:
    """Yield the models (m, …) of all tasks by every way."""
    if home.training.linear:
        yield from _by_descent(home, rows)
        return
    for way in home.ways:
        yield _by_steps(home, rows, way, np.arange(len(home.keys)))


def _by_descent(home: _Home, rows: StackedRows) -> Iterator[Any]:
    """Yield the ends of a linear model, the weaker pull from where the stronger one led.

    Who learns alone does so in units of its own rows, around their mean: otherwise what all of them
    have in common is learned first, and says nothing.
    """
    near = [way for way in home.ways if way.from_centre]
    alone = [way for way in home.ways if not way.from_centre]
    if near:
        losses = lost(home.training, _repeated(home.centre, len(home.keys)), rows, _STRETCHES)
        best = np.argmin(losses + _unlikely(_STRETCHES, _USUAL_STRETCH), axis=0)
        yield from _down(home, rows, near, np.array(_STRETCHES, np.float32)[best])
    affine = home.training.model.affine
    if affine is None:
        yield from _down(home, rows, alone, None)
        return
    units, shift, scale = _own_units(rows)
    for models in _down(home, units, alone, None):
        yield jax.tree.map(np.asarray, jax.vmap(affine)(models, shift, scale))


def _down(
    home: _Home, rows: StackedRows, ways: Sequence[_Way], stretch: AnyArray | None
) -> Iterator[Any]:
    """Yield the ends of ways that begin at one place, which every task takes ``stretch`` times."""
    m, extent = len(home.keys), Extent.of(rows)
    curvature = CURVATURE[home.training.loss]
    models = _repeated(home.first(ways[0]), m)
    if stretch is not None:
        models = jax.tree.map(partial(_times, stretch), models)
    for way in ways:
        if math.isfinite(way.pull):
            strength = extent.strength(way.pull)
            rate = extent.rate(curvature, strength)
            models = _trained(
                home, rows, way, np.arange(m), models, strength=strength, rate=rate, stretch=stretch
            )
        yield models


def _own_units(rows: StackedRows) -> tuple[StackedRows, AnyArray, AnyArray]:
    """Return every task's rows less their mean, over their spread; the means (m, d), spreads (m,).

    A spread is the root of the mean squared distance from the mean; 1 where there is none.
    """
    X, counts = np.asarray(rows.X), np.asarray(rows.counts)
    task = np.repeat(np.arange(len(counts)), counts)
    ends = np.cumsum(counts)
    own = np.asarray(rows.first)[task] + np.arange(len(task)) - (ends - counts)[task]
    flat = X[own].reshape(len(own), math.prod(X.shape[1:]))  # of no rows too
    shift, scale = (
        np.zeros((len(counts), flat.shape[1]), np.float32),
        np.ones(len(counts), np.float32),
    )
    for i in range(len(counts)):  # by itself: one sum over all would round by the others' sizes
        mine = flat[ends[i] - counts[i] : ends[i]]
        if len(mine):
            shift[i] = mine.mean(axis=0, dtype=np.float64)
            spread = math.sqrt(
                float(np.square(mine - shift[i], dtype=np.float64).sum()) / len(mine)
            )
            scale[i] = spread if spread > _TINY else 1.0
    changed = X.copy()
    changed[own] = ((flat - shift[task]) / scale[task, None]).reshape(X[own].shape)
    return replace(rows, X=jnp.asarray(changed)), shift, scale


def _by_steps(home: _Home, rows: StackedRows, way: _Way, own: IntArray) -> Any:
    """Return the ends of a network for the tasks ``own``, by stochastic steps."""
    starts = _repeated(home.first(way), len(home.keys))
    if math.isinf(way.pull) or not len(own):
        return jax.tree.map(lambda leaf: leaf[own], starts)
    strength = home.strength if way.from_centre else _ALONE
    rate = way.steps * home.learning_rate
    return _trained(home, rows, way, own, starts, strength=strength, rate=rate)


def _repeated(params: Any, m: int) -> Any:
    return jax.tree.map(
        lambda leaf: np.broadcast_to(np.asarray(leaf, np.float32), (m, *leaf.shape)), params
    )


def _times(factor: AnyArray, leaf: AnyArray) -> AnyArray:
    product: AnyArray = factor.reshape(-1, *(1,) * (leaf.ndim - 1)) * leaf
    return product


def _trained(
    home: _Home,
    rows: StackedRows,
    way: _Way,
    positions: IntArray,
    starts: Any,
    *,
    strength: float | Array,
    rate: float | Array,
    stretch: AnyArray | None = None,
) -> Any:
    """Return the models (b, …) of the tasks at ``positions`` after training."""
    found = jax.tree.map(
        lambda leaf: np.empty((len(positions), *leaf.shape[1:]), np.float32), starts
    )
    done = 0
    for part in train_cohort(
        home.training,
        rows,
        positions,
        centre=home.first(way),
        models=starts,
        keys=home.keys,
        turn=home.turn,
        strength=strength,
        learning_rate=rate,
        stretch=stretch,
    ):
        own = np.arange(done, done + len(part.positions))
        jax.tree.map(partial(_put, own), found, part.models)
        done += len(own)
    return found
