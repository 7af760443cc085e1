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
    from tacit.estimators import (
        AveragedClassifier,
        AveragedRegressor,
        FeatureSplitTransferClassifier,
        GroupSparseClassifier,
        GroupSparseRegressor,
        LowRankClassifier,
        LowRankRegressor,
        LowRankSparseClassifier,
        LowRankSparseRegressor,
        MeanRegularizedClassifier,
        MeanRegularizedRegressor,
        PooledClassifier,
        PooledRegressor,
        PrivateLogisticRegression,
        SharedPriorClassifier,
        SharedPriorRegressor,
        SingleTaskClassifier,
        SingleTaskRegressor,
        TaskRelationshipClassifier,
        TaskRelationshipRegressor,
        TransferClassifier,
        load,
    )
    from tacit.tasks import TaskSet

ESTIMATORS = (
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
    "SharedPriorClassifier",
    "SharedPriorRegressor",
    "SingleTaskClassifier",
    "SingleTaskRegressor",
    "TaskRelationshipClassifier",
    "TaskRelationshipRegressor",
    "TransferClassifier",
)
_HOME = dict.fromkeys((*ESTIMATORS, "load"), "tacit.estimators") | {"TaskSet": "tacit.tasks"}
_PACKAGES = ("audit", "datasets", "errors", "estimators", "losses", "penalties", "privacy")

__all__ = ["ESTIMATORS", "TaskSet", "__version__", "load"]
__all__ += ESTIMATORS


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    if name in _PACKAGES:
        return importlib.import_module(f"tacit.{name}")
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_PACKAGES})
