"""How many rounds, and how strong a pull, by the paper's Theorems 3 and 5, from public numbers.

Theorem 3 with the noise of Theorem 2 bounds the mean squared gradient of T rounds by a / T + b T,
where b / a is d log(1/δ) / (m ε)² up to the ratio of γ² to the first losses' B (L + λ): the first
term is descent, the second noise, which grows with the rounds that share the budget. It is least at
T = m ε / √(d log(1/δ)), where both are a / T.

Theorem 5 contracts the distance to the optimum by (1 − (μ + λ) / (L + λ)) a round (step 1/(L + λ),
everybody present) down to a floor of noise, which T rounds of that many lower by T²: a pull with
(1 − λ / (L + λ))^T = 1 / T² reaches it just in time (μ = 0), a stronger one only adds bias. That
is λ / L = T^(2/T) − 1.

Constants that the theorems leave open are taken to be 1: a place to begin, not an optimum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit import _check

__all__ = ["Suggestion", "suggested"]

_MOST = 10_000


@dataclass(frozen=True)
class Suggestion:
    """Rounds, and λ as a multiple of the smoothness L of a task's own loss."""

    n_rounds: int
    pull: float


def suggested(n_tasks: int, n_parameters: int, *, epsilon: float, delta: float) -> Suggestion:
    """Return what Theorems 3 and 5 suggest for a budget; a function of public numbers.

    Without noise (ε = ∞) the more rounds the better; 10 000 stand for that.
    """
    _check.positive("epsilon", epsilon, allow_inf=True, remedy="it is the budget of all rounds")
    _check.fraction("delta", delta, remedy="1e-5 is usual")
    noise = math.sqrt(n_parameters * math.log(1 / delta))
    rounds = max(1, round(min(n_tasks * epsilon / noise, _MOST)))
    counted = max(rounds, 2)
    return Suggestion(rounds, counted ** (2 / counted) - 1)
