"""Choosing the event to bet on, with draws that are never used to bound it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tacit._types import AnyArray, Array
from tacit.audit.bounds import rate_lower, rate_upper

__all__ = ["Event", "Goal", "best_event", "count", "thresholds"]

Goal = Callable[[Array, Array], Array]
"""What an event is wanted for: bounds of (likely, unlikely) probability to a number to maximise."""

_N_THRESHOLDS = 400


@dataclass(frozen=True)
class Event:
    """A set of releases: those whose statistic lies on one side of a threshold.

    Attributes
    ----------
    statistic
        Name of the distinguisher whose score is compared.
    threshold, above
        The event is ``score ≥ threshold`` if ``above``, else ``score < threshold``.
    likely
        Under which of the two data sets (0 or 1) the event is the likelier one.
    """

    statistic: str
    threshold: float
    above: bool
    likely: int

    def holds(self, scores: Array) -> AnyArray:
        """Return for each score whether the event happened."""
        return scores >= self.threshold if self.above else scores < self.threshold

    def __str__(self) -> str:
        side = "at least" if self.above else "below"
        which = "second" if self.likely else "first"
        return f"{self.statistic} {side} {self.threshold:.6g} (likelier under the {which} data set)"


def thresholds(first: Array, second: Array) -> Array:
    """Return candidate thresholds: evenly spaced ranks of the pooled scores, tails refined."""
    pooled = np.sort(np.concatenate([first, second]))
    even = np.linspace(0.0, 1.0, _N_THRESHOLDS // 2)
    tail = np.geomspace(1.0 / len(pooled), 0.05, _N_THRESHOLDS // 4)
    ranks = np.concatenate([even, tail, 1.0 - tail]) * (len(pooled) - 1)
    chosen = pooled[np.unique(np.rint(ranks).astype(int))]
    finite = chosen[np.isfinite(chosen)]
    # A statistic with atoms (Laplace's likelihood ratio) computes them with rounding: a threshold
    # a hair below the atom keeps all of it on one side.
    slack = 1e-9 * (np.ptp(finite) if len(finite) else 1.0)
    # Zero is where a log ratio changes sign and where a support ends.
    return np.unique(np.append(np.where(np.isfinite(chosen), chosen - slack, chosen), 0.0))


def best_event(
    statistic: str, first: Array, second: Array, goal: Goal, *, failure: float
) -> tuple[float, Event]:
    """Return the event that promises the highest goal, and that promise.

    The promise is the Clopper–Pearson bound of the frequencies seen here: rare events, which luck
    makes look telling, are discounted as they should be. It is used for choosing only.
    """
    cuts = thresholds(first, second)
    best, chosen = -np.inf, Event(statistic, float(cuts[0]), True, 1)
    below = [np.searchsorted(np.sort(scores), cuts, side="left") for scores in (first, second)]
    sizes = (len(first), len(second))
    for above in (True, False):
        hits = [size - low if above else low for size, low in zip(sizes, below, strict=True)]
        for likely in (0, 1):
            p = rate_lower(hits[likely], sizes[likely], failure)
            q = rate_upper(hits[1 - likely], sizes[1 - likely], failure)
            promise = goal(p, q)
            at = int(np.argmax(promise))
            if promise[at] > best:
                best = float(promise[at])
                chosen = Event(statistic, float(cuts[at]), above, likely)
    return best, chosen


def count(event: Event, first: Array, second: Array, failure: float) -> tuple[float, float]:
    """Bound the event's probability under the data set it favours (below) and the other (above).

    Guarantee: if ``first`` and ``second`` were not used to choose ``event``, both limits hold
    together with probability at least 1 − 2·``failure``.
    """
    sides = (first, second)
    likely, other = sides[event.likely], sides[1 - event.likely]
    p = rate_lower(np.sum(event.holds(likely)), len(likely), failure)
    q = rate_upper(np.sum(event.holds(other)), len(other), failure)
    return float(p), float(q)
