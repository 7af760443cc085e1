"""From protecting rows to protecting tasks: the paper's way to compare with older methods."""

from __future__ import annotations

import math

from tacit import _check
from tacit.privacy.accounting import group_privacy

__all__ = ["row_budget_for_task"]


def row_budget_for_task(epsilon: float, delta: float, most_rows: int) -> tuple[float, float]:
    """Return the row-level (ε, δ) that protects whole tasks of up to ``most_rows`` rows.

    Proposition 3 of the model-protected paper: a method that is (ε/n, δ/(n e^ε))-DP for one row is
    (ε, δ)-DP for n rows together. ``most_rows`` must be public, a bound and not a maximum over the
    private data; the price is n times less budget, which is why the sound estimators here bound
    whole tasks instead.

    Guarantee: `tacit.privacy.accounting.group_privacy` of the result with ``most_rows`` is within
    (ε, δ).
    """
    epsilon = _check.positive("epsilon", epsilon, remedy="give the task-level budget")
    delta = _check.non_negative("delta", delta, remedy="give the task-level δ, or 0")
    n = _check.positive_integer("most_rows", most_rows, remedy="give a public bound on rows")
    row_epsilon, row_delta = epsilon / n, delta / (n * math.exp(epsilon))
    while group_privacy(row_epsilon, row_delta, n)[0] > epsilon:
        row_epsilon = math.nextafter(row_epsilon, 0.0)
    while group_privacy(row_epsilon, row_delta, n)[1] > delta:
        row_delta *= 1 - 1e-12
    return row_epsilon, row_delta
