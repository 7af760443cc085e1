"""Numerics on all tasks at once: objectives, descent, closed-form ridge, Newton logistic.

No function here loops over tasks in Python. Modules are imported on first use: whoever needs the
threads alone need not load SciPy's linear algebra.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.numerics.descent import (
        Solution,
        nesterov_momentum,
        proximal_gradient,
        strongly_convex_momentum,
    )
    from tacit.numerics.logistic import LogisticPath, logistic_kfold, logistic_paths
    from tacit.numerics.objective import Objective, objectives
    from tacit.numerics.ridge import RidgeFit, RidgePath, ridge_best, ridge_paths

_PLACES = {
    "descent": (
        "Solution",
        "nesterov_momentum",
        "proximal_gradient",
        "strongly_convex_momentum",
    ),
    "logistic": ("LogisticPath", "logistic_kfold", "logistic_paths"),
    "objective": ("Objective", "objectives"),
    "ridge": ("RidgeFit", "RidgePath", "ridge_best", "ridge_paths"),
}

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


def __getattr__(name: str) -> Any:
    for place, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"tacit.numerics.{place}"), name)
    raise AttributeError(f"module 'tacit.numerics' has no attribute {name!r}")
