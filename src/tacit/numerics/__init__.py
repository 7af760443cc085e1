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
from tacit.numerics.logistic import LogisticPath, logistic_kfold, logistic_paths
from tacit.numerics.objective import Objective, objectives
from tacit.numerics.ridge import RidgeFit, RidgePath, ridge_best, ridge_paths

__all__ = [
    "LogisticPath",
    "Objective",
    "RidgeFit",
    "RidgePath",
    "Solution",
    "logistic_kfold",
    "logistic_paths",
    "nesterov_momentum",
    "objectives",
    "proximal_gradient",
    "ridge_best",
    "ridge_paths",
    "strongly_convex_momentum",
]
