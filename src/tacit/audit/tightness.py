"""The strongest attack on a whole conversation: worst neighbours, and every density known.

Whoever chooses the data knows all that reaches the noise. Given what was released so far, both
neighbours' next messages follow without any randomness (`tacit.audit.replay`), so of every release
the density is known under either of them, and the sum of the logarithms of their ratios over all
rounds is, by the Neyman–Pearson lemma, the best statistic there is. Where a density has no closed
form, the release is projected on the known shift.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.audit.attack import Claim, Contest, attack
from tacit.audit.canary import CanaryPair, canary_pairs
from tacit.audit.densities import log_ratio
from tacit.audit.distinguishers import LikelihoodRatio
from tacit.audit.estimator import _all_gaussian, fit_on
from tacit.audit.replay import Replayed, Staged, staged_by
from tacit.audit.result import AuditResult
from tacit.errors import InvalidInput
from tacit.privacy.noise.entropy import Entropy, SeededEntropy
from tacit.privacy.schedule import Everyone, in_turn
from tacit.privacy.unit import Adjacency, Unit
from tacit.tasks import TaskSet

__all__ = ["audit_at_worst"]

_PILOT = 15


class _Duel:
    """One conversation after another, each on one of two neighbours, overheard by the attacker.

    Given the releases, all tasks but the canary say the same on either side, to the bit (the bit
    attack sees to it), so that the second side is the canary alone.
    """

    def __init__(self, staged: tuple[Staged, Staged], pair: CanaryPair, source: Entropy) -> None:
        self.pair = pair
        self._schedule = staged[0].schedule
        self._all = Replayed(staged[0], pair.first)
        self._other = Replayed(staged[1], pair.second, only=pair.task)
        self._source = source
        self._held = 0

    def draw(self, which: int, n: int) -> Array:
        """Hold ``n`` conversations on neighbour ``which``; return their log ratios (n, 1)."""
        found = np.empty((n, 1))
        for number in range(n):
            self._held += 1
            found[number] = self._conversation(which, self._source.child("run", self._held))
        return found

    def separation(self) -> float:
        """Return how far apart a few conversations' log ratios are, in units of their spread."""
        first, second = self.draw(0, _PILOT), self.draw(1, _PILOT)
        spread = float(np.sqrt(0.5 * (first.var() + second.var())))
        return float(second.mean() - first.mean()) / (spread or 1.0)

    def _conversation(self, which: int, entropy: Entropy) -> float:
        schedule, at, total = self._schedule, self.pair.task, 0.0
        self._all.restart()
        self._other.restart()
        for call in in_turn(schedule.rounds):
            first = self._all.said(call)
            second = first.copy()
            second[at] = self._other.said(call)[0]
            if schedule.adjacency is not Adjacency.REPLACE_ONE:
                second[at] = 0.0
            # Each with its own schedule: one that was made from the data would show.
            sums = [self._all.aggregate(first, call), self._other.aggregate(second, call)]
            own_noise = (self._all, self._other)[which].released
            release = own_noise(sums[which], call, entropy.child("call", call.number))
            self._all.hear(release, call)
            self._other.hear(release, call)
            round, mechanism = schedule.rounds[call.round], schedule.mechanisms[call.round]
            if not round.posted:
                continue
            # Only the canary's own entry of what every task noises itself can tell.
            own = at if round.at_task else ...
            total += log_ratio(mechanism, sums[0][own], sums[1][own], release[own])
        return total


def _itself(ratios: Array) -> Array:
    return ratios[:, 0]


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
        Conversations on each neighbour, half of which cut the log ratio and half of which bound
        ε; a few more for every candidate choose the pair.

    The protocol, schedule and mechanisms are those that a fit on each neighbour stages; what homes
    do with the releases afterwards costs nothing and is left out. Of the second neighbour the
    canary alone is run: a leak by way of what others say is for the bit attack and `replay`.

    Guarantee: `AuditResult`'s; what is chosen is chosen on conversations that are not counted.
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
    duels = [_duel(estimator, pair, random_state) for pair in pairs]
    best = max(duels, key=lambda duel: duel.separation())
    contest = Contest(best.pair.description, best.draw, (LikelihoodRatio(_itself),))
    return attack([contest], claim, n_trials=n_trials, confidence=confidence)


def _duel(estimator: Any, pair: CanaryPair, seed: int) -> _Duel:
    staged = [staged_by(estimator, data, seed) for data in (pair.first, pair.second)]
    if any(len(one) != 1 for one in staged):
        raise InvalidInput(
            f"estimator={estimator!r}: runs {len(staged[0])} and {len(staged[1])} protocols; "
            "this attack is for estimators that run one"
        )
    if not all(isinstance(round.cohort, Everyone) for round in staged[0][0].schedule.rounds):
        raise InvalidInput(
            f"estimator={estimator!r}: asks cohorts, whose members the attacker does not know; "
            "attack it with audit_estimator"
        )
    return _Duel((staged[0][0], staged[1][0]), pair, SeededEntropy(seed))
