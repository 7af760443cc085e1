"""How the hierarchical prior is learned: which rounds, with which shares and sizes.

Everything here follows from public quantities before any row is seen: the numbers of tasks,
features and outputs, the loss, and how loud the noise would be if one round had the whole budget
(`Loudness`).

The constants were settled mostly on generated tasks (a common model, low rank, sparse, badly
scaled features, one to five rows, unequal sizes, logistic, unrelated tasks); splits of School,
chem97, landmine and Stack Exchange with seeds from 900 on stood beside them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from tacit._types import Array
from tacit.numerics.hierarchical import Candidates
from tacit.protocols._hierarchical_evidence import Comparisons, WholeGrid, asked

__all__ = [
    "BINS",
    "FREE_LEVEL",
    "MOST_OF_SEVERAL",
    "PATTERNS",
    "SPREAD_WEIGHT",
    "Loudness",
    "Plan",
    "alone",
    "compared",
    "grid",
    "plan",
]

BINS = 33  # of a vote
SPREAD_WEIGHT = 0.7  # length of the spreads beside the unit votes in one message
# Shapes of the slopes' covariance to look for: none (the mean is all that is shared), low rank and
# sparse, one of them; "related" looks for any, and for each task's place among the others.
PATTERNS = ("mean", "any", "low-rank", "group-sparse", "related")
_MOMENT = {"any": 0.8, "low-rank": 1.2, "group-sparse": 1.5, "related": 0.8}  # share of the moment
# Share of the mean. Without an intercept data were centred by whoever made them, and there is less
# of a mean to find, and more of a moment.
_MEAN, _MEAN_OF_CENTRED, _MOMENT_OF_CENTRED = 1.2, 0.7, 1.1

_QUIET, _LOUD = 0.05, 0.2  # of ν
# Noise whose edge, at half of the budget, passes a quarter of the trace hides all but one or two
# directions; the budget is better spent on the mean.
_VISIBLE_EDGE = 0.125
_VISIBLE_ENTRY = 1.0  # noise on a feature's part of the trace, in units of the mean part
_LEAST_FEATURES = 4  # below it a covariance's shape has too little to say for its cost
# A vote of m tasks peaks at about 0.6·m·μ deviations: this share puts it at six.
_VOTE = 6.5
_LEAST_VOTE, _MOST_VOTE = 0.15, 0.45
# A vote with spreads beside it is so much longer; lengths are usual ones, and need less of a vote.
_WIDE_VOTE, _LENGTH = 1.2, 0.7
_VISIBLE_SPREADS = 0.3  # squared length of relative spreads about their mean
_EVIDENCE = 0.45
# An origin that is told to half of a feature's deviation takes this share for each unit of noise on
# a vector of features. One that would cost more than the most is better left at zero; labels, whose
# level nobody votes on, take the least that may tell one.
_CENTRE, _LEAST_CENTRE, _MOST_CENTRE = 5.0, 0.2, 0.5
# A centre of length 1 lies two deviations off, and further where noise then tells it to a hundredth
# of a deviation: rows may lie far from zero, and an origin that is cut short ties slopes to levels.
_NEAR, _FAR, _TOLD = 2.0, 64.0, 0.01
# Noise on one number beyond which nothing is asked: votes stand out by no more than five deviations
# there, and a level read under such noise does tasks of a few rows harm. The parts of a pure budget
# add up linearly, so that each is about three times smaller.
_LOUDEST, _LOUDEST_PURE = 0.06, 0.02
# Numbers pull the mean back much alike. Labels do by how many there are of the rarer kind.
_PULL = 0.3
_PURE_SCORES = 4  # pure ε adds up linearly: many rounds do not average their noise down
# How labels' log-odds usually differ among tasks, and what that takes from them.
_DIFFER, _PROBIT = 2.0, (16 * math.sqrt(3) / (15 * math.pi)) ** 2
# Classes are told by comparing models that share by odds of their own: under noise each with as
# much of its own fit as of the others' ranks them better than any of the two, whatever the evidence
# says, where there are enough labels for a fit. These are the log-odds.
MOST_OF_SEVERAL = 0.0
# A level's strength at which the prior has no say; labels that are rare never tell theirs, and who
# learns alone must not seem to know less of it than others do.
FREE_LEVEL = {"squared": 1e3, "logistic": 1.0}
# Under which levels are scored. The level of labels that suits a wide prior is that of no task if
# they differ little: its mean share of rare labels is far above the median's.
_SCORED_LEVEL = {"squared": 10.0, "logistic": 1.0}
_SLOPES = {
    "squared": 10.0 ** np.arange(-2.5, 2.6, 0.5),
    "logistic": 10.0 ** np.arange(-2, 1.6, 0.5),
}
_LEVELS = {
    "squared": 10.0 ** np.array([-3.0, -2.0, -1.0, 0.0, 1.0, 3.0]),
    "logistic": 10.0 ** np.array([-2.0, -1.0, 0.0, 1.0]),
}


@dataclass(frozen=True)
class Loudness:
    """How loud the noise on a mean of messages of norm ≤ 1 is, for a round with all the budget.

    Attributes
    ----------
    unit : float
        2/(μ m) for Gaussian noise of a budget μ, 2/(ε m) for pure ε, and 0 without noise.
    pure : bool
        Whether noise is the gamma-vector's (and two-sided Wishart's), and budgets add up linearly.
    """

    unit: float = 0.0
    pure: bool = False

    def deviation(self, size: int) -> float:
        """Return the standard deviation of one number of ``size``."""
        return self.unit * (math.sqrt(size + 1) if self.pure else 1.0)

    def norm(self, size: int) -> float:
        """Return √E‖noise‖² of ``size`` numbers."""
        return self.deviation(size) * math.sqrt(size)

    def edge(self, d: int) -> float:
        """Return the noise's largest eigenvalue on a mean of d × d outer products of unit vectors.

        Gaussian √2·√(2d)/(μ m); Wishart √((11 + 5√5)/2)·d/(ε m).
        """
        if self.pure:
            return self.unit / 2 * d * math.sqrt((11 + 5 * math.sqrt(5)) / 2)
        return self.unit * math.sqrt(d)

    def parts(self, shares: dict[str, float]) -> dict[str, float]:
        """Return each round's part of the budget (of μ or ε); the score rounds count as one."""
        total = sum(shares.values()) if self.pure else math.hypot(*shares.values())
        return {name: share / total for name, share in shares.items()}

    def turn_share(self, share: float, turns: int) -> float:
        """Return the share of one of ``turns`` rounds that have ``share`` together."""
        return share / (turns if self.pure else math.sqrt(turns))


@dataclass(frozen=True)
class Plan:
    """The conversation: its rounds in order with their relative budgets, and public constants.

    Attributes
    ----------
    shares : tuple of (name, share)
        Rounds; the n_scores score rounds divide the share of "scores" among them. Empty where
        nothing could be told from noise: nobody shares then, and nothing is spent.
    n_scores : int
        Score rounds.
    clip : float
        Radius of a score message, as a part of the typical length.
    power : float
        Score round t counts (t + 1)^power in the average.
    slope, level : float
        Strengths τ_w and τ_b of the prior under which scores are taken.
    step : float
        Score rounds point that many mean scores away from where they were asked.
    pull : float or None
        Part of an error in the mean that scores take back, None to be read off the scores.
    shorten : float
        The mean that scores settle on, times this, is what tasks are drawn to.
    centre : float
        Deviations that a centre of length 1 lies off.
    spreads : bool
        Whether features' relative spreads stand beside the votes on their scale.
    """

    shares: tuple[tuple[str, float], ...]
    n_scores: int
    clip: float
    power: float
    slope: float
    level: float = 10.0
    step: float = 1.6
    pull: float | None = None
    shorten: float = 1.0
    centre: float = _NEAR
    spreads: bool = True

    @property
    def moment(self) -> bool:
        """Whether the shape of the slopes' covariance is learned too."""
        return any(name == "moment" for name, _ in self.shares)


def plan(
    loudness: Loudness,
    *,
    n_features: int,
    loss: str,
    intercept: bool,
    n_outputs: int = 1,
    n_tasks: int = 1,
    pattern: str = "any",
) -> Plan:
    """Return the plan for this noise.

    Parameters
    ----------
    pattern : one of PATTERNS
        Which shapes of the covariance to look for, where noise lets them be seen.

    Louder noise asks for fewer, shorter steps from a narrower prior (each task's score is then
    less its own noise and more the common direction), quieter noise for faster forgetting.
    """
    vector_noise = loudness.norm(n_outputs * (n_features + intercept))
    quiet, loud = vector_noise < _QUIET, vector_noise >= _LOUD
    skipped = set()
    if not intercept:
        skipped |= {"centre", "magnitude", "level"}
    elif loss != "squared":
        skipped |= {"magnitude", "level"}
    if n_features < _LEAST_FEATURES or not _visible(pattern, loudness, n_features, n_tasks):
        skipped.add("moment")
    if pattern != "related" or not _models_visible(loudness, n_tasks, n_outputs * n_features):
        skipped.add("own models")
    vote = float(np.clip(_VOTE * loudness.deviation(BINS), _LEAST_VOTE, _MOST_VOTE))
    centre = _LEAST_CENTRE
    if loss == "squared":
        centre = max(_CENTRE * loudness.norm(n_features), _LEAST_CENTRE)
    if centre > _MOST_CENTRE:
        skipped.add("centre")
    if "moment" not in skipped:
        # What the moment takes beyond the usual must not drown the votes.
        vote *= max(1.0, math.hypot(1.2, _MOMENT[pattern]) / 1.5)
    moment = max(_MOMENT.get(pattern, 0.0), 0.0 if intercept else _MOMENT_OF_CENTRED)
    scale = max(_WIDE_VOTE * vote, 0.25)
    spreads = _spreads_visible(loudness, n_features, scale)
    shares = {
        "scale": scale if spreads else vote,
        "centre": centre,
        "magnitude": vote,
        "level": vote,
        "length": _LENGTH * vote,
        "scores": _MEAN if intercept else _MEAN_OF_CENTRED,
        "moment": moment,
        "evidence": _EVIDENCE,
        "own models": 1.0,
    }
    kept = {name: share for name, share in shares.items() if name not in skipped}
    too_loud = loudness.deviation(BINS) > (_LOUDEST_PURE if loudness.pure else _LOUDEST)
    ratio = 10.0 if quiet else 2.0 if loud else 4.0
    told = loudness.norm(n_features) / loudness.parts(kept).get("centre", 1.0)
    return Plan(
        shares=() if too_loud else tuple(kept.items()),
        n_scores=_PURE_SCORES if loudness.pure else 12 if loud else 20,
        clip=0.6 if quiet else 0.4,
        power=2.0 if quiet else 1.0,
        slope=ratio / n_features,
        level=_SCORED_LEVEL[loss],
        spreads=spreads,
        centre=float(np.clip(_TOLD / max(told, 1e-9), _NEAR, _FAR)),
        pull=_PULL if loss == "squared" else None,
        shorten=1.0 if loss == "squared" else _shorten(ratio),
    )


def _shorten(ratio: float) -> float:
    """Return how much too long labels' mean is where tasks may differ by this ratio.

    ``ratio`` is the variance of a row's log-odds under the prior around the mean. Labels are told
    by log-odds averaged over that prior, which are shorter by √(1 + ratio·(16√3/(15π))²) (MacKay
    1992): a prior that is wider than tasks differ makes the mean longer by as much.
    """
    return min(1.0, math.sqrt((1 + _PROBIT * _DIFFER) / (1 + _PROBIT * ratio)))


def _visible(pattern: str, loudness: Loudness, d: int, n_tasks: int) -> bool:
    """Return whether so many tasks show a shape, and the noise of half the budget leaves any of it.

    Fewer deviations than features are of low rank whatever they are, and every task finds its own
    among the directions: in generated tasks that had nothing in common this cost up to half.
    """
    if pattern == "mean":
        return False
    if pattern == "group-sparse":
        return loudness.deviation(d) <= _VISIBLE_ENTRY / d
    return n_tasks >= d and loudness.edge(d) <= _VISIBLE_EDGE


def _spreads_visible(loudness: Loudness, d: int, share: float) -> bool:
    """Return whether relative spreads could stand out of their noise, about two thirds of them."""
    noise = 1.5 / share * loudness.deviation(BINS + d) * math.hypot(1 / SPREAD_WEIGHT, 1.0)
    return float(chdtri(max(d - 1, 1), 0.05)) * noise**2 / 2 <= _VISIBLE_SPREADS


def _models_visible(loudness: Loudness, n_tasks: int, size: int) -> bool:
    """Return whether one direction that all tasks share could stand out of their own noises.

    Their m unit vectors, noised one by one with a third of the budget's square, have a singular
    value of at most √m; that of the noise is its deviation × (√m + √size).
    """
    deviation = math.sqrt(3) * n_tasks * loudness.deviation(size)
    return deviation * (1 + math.sqrt(size / n_tasks)) < 1


def compared(
    plan: Plan, loudness: Loudness, *, n_tasks: int, loss: str, intercept: bool, pattern: str
) -> Comparisons | WholeGrid:
    """Return what the evidence round asks for."""
    shapes = 1
    if plan.moment:
        shapes = {"low-rank": 4, "group-sparse": 3}.get(pattern, 6) if loss == "squared" else 2
    slopes, levels = _SLOPES[loss].size, _LEVELS[loss].size if intercept else 1
    part = loudness.parts(dict(plan.shares)).get("evidence", 1.0)
    noise = loudness.deviation(slopes + levels + shapes - 2) / part
    return asked(slopes, levels, shapes, noise=noise, n_tasks=n_tasks, loss=loss)


def grid(
    means: Array,
    n_features: int,
    loss: str,
    shapes: tuple[Array | None, ...],
    apart: Array | None = None,
) -> Candidates:
    """Return the candidate priors around the released means (s, p), one for each shape.

    Slopes' strengths are spaced by the signal-to-noise ratio they stand for, τ_w·d: a row in the
    frame's coordinates has squared length about d. Tasks' own means lie ``apart`` (m, s, p).
    """
    levels = _LEVELS[loss] if means.shape[1] > n_features else np.zeros(1)
    return Candidates(means, _SLOPES[loss] / n_features, levels, shapes, apart)


def alone(start: Array, n_features: int, loss: str) -> Candidates:
    """Return the priors of a task that takes nothing from others but where it starts."""
    levels = np.full(1, FREE_LEVEL[loss] if start.size > n_features else 0.0)
    return Candidates(start[None], _SLOPES[loss] / n_features, levels)
