"""tacit: private multi-task learning.

Many parties, each with its own task, learn together; each ends up with its own model; nobody
learns about anybody else's data beyond a stated, accounted and audited privacy budget.

Names are resolved on first use, so ``import tacit`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._version import __version__

if TYPE_CHECKING:
    from tacit.estimators import *  # noqa: F403
    from tacit.estimators import ESTIMATORS as ESTIMATORS
    from tacit.methods import plan
    from tacit.tasks import TaskSet

__all__ = [
    "AsynchronousClassifier",
    "AsynchronousRegressor",
    "AveragedClassifier",
    "AveragedRegressor",
    "FeatureSplitTransferClassifier",
    "GroupSparseClassifier",
    "GroupSparseRegressor",
    "LowRankClassifier",
    "LowRankRegressor",
    "LowRankSparseClassifier",
    "LowRankSparseRegressor",
    "MeanRegularizedClassifier",
    "MeanRegularizedRegressor",
    "PooledClassifier",
    "PooledRegressor",
    "PrivateLogisticRegression",
    "SharedMomentsClassifier",
    "SharedMomentsRegressor",
    "SharedPriorClassifier",
    "SharedPriorRegressor",
    "SingleTaskClassifier",
    "SingleTaskRegressor",
    "TaskRelationshipClassifier",
    "TaskRelationshipRegressor",
    "TaskSet",
    "TransferClassifier",
    "__version__",
    "load",
    "plan",
]

NEURAL = (
    "NeuralMeanRegularizedClassifier",
    "NeuralMeanRegularizedRegressor",
    "PrivateFedAvgClassifier",
    "PrivateFedAvgRegressor",
    "PrivateFedProxClassifier",
    "PrivateFedProxRegressor",
)
"""Estimators of `tacit.neural`, which needs the extra of that name."""

_PACKAGES = (
    "audit",
    "datasets",
    "engines",
    "errors",
    "estimators",
    "losses",
    "neural",
    "penalties",
    "privacy",
    "protocols",
    "report",
    "tuning",
)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return importlib.import_module(f"tacit.{name}")
    if name == "TaskSet":
        return importlib.import_module("tacit.tasks").TaskSet
    if name == "plan":
        return importlib.import_module("tacit.methods").plan
    if name in NEURAL:
        return getattr(importlib.import_module("tacit.neural"), name)
    if name in __all__ or not name.startswith("_"):
        found = getattr(importlib.import_module("tacit.estimators"), name, None)
        if found is not None:
            return found
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES, *NEURAL, "ESTIMATORS"})
