"""The last round of the hierarchical prior: how much alike tasks are, and in which shape.

A grid of candidate priors has hundreds of members, and a message of bounded length that spoke of
each would say next to nothing of any. What is asked for are some 16 *comparisons*: every strength
of slopes and of levels with the next one of the grid, every shape with the one it refines, and all
of them with learning alone. A comparison is the task's log-evidence for one over that for the
other, whatever the rest may be. Summed over tasks it changes its sign where the common strength
lies, so that the reader need not tell how well a strength does, only on which side of it one is.

Constants were settled on generated tasks (common models, four directions, categories with unequal
numbers of rows, labels), with seeds from 1000 on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from tacit._types import Array
from tacit.numerics.hierarchical import Candidates

__all__ = ["Comparisons", "evidence_limit", "sign_is_late"]

# A number of a message, in nats: strong words of a few tasks are cut short while noise is loud. As
# it falls more is let through, because those who have most to say of a strength ask for a larger.
_LEAST_LIMIT, _MOST_LIMIT, _LOUD = 0.75, 6.0, 0.045
_LATE = 0.75
# What a comparison may reach far from the common strength, in nats a task; over how many steps of
# the grid it rises to it; and which part of it a straight rise does not explain.
_REACHES, _RISES, _CROOKED = (0.3, 0.6), (1.0, 2.0), 0.5
# Strengths of slopes stand for signal-to-noise ratios: decades around one, before any release.
_DECADES = 1.0
# Nats of a summed comparison for each nat of public weight: at least as many, because tasks differ
# in more than a common prior can say; and the likelihood ratio of the two signs of half the limit.
_TEMPER, _HALF = 10.0, 0.5


def evidence_limit(noise: float) -> float:
    """Return the limit of a comparison for that noise on a number of the mean unit message."""
    return float(np.clip(_LEAST_LIMIT * _LOUD / max(noise, 1e-12), _LEAST_LIMIT, _MOST_LIMIT))


def sign_is_late(limit: float, loss: str) -> float:
    """Return by how many steps the change of sign comes too early at that limit."""
    return _LATE * _LEAST_LIMIT / limit if loss == "logistic" else 0.0


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

    def messages(self, shared: Array, alone: Array, parents: tuple[int, ...]) -> Array:
        """Return messages (m, size) of length ≤ 1 from log-evidence.

        Parameters
        ----------
        shared : (m, s, a, c) array
            Of every shape with every pair of strengths.
        alone : (m, a') array
            Of the priors of a task that learns alone.
        parents : tuple of int
            The shape that each shape refines.

        Guarantee: row i is a function of row i of the arguments, sums run along the last axis of a
        copy. Each of ``size`` numbers is at most limit/radius = 1/√size, so the norm is at most 1.
        """
        by_shape = _average(shared)
        found = [
            np.diff(_average(shared.transpose(0, 2, 1, 3)), axis=1),
            np.diff(_average(shared.transpose(0, 3, 1, 2)), axis=1),
            by_shape[:, 1:] - by_shape[:, list(parents[1:])],
            np.zeros((len(shared), self.n_shapes - len(parents))),
            _average(shared[:, None]) - _average(alone[:, None]),
        ]
        return np.clip(np.concatenate(found, axis=1), -self.limit, self.limit) / self.radius

    def read(
        self, total: Array, deviation: float, candidates: Candidates, parents: tuple[int, ...]
    ) -> tuple[Array, float]:
        """Return public log-weights of the candidates, of mean weight 1, and their common odds.

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
        d = candidates.means.shape[1] - (candidates.levels.size > 1)
        usual = -0.5 * (np.log10(candidates.slopes * d) / _DECADES) ** 2
        by_slope = self._crossing(slopes, noise, self.late) + usual
        by_level = self._crossing(levels, noise)
        temper = _TEMPER + noise**2 / (2 * _HALF * self.n_tasks * self.limit)
        by_shape = np.zeros(len(parents))
        for shape in range(1, len(parents)):
            by_shape[shape] = by_shape[parents[shape]] + shapes[shape - 1] / temper
        weights = _even(by_slope[:, None] + by_level)
        return _even(by_shape[:, None, None] + weights).ravel(), float(odds[0]) / temper

    def _crossing(self, steps: Array, noise: float, late: float = 0.0) -> Array:
        """Return log-probabilities that comparisons of neighbours change sign at each member.

        The sums are taken for a straight rise through zero between two plateaus, crooked by a part
        of their height, plus the noise; heights and rises are averaged over.
        """
        m, places = self.n_tasks, np.arange(steps.size + 1.0)
        apart = places[:, None] - late - (np.arange(steps.size) + 0.5)
        highest = _REACHES[-1] * m + 2 * noise
        steps = np.clip(steps, -highest, highest)
        found = []
        for reach in _REACHES:
            variance = noise**2 + (_CROOKED * reach * m) ** 2
            for rise in _RISES:
                left = steps - reach * m * np.clip(apart / rise, -1, 1)
                misfit = (left * left).sum(axis=1) / variance + steps.size * math.log(variance)
                found.append(-0.5 * misfit)
        return np.asarray(logsumexp(found, axis=0))


def _average(logs: Array) -> Array:
    """Return log of the mean of exp over all but the first two axes."""
    flat = np.ascontiguousarray(logs.reshape(*logs.shape[:2], -1))
    highest = flat.max(axis=-1, keepdims=True)
    return np.asarray(highest[..., 0] + np.log(np.exp(flat - highest).mean(axis=-1)))


def _even(log_weights: Array) -> Array:
    """Return weights scaled to mean 1."""
    found = log_weights - logsumexp(log_weights) + math.log(log_weights.size)
    return np.asarray(found)
