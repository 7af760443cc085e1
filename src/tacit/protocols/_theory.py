"""The utility theorems of model-protected learning as numbers.

Theorems 2 to 5 of the paper (δ > 0) and 7 to 10 of its supplement (δ = 0) give the number of rounds
and the strength up to a constant, Assumption 1 how many tasks they need. Messages have norm K = 1
here, k = 1 direction is sought, and constants are taken as 1, so that these are orders of magnitude
from public numbers, not optima.
"""

from __future__ import annotations

import math

__all__ = ["theory_rounds", "theory_tasks", "theory_threshold"]

_MOST_ROUNDS = 1000


def _cost(epsilon: float, delta: float, spread: float) -> float:
    """Return M₀ of Theorems 2 to 5; with δ = 0, 1/(spread · ε) of Theorems 7 to 10.

    ``spread`` is √|2α + 1| or √|1 − Q²|; with δ = 0, |α + 1| or |1 − Q|.
    """
    if delta == 0:
        return 1 / (spread * epsilon)
    return math.sqrt(math.log(math.e + epsilon / (math.sqrt(2) * delta)) + 2 * epsilon) / (
        spread * epsilon
    )


def _size(n_tasks: int, n_features: int, diagonal: bool) -> float:
    log = math.log(max(n_features, 2))
    return log / n_tasks if diagonal else n_features * log / math.sqrt(n_tasks)


def theory_tasks(n_features: int, epsilon: float, delta: float, *, diagonal: bool) -> float:
    """Return how many tasks Assumption 1 asks for (with δ = 0: its counterpart, M ≤ 1)."""
    cost = _cost(epsilon, delta, 1.0) * _size(1, n_features, diagonal)
    return cost if diagonal else cost**2


def theory_threshold(n_tasks: int, n_features: int, clip: float) -> float:
    """Return ηλ = Θ(K√m) of Theorems 2 and 4: a tenth of what even models give a direction.

    m models of norm K spread evenly over d directions have singular values K√(m/d).
    """
    return 0.1 * clip * math.sqrt(n_tasks / n_features)


def theory_rounds(
    n_tasks: int,
    n_features: int,
    epsilon: float,
    delta: float,
    *,
    diagonal: bool,
    accelerated: bool,
    exponent: float = 0.0,
    ratio: float | None = None,
    rate: float = 0.0,
) -> int:
    """Return T for budgets ∝ t^exponent, or ∝ ratio^(−t) with μ/L = ``rate``."""
    size = _size(n_tasks, n_features, diagonal)
    if ratio is not None and rate > 0:
        rounds = _strongly_convex(size, epsilon, delta, accelerated, ratio, rate)
    else:
        rounds = _convex(size, epsilon, delta, accelerated, exponent)
    return max(1, min(_MOST_ROUNDS, math.ceil(rounds)))


def _convex(size: float, epsilon: float, delta: float, accelerated: bool, alpha: float) -> float:
    """Return T of Theorems 2 and 3 (7 and 8): (c²/M)^φ, or its root if accelerated."""
    pure = delta == 0
    spread = abs(alpha + 1) if pure else math.sqrt(abs(2 * alpha + 1))
    order = 2 if accelerated else 1  # how errors of round t weigh: t^order
    gap = (alpha / 2 - order) ** 2
    width = 1 if pure else 0.5
    if alpha > 2 * order:
        phi = order / (alpha + 1) if pure else 2 * order / (2 * alpha + 1)
    elif alpha > -width:
        phi = order / (2 * order + width)
    else:
        phi = order / (2 * order - alpha)
    return float((gap / (_cost(epsilon, delta, max(spread, 1e-12)) * size)) ** (phi / order))


def _strongly_convex(
    size: float, epsilon: float, delta: float, accelerated: bool, Q: float, rate: float
) -> float:
    """Return T of Theorems 4 and 5 (9 and 10): log of (√(Q̃/Q) − 1)²/M to the base 1/ψ(Q, Q̃)."""
    base = 1 - math.sqrt(rate) if accelerated else (1 - rate) ** 2
    spread = abs(1 - Q) if delta == 0 else math.sqrt(abs(1 - Q**2))
    gap = (math.sqrt(base / Q) - 1) ** 2
    psi = base / Q if Q > 1 else min(Q, base)
    reach = gap / (_cost(epsilon, delta, max(spread, 1e-12)) * size)
    if reach <= 1 or not 0 < psi < 1:
        return 1.0
    return math.log(reach) / math.log(1 / psi)
