"""Numerics on all tasks at once: objectives, descent, closed-form ridge, Newton logistic.

No function here loops over tasks in Python.
"""

from __future__ import annotations

from tacit.numerics.descent import (
    Solution,
    nesterov_momentum,
    proximal_gradient,
    strongly_convex_momentum,
)
from tacit.numerics.objective import Objective, objectives

__all__ = [
    "Objective",
    "Solution",
    "nesterov_momentum",
    "objectives",
    "proximal_gradient",
    "strongly_convex_momentum",
]
