"""Root search that ends on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["safe_endpoint"]

_MOST_STEPS = 400


def _between(unsafe: float, safe: float, f_unsafe: float, f_safe: float, step: int) -> float:
    """Return the next point: the secant's root, or the middle every third step."""
    middle = math.sqrt(unsafe * safe) if unsafe * safe > 0 else 0.5 * (unsafe + safe)
    if step % 3 == 2 or not (math.isfinite(f_unsafe) and math.isfinite(f_safe)):
        return middle
    point = safe + (unsafe - safe) * f_safe / (f_safe - f_unsafe)
    # A secant that lands on an end would stall; a step of 1 % of the bracket off it does not.
    low, high = min(unsafe, safe), max(unsafe, safe)
    margin = 0.01 * (high - low)
    return min(max(point, low + margin), high - margin)


def safe_endpoint(
    excess: Callable[[float], float], *, unsafe: float, safe: float, tolerance: float = 0.0
) -> float:
    """Return a point where ``excess`` ≤ 0, as close to the unsafe side as ``tolerance`` asks.

    ``excess`` is monotone, positive at ``unsafe`` and at most 0 at ``safe``; either may be the
    larger. The answer was itself evaluated and found safe, so it never overshoots, whatever the
    rounding inside ``excess``. ``tolerance`` is relative; 0 goes down to neighbouring floats.
    """
    f_unsafe, f_safe = excess(unsafe), excess(safe)
    if f_unsafe <= 0:
        return unsafe
    for step in range(_MOST_STEPS):
        if abs(safe - unsafe) <= tolerance * max(abs(safe), abs(unsafe)):
            break
        point = _between(unsafe, safe, f_unsafe, f_safe, step)
        if point in (unsafe, safe):
            break
        value = excess(point)
        if value <= 0:
            safe, f_safe = point, value
        else:
            unsafe, f_unsafe = point, value
    return safe
