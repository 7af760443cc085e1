"""How the hierarchical prior is learned: which rounds, with which shares and sizes.

Everything here follows from public quantities before any row is seen: the numbers of tasks and
features, the loss, and two measures of how loud the noise would be if one round had it all:

    vector_noise  ν = E‖noise‖ / m of the mean of m vectors of norm ≤ 1   (Gaussian 2√p/(μ m)),
    matrix_edge   e = largest eigenvalue of the noise / m of the mean of m outer products of unit
                  vectors (Gaussian √2·√(2d)/(μ m)).

The constants were settled on generated tasks (a common model, low rank, sparse, badly scaled
features, one to five rows, unequal sizes, logistic, unrelated tasks), not on any data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.numerics.hierarchical import Candidates

__all__ = ["FREE_LEVEL", "Plan", "alone", "evidence_radius", "grid", "plan"]

_QUIET, _LOUD = 0.05, 0.2  # of ν
# Noise whose edge, at half of the budget, passes a quarter of the trace hides all but one or two
# directions; the budget is better spent on the mean.
_VISIBLE_EDGE = 0.125
_LEAST_FEATURES = 4  # below it a covariance's shape has too little to say for its cost
# A ballot of m tasks peaks at about 0.6·m·μ deviations: this share puts it at six.
_VOTE = 6.5
_LEAST_VOTE, _MOST_VOTE = 0.15, 0.45
FREE_LEVEL = 1e3  # a level's strength at which the prior has no say
_SLOPES = {
    "squared": 10.0 ** np.arange(-2.5, 2.1, 0.5),
    "logistic": 10.0 ** np.arange(-2, 1.6, 0.5),
}
_LEVELS = {
    "squared": 10.0 ** np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 3.0]),
    "logistic": 10.0 ** np.array([-2.0, -1.0, 0.0, 1.0]),
}


@dataclass(frozen=True)
class Plan:
    """The conversation: its rounds in order with their relative budgets, and public constants.

    Attributes
    ----------
    shares : tuple of (name, share)
        Rounds; the n_scores score rounds divide the share of "scores" among them.
    n_scores : int
        Score rounds.
    clip : float
        Radius of a score message, as a part of the typical length.
    power : float
        Score round t counts (t + 1)^power in the average.
    slope, level : float
        Strengths τ_w and τ_b of the prior under which scores are taken.
    """

    shares: tuple[tuple[str, float], ...]
    n_scores: int
    clip: float
    power: float
    slope: float
    level: float = 10.0
    step: float = 1.6

    @property
    def moment(self) -> bool:
        """Whether the shape of the slopes' covariance is learned too."""
        return any(name == "moment" for name, _ in self.shares)


def plan(
    vector_noise: float,
    matrix_edge: float,
    *,
    n_features: int,
    loss: str,
    intercept: bool,
    covariance: bool = True,
) -> Plan:
    """Return the plan for these noise levels.

    Parameters
    ----------
    covariance : bool
        Learn the covariance's shape where noise lets it be seen; False is the mean-regularised
        method.

    Louder noise asks for fewer, shorter steps from a narrower prior (each task's score is then
    less its own noise and more the common direction), quieter noise for faster forgetting.
    """
    quiet, loud = vector_noise < _QUIET, vector_noise >= _LOUD
    vote = float(
        np.clip(_VOTE * vector_noise / math.sqrt(n_features + intercept), _LEAST_VOTE, _MOST_VOTE)
    )
    shares = {
        "scale": max(1.2 * vote, 0.25),
        "magnitude": vote,
        "centre": 0.25,
        "length": vote,
        "scores": 1.0,
        "moment": 0.9,
        "evidence": 0.45,
    }
    skipped = set()
    if not intercept:
        skipped |= {"centre", "magnitude"}
    elif loss != "squared":
        skipped.add("magnitude")
    if not covariance or n_features < _LEAST_FEATURES or matrix_edge > _VISIBLE_EDGE:
        skipped.add("moment")
    ratio = 10.0 if quiet else 2.0 if loud else 4.0
    return Plan(
        shares=tuple((name, share) for name, share in shares.items() if name not in skipped),
        n_scores=12 if loud else 20,
        clip=0.6 if quiet else 0.4,
        power=2.0 if quiet else 1.0,
        slope=ratio / n_features,
    )


def evidence_radius(vector_noise: float) -> float:
    """Return the radius of an evidence message, in nats, for the noise ν₁ = 2/(μ m) of its round.

    The message's direction matters more than its length while noise is loud; as it vanishes the
    radius grows until no task is cut short, and the sum is the evidence itself.
    """
    return float(np.clip(0.5 / max(vector_noise, 1e-9), 2.0, 40.0))


def grid(mean: Array, n_features: int, loss: str, shapes: tuple[Array | None, ...]) -> Candidates:
    """Return the candidate priors around a released mean.

    Slopes' strengths are spaced by the signal-to-noise ratio they stand for, τ_w·d: a row in the
    frame's coordinates has squared length about d.
    """
    levels = _LEVELS[loss] if mean.size > n_features else np.zeros(1)
    return Candidates(mean[None], _SLOPES[loss] / n_features, levels, shapes)


def alone(start: Array, n_features: int, loss: str) -> Candidates:
    """Return the priors of a task that takes nothing from others but where it starts."""
    levels = np.full(1, FREE_LEVEL if loss == "squared" else _LEVELS[loss][-1])
    if start.size == n_features:
        levels = np.zeros(1)
    return Candidates(start[None], _SLOPES[loss] / n_features, levels)
