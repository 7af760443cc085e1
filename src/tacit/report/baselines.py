"""What a model is compared with: learning alone, and learning from all rows in one place."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from tacit._types import AnyArray
from tacit.estimators import _input
from tacit.tasks import TaskSet

__all__ = ["THESE_ROWS", "crossed_baselines", "fitted_baselines"]

THESE_ROWS = " (these rows)"  # beside a baseline that learned from the rows it is tested on
_FOLDS = 5


def _unfitted(model: Any, *, alone: bool) -> dict[str, Any]:
    import tacit

    own = type(model).__name__
    if is_classifier(model):
        # The model's classes are known by now; a fold may lack one of them.
        classes = tuple(model.classes_.tolist())
        found: dict[str, Any] = {"single-task": tacit.SingleTaskClassifier(classes=classes)}
        if not alone:
            found["pooled"] = tacit.PooledClassifier(classes=classes)
    else:
        found = {"single-task": tacit.SingleTaskRegressor()}
        if not alone:
            found["pooled"] = tacit.PooledRegressor()
    return {name: each for name, each in found.items() if type(each).__name__ != own}


def fitted_baselines(
    model: Any, X: Any, y: AnyArray, tasks: list[Hashable], *, alone: bool
) -> dict[str, Any]:
    """Return baselines fitted on the rows that the model was fitted on.

    Guarantee: with ``alone`` (one party's page) nothing but single-task learning is there.
    """
    return {
        name: each.fit(X, y, tasks=tasks) for name, each in _unfitted(model, alone=alone).items()
    }


class _Crossed:
    """Answers of a baseline to rows, each from a model that was fitted without it."""

    def __init__(self, fitted: Any, predicted: AnyArray, shares: AnyArray | None) -> None:
        self.privacy_ = fitted.privacy_
        self._predicted, self._shares = predicted, shares
        if shares is not None:
            self.classes_ = fitted.classes_

    def predict(self, X: Any, *, tasks: Any = None) -> AnyArray:  # noqa: ARG002
        """Return the answers to the rows this was made for."""
        return self._predicted

    def predict_proba(self, X: Any, *, tasks: Any = None) -> AnyArray | None:  # noqa: ARG002
        """Return the probabilities for the rows this was made for."""
        return self._shares


def crossed_baselines(
    model: Any, X: Any, y: AnyArray, tasks: list[Hashable], *, alone: bool
) -> tuple[dict[str, Any], AnyArray]:
    """Return baselines learned from folds of these rows, and which rows they could be tested on.

    A task's only row is never tested on. No baseline where no task has two rows.
    """
    rows = TaskSet.from_arrays(np.zeros((len(tasks), 1)), tasks=tasks)
    tested = np.zeros(len(tasks), dtype=bool)
    if int(rows.counts.max()) < 2:
        return {}, ~tested
    folds = list(rows.kfold(min(_FOLDS, int(rows.counts.max())), random_state=0))
    labels = np.empty(len(tasks), dtype=object)
    labels[:] = tasks
    for _, test in folds:
        tested[test.order] = True
    found = {}
    for name, each in _unfitted(model, alone=alone).items():
        answers = [
            _answered(each, X, y, labels, np.sort(train.order), np.sort(test.order))
            for train, test in folds
        ]
        order = np.argsort(np.concatenate([place for place, *_ in answers]))
        predicted = np.concatenate([values for _, values, _ in answers])[order]
        shares = None
        if answers[0][2] is not None:
            shares = np.concatenate([part for *_, part in answers])[order]
        found[name + THESE_ROWS] = _Crossed(each, predicted, shares)
    return found, tested


def _answered(
    each: Any, X: Any, y: AnyArray, labels: AnyArray, train: AnyArray, test: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray | None]:
    each.fit(_input.take_rows(X, train), y[train], tasks=labels[train].tolist())
    rows, names = _input.take_rows(X, test), labels[test].tolist()
    shares = each.predict_proba(rows, tasks=names) if hasattr(each, "predict_proba") else None
    return test, each.predict(rows, tasks=names), shares
