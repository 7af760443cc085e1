"""The strongest attack on whole fits: worst neighbours, and the direction they differ in known.

Whoever chooses the data knows what reaches the noise: a fit with next to no noise shows where every
release would be under either neighbour. So nothing is spent on learning: of many candidate pairs
the one with the largest expected separation is taken, every release is projected on its own known
shift, and the projections of all rounds are added up, weighted as the likelihood ratio of Gaussian
noise weights them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.audit.attack import Claim, Contest, attack
from tacit.audit.canary import CanaryPair, canary_pairs
from tacit.audit.distinguishers import LikelihoodRatio
from tacit.audit.estimator import _all_gaussian, fit_on
from tacit.audit.result import AuditResult
from tacit.errors import InvalidInput
from tacit.privacy.unit import Unit
from tacit.tasks import TaskSet

__all__ = ["audit_at_worst"]

_HARDLY_ANY_NOISE = 500.0  # an ε that accountants which exponentiate it still bear
_PILOT = 12


def _releases(estimator: Any, tasks: TaskSet, seed: int) -> list[Array]:
    board = fit_on(estimator, tasks, seed).billboard_
    return [np.asarray(posting.value, dtype=float) for posting in board]


@dataclass(frozen=True)
class _Shift:
    """Where every release of two neighbours is without noise, and how wide the noise is."""

    pair: CanaryPair
    first: list[Array]
    second: list[Array]
    spread: Array

    @property
    def steps(self) -> list[Array]:
        return [b - a for a, b in zip(self.first, self.second, strict=True)]

    @property
    def separation(self) -> float:
        sizes = np.array([np.linalg.norm(step) for step in self.steps])
        return float(np.sqrt(np.sum((sizes / self.spread) ** 2)))

    def features(self, releases: Sequence[Array], *, gaussian: bool) -> Array:
        """Return, for one fit, where the weighted projections fall, then each release's own.

        Cut halfway between the two neighbours' centres and at these, where the best event is for
        Gaussian and for Laplace noise; a free threshold would be chosen by luck.
        """
        sizes = np.array([np.linalg.norm(step) for step in self.steps])
        weights = sizes / self.spread**2
        along = np.array(
            [
                np.vdot(value - 0.5 * (a + b), b - a) / (np.linalg.norm(b - a) or 1.0)
                for value, a, b in zip(releases, self.first, self.second, strict=True)
            ]
        )
        centre = 0.5 * float(weights @ sizes)
        cuts = [0.0] if gaussian else [-centre, 0.0, centre]
        return np.array([np.digitize(weights @ along, cuts), *along])


def _shift(estimator: Any, pair: CanaryPair) -> _Shift:
    from sklearn.base import clone

    clear = clone(estimator).set_params(epsilon=_HARDLY_ANY_NOISE)
    first, second = (_releases(clear, side, 0) for side in (pair.first, pair.second))
    steps = [b - a for a, b in zip(first, second, strict=True)]
    pilot = [_releases(estimator, pair.first, seed) for seed in range(_PILOT)]
    spread = []
    for number, step in enumerate(steps):
        size = float(np.linalg.norm(step))
        unit = step / size if size else np.full(step.shape, step.size**-0.5)
        spread.append(float(np.std([np.vdot(run[number], unit) for run in pilot])) or 1.0)
    return _Shift(pair, first, second, np.array(spread))


def _total(features: Array) -> Array:
    return features[:, 0]


def audit_at_worst(
    estimator: Any,
    candidates: Sequence[TaskSet],
    *,
    task: int = 0,
    n_trials: int = 1000,
    confidence: float = 0.999,
    random_state: int = 0,
) -> AuditResult:
    """Bound from below the ε an estimator spends, by the strongest of many candidate pairs.

    Parameters
    ----------
    candidates
        Task sets around the canary, task number ``task``; the attacker may choose any.
    n_trials
        Fits of each neighbour that bound ε; a dozen for every candidate are made besides.

    Guarantee: `AuditResult`'s; the pair is chosen on fits that are not counted.
    """
    probe = fit_on(estimator, candidates[0], random_state)
    statement = probe.privacy_
    if not np.isfinite(statement.epsilon) or not statement.n_releases:
        raise InvalidInput(f"estimator={estimator!r}: releases nothing private; nothing to audit")
    claim = Claim(
        type(estimator).__name__, statement.epsilon, statement.delta, _all_gaussian(probe)
    )
    unit = Unit(statement.unit)
    pairs = [pair for one in candidates for pair in canary_pairs(one, task=task, unit=unit)]
    best = max((_shift(estimator, pair) for pair in pairs), key=lambda shift: shift.separation)
    seeds = iter(np.random.default_rng(random_state).permutation(10 * n_trials))

    def draw(which: int, n: int) -> Array:
        data = best.pair.second if which else best.pair.first
        fits = (_releases(estimator, data, int(next(seeds))) for _ in range(n))
        return np.stack([best.features(one, gaussian=claim.gaussian) for one in fits])

    rivals = (LikelihoodRatio(_total),)
    contest = Contest(best.pair.description, draw, rivals)
    return attack([contest], claim, n_trials=n_trials, confidence=confidence)
