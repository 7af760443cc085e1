"""Scorers that hand the task of every row on to the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.base import is_classifier
from sklearn.utils.metadata_routing import MetadataRequest

from tacit import _check

__all__ = ["TaskScorer", "task_scorer"]

_RESPONSES = ("predict", "predict_proba")


def _log_loss(y: Any, shares: Any, *, labels: Any) -> float:
    return float(metrics.log_loss(y, shares, labels=labels))


def _roc_auc(y: Any, shares: Any, *, labels: Any) -> float:
    if len(labels) == 2:
        return float(metrics.roc_auc_score(np.asarray(y) == labels[1], shares[:, 1]))
    return float(metrics.roc_auc_score(y, shares, multi_class="ovr", labels=labels))


_NAMED: dict[str, tuple[Callable[..., Any], str, float]] = {
    "r2": (metrics.r2_score, "predict", 1.0),
    "neg_mean_squared_error": (metrics.mean_squared_error, "predict", -1.0),
    "neg_root_mean_squared_error": (metrics.root_mean_squared_error, "predict", -1.0),
    "neg_mean_absolute_error": (metrics.mean_absolute_error, "predict", -1.0),
    "accuracy": (metrics.accuracy_score, "predict", 1.0),
    "balanced_accuracy": (metrics.balanced_accuracy_score, "predict", 1.0),
    "neg_log_loss": (_log_loss, "predict_proba", -1.0),
    "roc_auc": (_roc_auc, "predict_proba", 1.0),
}


@dataclass(frozen=True)
class TaskScorer:
    """A scorer ``scorer(model, X, y, tasks=…)`` that predicts with every row's own task's model.

    It asks for ``tasks`` by metadata routing, so scikit-learn's searches and `cross_validate` hand
    them in where routing is enabled.
    """

    metric: Callable[..., Any]
    response: str = "predict"
    sign: float = 1.0
    name: str = "score"

    def __call__(self, model: Any, X: Any, y: Any, *, tasks: Any = None) -> float:
        """Return the score of a fitted model on these rows; greater is better."""
        answers = getattr(model, self.response)(X, tasks=tasks)
        # Probabilities have a column for each of the model's classes, whatever occurs in y.
        known = {"labels": model.classes_} if self.metric in (_log_loss, _roc_auc) else {}
        return self.sign * float(self.metric(y, answers, **known))

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask for ``tasks``."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="tasks", alias=True)
        return request


def task_scorer(
    metric: str | Callable[..., Any],
    *,
    response: str = "predict",
    greater_is_better: bool = True,
) -> TaskScorer:
    """Return a scorer that routes ``tasks``.

    Parameters
    ----------
    metric : str or callable(y, answers)
        One of scikit-learn's names (r2, neg_mean_squared_error, neg_root_mean_squared_error,
        neg_mean_absolute_error, accuracy, balanced_accuracy, neg_log_loss, roc_auc), or a function
        of targets and answers.
    response : "predict" or "predict_proba"
        What a function is given. A name knows its own.
    greater_is_better : bool
        False turns the sign of a function's values.
    """
    if callable(metric):
        _check.one_of("response", response, _RESPONSES)
        return TaskScorer(metric, response, 1.0 if greater_is_better else -1.0)
    _check.one_of("metric", metric, tuple(_NAMED))
    return TaskScorer(*_NAMED[metric], name=metric)


def scorer_of(scoring: Any, estimator: Any) -> TaskScorer:
    """Return the scorer that was asked for; accuracy or R² if none was."""
    if isinstance(scoring, TaskScorer):
        return scoring
    if scoring is None:
        scoring = "accuracy" if is_classifier(estimator) else "r2"
    return task_scorer(scoring)
