"""tacit: private multi-task learning.

Many parties, each with its own task, learn together; each ends up with its own model; nobody
learns about anybody else's data beyond a stated, accounted and audited privacy budget.

Names are resolved on first use, so ``import tacit`` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._version import __version__
from tacit.errors import (
    BudgetExceeded,
    DataNotFound,
    InvalidInput,
    LedgerError,
    ModelFileError,
    PrivacyLeak,
    PrivacyWarning,
    TacitError,
    UnknownTask,
)

if TYPE_CHECKING:
    from tacit.comparison import compare
    from tacit.estimators import *  # noqa: F403
    from tacit.estimators import ESTIMATORS as ESTIMATORS
    from tacit.methods import plan
    from tacit.tasks import TaskSet

__all__ = [
    "AsynchronousClassifier",
    "AsynchronousRegressor",
    "AveragedClassifier",
    "AveragedRegressor",
    "BudgetExceeded",
    "DataNotFound",
    "FeatureSplitTransferClassifier",
    "GroupSparseClassifier",
    "GroupSparseRegressor",
    "InvalidInput",
    "LedgerError",
    "LowRankClassifier",
    "LowRankRegressor",
    "LowRankSparseClassifier",
    "LowRankSparseRegressor",
    "MeanRegularizedClassifier",
    "MeanRegularizedRegressor",
    "ModelFileError",
    "PooledClassifier",
    "PooledRegressor",
    "PrivacyLeak",
    "PrivacyWarning",
    "PrivateLogisticRegression",
    "SharedMomentsClassifier",
    "SharedMomentsRegressor",
    "SharedPriorClassifier",
    "SharedPriorRegressor",
    "SingleTaskClassifier",
    "SingleTaskRegressor",
    "TacitError",
    "TaskRelationshipClassifier",
    "TaskRelationshipRegressor",
    "TaskSet",
    "TransferClassifier",
    "UnknownTask",
    "__version__",
    "compare",
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
    "comparison",
    "datasets",
    "engines",
    "errors",
    "estimators",
    "losses",
    "model_selection",
    "neural",
    "penalties",
    "preprocessing",
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
    if name == "compare":
        return importlib.import_module("tacit.comparison").compare
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
