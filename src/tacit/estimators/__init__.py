"""scikit-learn regressors and classifiers: thin, one file per method.

A file in this package is found by itself: the estimators in its ``__all__`` become names of
`tacit` and methods of the command line. The imports below are for readers and type checkers.
"""

import importlib
import pkgutil

from tacit.estimators._base import MultiTaskEstimator
from tacit.estimators._files import load
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator
from tacit.estimators.asynchronous import AsynchronousClassifier, AsynchronousRegressor
from tacit.estimators.averaged import AveragedClassifier, AveragedRegressor
from tacit.estimators.feature_split import FeatureSplitTransferClassifier
from tacit.estimators.group_sparse import GroupSparseClassifier, GroupSparseRegressor
from tacit.estimators.low_rank import LowRankClassifier, LowRankRegressor
from tacit.estimators.low_rank_sparse import LowRankSparseClassifier, LowRankSparseRegressor
from tacit.estimators.mean_regularized import MeanRegularizedClassifier, MeanRegularizedRegressor
from tacit.estimators.pooled import PooledClassifier, PooledRegressor
from tacit.estimators.private_logistic import PrivateLogisticRegression
from tacit.estimators.shared_moments import SharedMomentsClassifier, SharedMomentsRegressor
from tacit.estimators.shared_prior import SharedPriorClassifier, SharedPriorRegressor
from tacit.estimators.single_task import SingleTaskClassifier, SingleTaskRegressor
from tacit.estimators.task_relationship import TaskRelationshipClassifier, TaskRelationshipRegressor
from tacit.estimators.transfer import TransferClassifier
from tacit.transfer.package import SourcePackage

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
    "MultiTaskClassifier",
    "MultiTaskEstimator",
    "MultiTaskRegressor",
    "PooledClassifier",
    "PooledRegressor",
    "PrivateEstimator",
    "PrivateLogisticRegression",
    "SharedMomentsClassifier",
    "SharedMomentsRegressor",
    "SharedPriorClassifier",
    "SharedPriorRegressor",
    "SingleTaskClassifier",
    "SingleTaskRegressor",
    "SourcePackage",
    "TaskRelationshipClassifier",
    "TaskRelationshipRegressor",
    "TransferClassifier",
    "load",
]


_SUFFIXES = ("Regressor", "Classifier", "Regression")


def _found() -> tuple[str, ...]:
    """Import every public file of this package and return the estimators in them, sorted."""
    names = set()
    for part in pkgutil.iter_modules(__path__):
        if not part.name.startswith("_"):
            module = importlib.import_module(f"{__name__}.{part.name}")
            globals().update({name: getattr(module, name) for name in module.__all__})
            names |= {name for name in module.__all__ if name.endswith(_SUFFIXES)}
    return tuple(sorted(names))


ESTIMATORS = _found()
