"""The last round of the hierarchical prior: how much alike tasks are, and in which shape.

A grid of candidate priors has hundreds of members, and a message of bounded length that spoke of
each would say next to nothing of any. What is asked for are some 16 *comparisons*: every strength
of slopes and of levels with the next one of the grid, every shape with the one it refines, and all
of them with learning alone. A comparison is the task's log-evidence for one over that for the
other, whatever the rest may be. Summed over tasks it changes its sign where the common strength
lies, so that the reader need not tell how well a strength does, only on which side of it one is.
Where there is hardly any noise the whole grid's evidence is asked for after all: it also knows how
strengths and shapes depend on one another.

Constants were settled on generated tasks (common models, four directions, categories with unequal
numbers of rows, labels), with seeds from 1000 on.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tacit._types import Array
from tacit.numerics.hierarchical import Candidates

__all__ = ["Comparisons", "WholeGrid", "asked", "evidence_limit"]

# A number of a message, in nats: strong words of a few tasks are cut short while noise is loud. As
# it falls more is let through, because those who have most to say of a strength ask for a larger.
_LEAST_LIMIT, _MOST_LIMIT, _LOUD = 0.75, 6.0, 0.045
_LATE = 0.75
# What a comparison may reach far from the common strength, in nats a task; over how many steps of
# the grid it rises to it; and which part of it a straight rise does not explain.
_REACHES, _RISES, _CROOKED = (0.3, 0.6), (1.0, 2.0), 0.5
# Strengths stand for signal-to-noise ratios: decades around one, before any release.
_SLOPE_DECADES, _LEVEL_DECADES = 1.0, 1.5
# Nats of a summed comparison for each nat of public weight: at least as many, because tasks differ
# in more than a common prior can say; and the likelihood ratio of the two signs of half the limit.
_TEMPER, _HALF = 10.0, 0.5
# The whole grid is asked for below this noise on a number of the mean unit message, or where noise
# on the sum over few tasks is less than a nat. Radius of a message, in nats.
_SILENT = 0.001
_LEAST_RADIUS, _MOST_RADIUS = 2.0, 40.0
_PART = 0.25  # of the noise on a whole grid, that its nats are tempered by


def asked(
    n_slopes: int, n_levels: int, n_shapes: int, *, noise: float, n_tasks: int, loss: str
) -> Comparisons | WholeGrid:
    """Return what to ask of a grid of that size, for that noise on a number of a mean message."""
    if noise < max(_SILENT, 1 / (n_tasks * _MOST_RADIUS)):
        radius = float(np.clip(0.5 / max(noise, 1e-9), _LEAST_RADIUS, _MOST_RADIUS))
        return WholeGrid(n_slopes, n_levels, n_shapes, radius)
    limit = evidence_limit(noise)
    late = _LATE * _LEAST_LIMIT / limit if loss == "logistic" else 0.0
    return Comparisons(n_slopes, n_levels, n_shapes, limit, n_tasks, late)


def evidence_limit(noise: float) -> float:
    """Return the limit of a comparison for that noise on a number of the mean unit message."""
    return float(np.clip(_LEAST_LIMIT * _LOUD / max(noise, 1e-12), _LEAST_LIMIT, _MOST_LIMIT))


@dataclass(frozen=True)
class Comparisons:
    """What is compared, and how messages about it are made and read.

    Attributes
    ----------
    n_slopes, n_levels, n_shapes : int
        Sizes of the grid, of the shapes the most there can be.
    limit : float
        Of a comparison, in nats.
    n_tasks : int
        Public number of tasks.
    late : float
        Steps of the grid by which the common strength of slopes lies above the change of sign: few
        labels speak softly for a smaller strength, and those who speak up for a larger are cut.
    """

    n_slopes: int
    n_levels: int
    n_shapes: int
    limit: float
    n_tasks: int
    late: float = 0.0

    @property
    def size(self) -> int:
        """Numbers in a message."""
        return self.n_slopes + self.n_levels + self.n_shapes - 2

    @property
    def radius(self) -> float:
        """Length of a message whose comparisons all reach the limit, in nats."""
        return self.limit * math.sqrt(self.size)

    def messages(
        self, shared: Array, alone: Array, candidates: Candidates, parents: tuple[int, ...]
    ) -> Array:
        """Return messages (m, size) of length ≤ 1 from log-evidence.

        Parameters
        ----------
        shared : (m, s, a, c) array
            Of every shape with every pair of strengths, as ``candidates`` has them.
        alone : (m, a') array
            Of the priors of a task that learns alone.
        parents : tuple of int
            The shape that each shape refines.

        Guarantee: row i is a function of row i of the arguments, sums run along the last axis of a
        copy. Each of ``size`` numbers is at most limit/radius = 1/√size, so the norm is at most 1.
        """
        by_slope, by_level = _usual(candidates)
        slopes = shared + by_level  # whatever the levels may be, and so on
        levels = shared + by_slope[:, None]
        shared = slopes + by_slope[:, None]
        alone = alone + by_slope
        by_shape = _average(shared)
        found = [
            np.diff(_average(slopes.transpose(0, 2, 1, 3)), axis=1),
            np.diff(_average(levels.transpose(0, 3, 1, 2)), axis=1),
            by_shape[:, 1:] - by_shape[:, list(parents[1:])],
            np.zeros((len(shared), self.n_shapes - len(parents))),
            _average(shared[:, None]) - _average(alone[:, None]),
        ]
        return np.clip(np.concatenate(found, axis=1), -self.limit, self.limit) / self.radius

    def read(
        self, total: Array, deviation: float, candidates: Candidates, parents: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """Return public log-weights of the candidates, and of those of a task that learns alone.

        Parameters
        ----------
        total : (size,) array
            The noisy sum of messages.
        deviation : float
            Of its noise.

        Guarantee: post-processing of a release.
        """
        told, noise = total * self.radius, deviation * self.radius
        ends = np.cumsum([self.n_slopes - 1, self.n_levels - 1, self.n_shapes - 1])
        slopes, levels, shapes, odds = np.split(told, ends)
        by_slope, by_level = _usual(candidates)
        by_slope = by_slope + self._crossing(slopes, noise, self.late)
        by_level = by_level + self._crossing(levels, noise)
        temper = _TEMPER + noise**2 / (2 * _HALF * self.n_tasks * self.limit)
        by_shape = np.zeros(len(parents))
        for shape in range(1, len(parents)):
            by_shape[shape] = by_shape[parents[shape]] + shapes[shape - 1] / temper
        weights = _even(by_slope[:, None] + by_level)
        together = _even(by_shape[:, None, None] + weights).ravel() + odds[0] / temper
        return together, np.zeros(self.n_slopes)

    def _crossing(self, steps: Array, noise: float, late: float = 0.0) -> Array:
        """Return log-probabilities that comparisons of neighbours change sign at each member.

        The sums are taken for a straight line through zero between two plateaus, crooked by a part
        of their heights, plus the noise; heights and widths are averaged over.
        """
        m, places = self.n_tasks, np.arange(steps.size + 1.0)
        apart = places[:, None] - late - (np.arange(steps.size) + 0.5)
        highest = _REACHES[-1] * m + 2 * noise
        steps = np.clip(steps, -highest, highest)
        found = []
        for reach, rise in itertools.product(_REACHES, _RISES):
            variance = noise**2 + (_CROOKED * reach * m) ** 2
            left = steps - reach * m * np.clip(apart / rise, -1, 1)
            misfit = (left * left).sum(axis=1) / variance + steps.size * math.log(variance)
            found.append(-0.5 * misfit)
        return np.asarray(logsumexp(found, axis=0))


@dataclass(frozen=True)
class WholeGrid:
    """The log-evidence of every candidate, where noise is too low to hide any.

    Attributes are those of `Comparisons`, but for the limit: ``radius`` is that of a message, in
    nats. As noise vanishes it grows until no task is cut short, and the sum is the evidence.
    """

    n_slopes: int
    n_levels: int
    n_shapes: int
    radius: float

    @property
    def size(self) -> int:
        """Numbers in a message."""
        return self.n_slopes * (self.n_shapes * self.n_levels + 1)

    def messages(
        self, shared: Array, alone: Array, candidates: Candidates, parents: tuple[int, ...]
    ) -> Array:
        """Return centred messages (m, size), in units of the radius.

        A candidate far worse than the task's best says no more than "no": it counts as if it lay
        two radii below. Shapes that were not found say nothing.

        Guarantee: row i is a function of row i of the arguments; the round's bound limits it.
        """
        missing = (self.n_shapes - len(parents)) * candidates.n_strengths
        flat = np.concatenate([shared.reshape(len(shared), -1), alone], axis=1)
        short = np.maximum(flat - flat.max(axis=1, keepdims=True), -2 * self.radius)
        centred = short - short.mean(axis=1, keepdims=True)
        return np.pad(centred, ((0, 0), (0, missing))) / self.radius

    def read(
        self, total: Array, deviation: float, candidates: Candidates, parents: tuple[int, ...]
    ) -> tuple[Array, Array]:
        """Return public log-weights of the candidates, and of those of a task that learns alone."""
        told = total * self.radius / (_TEMPER + _PART * deviation * self.radius)
        size = len(parents) * candidates.n_strengths
        return told[:size], told[size : size + self.n_slopes]


def _usual(candidates: Candidates) -> tuple[Array, Array]:
    """Return log-weights of the strengths before anybody spoke, of mean weight 1."""
    d = candidates.means.shape[1] - (candidates.levels.size > 1)
    slopes = np.log10(candidates.slopes * d) / _SLOPE_DECADES
    levels = np.zeros(1)
    if candidates.levels.size > 1:
        levels = np.log10(candidates.levels) / _LEVEL_DECADES
    return _even(-0.5 * slopes**2), _even(-0.5 * levels**2)


def _average(logs: Array) -> Array:
    """Return log of the mean of exp over all but the first two axes."""
    flat = np.ascontiguousarray(logs.reshape(*logs.shape[:2], -1))
    highest = flat.max(axis=-1, keepdims=True)
    return np.asarray(highest[..., 0] + np.log(np.exp(flat - highest).mean(axis=-1)))


def _even(log_weights: Array) -> Array:
    """Return weights scaled to mean 1."""
    found = log_weights - logsumexp(log_weights) + math.log(log_weights.size)
    return np.asarray(found)
