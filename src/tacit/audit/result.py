"""What an audit found."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import Any

__all__ = ["AuditResult"]


@dataclass(frozen=True)
class AuditResult:
    """Lower bounds on what a mechanism or an estimator gives away, next to its claim.

    Attributes
    ----------
    target
        What was attacked.
    epsilon_lower
        No claim below this ε (at ``delta``) can be true, with probability ``confidence``.
    claimed_epsilon, delta
        The claim under attack.
    delta_lower
        No claim below this δ can be true at ``claimed_epsilon``.
    confidence
        Probability that *all* bounds reported here hold; ``1 − confidence`` is the false-alarm
        rate of ``violated`` for a mechanism whose claim is true.
    n_trials
        Releases drawn from each of the two neighbours (fits of the estimator; canaries for a
        one-run audit).
    violated
        Whether a bound exceeds the claim.
    event
        The event that gave ``epsilon_lower``, in words.
    pair
        Which two neighbours were told apart.
    epsilon_direct
        The bound on ε that assumes nothing about the mechanism's privacy curve.
    mu_lower
        Lower bound on the μ of Gaussian differential privacy, where that is the claim; then
        ``epsilon_lower`` is the ε of this μ at ``delta`` if that is larger than
        ``epsilon_direct``. None elsewhere.
    method
        ``"two-sample"`` or ``"one-run"``.

    Guarantee: bounds are one-sided and exact (Clopper–Pearson), and the event was chosen on draws
    that were not used to bound it. A result without violation proves nothing; look at
    ``tightness`` to see how hard the attack bit.
    """

    target: str
    epsilon_lower: float
    claimed_epsilon: float
    delta: float
    delta_lower: float
    confidence: float
    n_trials: int
    violated: bool
    event: str
    pair: str
    epsilon_direct: float
    mu_lower: float | None = None
    method: str = "two-sample"

    @property
    def tightness(self) -> float:
        """``epsilon_lower / claimed_epsilon``: 1 is an attack as strong as the claim allows."""
        if self.claimed_epsilon == 0:
            return math.inf if self.epsilon_lower > 0 else 1.0
        return self.epsilon_lower / self.claimed_epsilon

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings."""
        return {**asdict(self), "tightness": self.tightness}

    def to_json(self) -> str:
        """Return the result as one line of JSON."""
        return json.dumps(self.to_dict())

    def __str__(self) -> str:
        verdict = "VIOLATED" if self.violated else "not violated"
        return (
            f"{self.target}: claim epsilon={self.claimed_epsilon:g} at delta={self.delta:g} "
            f"{verdict}; at {100 * self.confidence:g} % confidence epsilon >= "
            f"{self.epsilon_lower:.3f}, delta >= {self.delta_lower:.3g} "
            f"({self.n_trials} trials a side; {self.pair}; {self.event})"
        )
