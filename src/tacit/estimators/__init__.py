"""scikit-learn regressors and classifiers: thin, one file per method."""

from tacit.estimators._base import MultiTaskClassifier, MultiTaskEstimator, MultiTaskRegressor
from tacit.estimators._files import load
from tacit.estimators._private import PrivateEstimator
from tacit.estimators.mean_regularized import MeanRegularizedClassifier, MeanRegularizedRegressor
from tacit.estimators.pooled import PooledClassifier, PooledRegressor
from tacit.estimators.single_task import SingleTaskClassifier, SingleTaskRegressor

__all__ = [
    "MeanRegularizedClassifier",
    "MeanRegularizedRegressor",
    "MultiTaskClassifier",
    "MultiTaskEstimator",
    "MultiTaskRegressor",
    "PooledClassifier",
    "PooledRegressor",
    "PrivateEstimator",
    "SingleTaskClassifier",
    "SingleTaskRegressor",
    "load",
]
