"""The attack itself: learn, choose an event, bound it on fresh draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.audit.bounds import delta_bound, epsilon_bound, mu_bound
from tacit.audit.distinguishers import Distinguisher, Score
from tacit.audit.result import AuditResult
from tacit.audit.selection import Event, Goal, best_event, count

__all__ = ["Claim", "Contest", "attack"]

_CLEARLY_MORE = 1.03
# With few draws to choose from, no event passes the confidence of the final test; a looser one
# still ranks them. It affects the choice only.
_FEW, _LOOSE = 1000, 0.1


@dataclass(frozen=True)
class Claim:
    """What is said about the target.

    ``gaussian`` says that the claim is a whole Gaussian trade-off curve (μ-GDP), of which
    (epsilon, delta) is one point: that is how Gaussian releases are accounted for.
    """

    target: str
    epsilon: float
    delta: float
    gaussian: bool = False


@dataclass(frozen=True)
class Contest:
    """Two neighbours to tell apart.

    Attributes
    ----------
    pair
        Description of the two neighbours.
    draw
        ``draw(which, n)`` returns ``n`` fresh releases of data set 0 or 1, draw on axis 0.
    distinguishers
        What the adversary may try.
    chunk
        Most releases to hold in memory at once.
    """

    pair: str
    draw: Callable[[int, int], Array]
    distinguishers: tuple[Distinguisher, ...]
    chunk: int = 50_000

    def scores(self, functions: Sequence[Score], n: int) -> list[tuple[Array, Array]]:
        """Draw ``n`` releases a side and return every function's scores of both sides."""
        sides = []
        for which in (0, 1):
            parts = []
            for start in range(0, n, self.chunk):
                releases = self.draw(which, min(self.chunk, n - start))
                parts.append([function(releases) for function in functions])
            sides.append([np.concatenate(column) for column in zip(*parts, strict=True)])
        return list(zip(*sides, strict=True))


@dataclass(frozen=True)
class _Bet:
    """A chosen event, the score it cuts, and the promise it was chosen for."""

    promise: float
    event: Event
    score: Score


def _goals(claim: Claim) -> dict[str, Goal]:
    goals: dict[str, Goal] = {
        "epsilon": lambda p, q: epsilon_bound(p, q, claim.delta),
        "delta": lambda p, q: delta_bound(p, q, claim.epsilon),
    }
    if claim.gaussian:
        goals["mu"] = mu_bound
    return goals


def _explore(
    contest: Contest, goals: dict[str, Goal], n_explore: int, failure: float
) -> dict[str, _Bet]:
    """Fit every distinguisher on one half of the draws, choose each goal's event on the other.

    Distinguishers are listed with the ones that explain most first; a later one has to promise
    clearly more to be preferred.
    """
    n_fit = n_explore // 2
    first, second = contest.draw(0, n_fit), contest.draw(1, n_fit)
    functions = [distinguisher.fit(first, second) for distinguisher in contest.distinguishers]
    n_choose = n_explore - n_fit
    scores = contest.scores(functions, n_choose)
    failure = failure if n_choose >= _FEW else max(failure, _LOOSE)
    bets: dict[str, _Bet] = {}
    for name, goal in goals.items():
        offers = [
            _Bet(*best_event(rival.name, *pair, goal, failure=failure), function)
            for rival, pair, function in zip(contest.distinguishers, scores, functions, strict=True)
        ]
        bets[name] = offers[0]
        for offer in offers[1:]:
            if offer.promise > _CLEARLY_MORE * bets[name].promise:
                bets[name] = offer
    return bets


def attack(
    contests: Sequence[Contest], claim: Claim, *, n_trials: int, confidence: float
) -> AuditResult:
    """Attack ``claim`` with ``n_trials`` releases of each neighbour.

    Half of the releases are shared among the contests to fit distinguishers and to choose one
    event for each bound; the other half, drawn afterwards for the most promising pair, bounds them.

    Guarantee: every bound of the result holds with probability at least ``confidence``, all of
    them together: each of the (at most three) events gets an equal share of 1 − ``confidence``,
    halved again between its two probabilities. Nothing that was chosen is tested on the draws it
    was chosen from.
    """
    goals = _goals(claim)
    failure = (1.0 - confidence) / (2 * len(goals))
    n_test = n_trials - n_trials // 2
    n_explore = max(n_trials // 2 // len(contests), 4)
    explored = [_explore(contest, goals, n_explore, failure) for contest in contests]
    leading = "mu" if claim.gaussian else "epsilon"
    at = max(range(len(contests)), key=lambda index: explored[index][leading].promise)
    bets, contest = explored[at], contests[at]
    scores = contest.scores([bet.score for bet in bets.values()], n_test)
    limits = {
        name: count(bet.event, *pair, failure)
        for (name, bet), pair in zip(bets.items(), scores, strict=True)
    }
    return _verdict(claim, contest, goals, bets, limits, n_trials=n_trials, confidence=confidence)


def _verdict(
    claim: Claim,
    contest: Contest,
    goals: dict[str, Goal],
    bets: dict[str, _Bet],
    limits: dict[str, tuple[float, float]],
    *,
    n_trials: int,
    confidence: float,
) -> AuditResult:
    found = {
        name: float(goal(np.asarray(limits[name][0]), np.asarray(limits[name][1])))
        for name, goal in goals.items()
    }
    epsilon, event, mu = found["epsilon"], bets["epsilon"].event, found.get("mu")
    if mu is not None and mu > 0 and claim.delta > 0:
        from tacit.privacy.accounting import gaussian_epsilon

        on_curve = gaussian_epsilon(mu, claim.delta)
        if on_curve > epsilon:
            epsilon, event = on_curve, bets["mu"].event
    return AuditResult(
        target=claim.target,
        epsilon_lower=epsilon,
        claimed_epsilon=claim.epsilon,
        delta=claim.delta,
        delta_lower=found["delta"],
        confidence=confidence,
        n_trials=n_trials,
        violated=epsilon > claim.epsilon or found["delta"] > claim.delta,
        event=str(event),
        pair=contest.pair,
        epsilon_direct=found["epsilon"],
        mu_lower=mu,
    )
