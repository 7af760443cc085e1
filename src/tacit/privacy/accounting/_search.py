"""Root search that ends on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["safe_endpoint"]

_MOST_STEPS = 500


def _secant(unsafe: float, safe: float, f_unsafe: float, f_safe: float, gap: float) -> float:
    """Return the secant's root, at least ``gap`` inside the bracket."""
    point = safe + (unsafe - safe) * (f_safe / (f_safe - f_unsafe))
    low, high = min(unsafe, safe), max(unsafe, safe)
    return min(max(point, low + gap), high - gap)


def safe_endpoint(
    excess: Callable[[float], float], *, unsafe: float, safe: float, tolerance: float = 0.0
) -> float:
    """Return a point where ``excess`` ≤ 0, as close to the unsafe side as ``tolerance`` asks.

    ``excess`` is monotone, positive at ``unsafe`` and at most 0 at ``safe``; either may be the
    larger. The answer was itself evaluated and found safe, so it never overshoots, whatever the
    rounding inside ``excess``. ``tolerance`` is relative; 0 goes down to neighbouring floats.

    The Illinois rule (a secant whose stale end is halved), with bisection whenever three steps
    did not halve the bracket.
    """
    f_unsafe, f_safe = excess(unsafe), excess(safe)
    if f_unsafe <= 0:
        return unsafe
    widths: list[float] = []
    last_safe: bool | None = None
    for _ in range(_MOST_STEPS):
        width, scale = abs(safe - unsafe), max(abs(safe), abs(unsafe))
        if width <= tolerance * scale:
            break
        widths.append(width)
        slow = len(widths) > 3 and width > 0.5 * widths[-4]
        if slow or not (math.isfinite(f_unsafe) and math.isfinite(f_safe)):
            # Where the ends differ by orders of magnitude the middle is the geometric one.
            wide = unsafe * safe > 0 and scale > 2 * min(abs(safe), abs(unsafe))
            point = math.copysign(math.sqrt(unsafe * safe), safe) if wide else (unsafe + safe) / 2
            widths.clear()
        else:
            point = _secant(
                unsafe, safe, f_unsafe, f_safe, min(0.25 * width, 0.4 * tolerance * scale)
            )
        if point in (unsafe, safe):
            point = 0.5 * (unsafe + safe)
            if point in (unsafe, safe):
                break
        value = excess(point)
        if value <= 0:
            safe, f_safe = point, value
            f_unsafe = 0.5 * f_unsafe if last_safe else f_unsafe
        else:
            unsafe, f_unsafe = point, value
            f_safe = 0.5 * f_safe if last_safe is False else f_safe
        last_safe = value <= 0
    return safe
