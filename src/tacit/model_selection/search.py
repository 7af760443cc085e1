"""A search over a grid, through one ledger; who may see its choice is said beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, Self

import numpy as np
import sklearn
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid
from sklearn.utils.validation import check_is_fitted

from tacit import _check
from tacit._types import AnyArray
from tacit.errors import PrivacyLeak
from tacit.estimators import _input
from tacit.model_selection.splits import TaskKFold
from tacit.model_selection.validation import charges, inner, looking, sizes_of, validated
from tacit.privacy.ledger import Ledger

__all__ = ["GridSearch"]


class GridSearch(MetaEstimatorMixin, BaseEstimator):
    """The candidate with the best cross-validated score, every fit charged to one ledger.

    Parameters
    ----------
    estimator : estimator of tacit, or a pipeline that ends in one
    parameters : mapping of names to lists of values
    cv : int or splitter, default 5
    scoring : as for `cross_validate`
    choice : "refused" or "unprotected"
        With private estimators the choice is made by scores that no noise hides, so whoever sees
        the model that was chosen learns more of the rows than its ε says. "unprotected" is for
        data whose owners see all of it, or public data; the statement then claims nothing.
        `tacit.tuning.PrivateSearch` chooses within a budget.
    ledger : Ledger, path or None
        What every fit charges; None adds up without a limit.
    n_jobs : int or None
        Processes.

    Attributes
    ----------
    best_estimator_, best_params_, best_score_, cv_results_
    privacy_ : what all fits cost together

    Guarantee: a search among private candidates that was not declared unprotected raises
    `PrivacyLeak` before it touches the data; one that was is stated as not sound. Without private
    candidates nothing is claimed.
    """

    def __init__(
        self,
        estimator: Any,
        parameters: Mapping[str, Sequence[Any]],
        *,
        cv: Any = 5,
        scoring: Any = None,
        choice: str = "refused",
        ledger: Ledger | str | PathLike[str] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.parameters = parameters
        self.cv = cv
        self.scoring = scoring
        self.choice = choice
        self.ledger = ledger
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None, *, tasks: Any = None) -> Self:
        """Score every candidate on folds within tasks, and fit the best on all rows."""
        _check.one_of("choice", self.choice, ("refused", "unprotected"))
        X, tasks = _input.without_task_column(X, tasks)
        grid = list(ParameterGrid(dict(self.parameters)))
        candidates = [clone(self.estimator).set_params(**chosen) for chosen in grid]
        private = any(charges(inner(candidate)) for candidate in candidates)
        leaks = private and len(candidates) > 1
        if leaks and self.choice != "unprotected":
            raise PrivacyLeak(
                "GridSearch: chooses among private candidates by scores that no noise hides; use "
                "tacit.tuning.PrivateSearch, which pays for its choice, or say "
                'choice="unprotected" on data whose owners may see everything'
            )
        cv = TaskKFold(self.cv, random_state=0) if isinstance(self.cv, int) else self.cv
        fits = [(candidate, cv.get_n_splits() + 1) for candidate in candidates]
        sizes = sizes_of(self.estimator, X, y, tasks)
        with looking(fits, self.ledger, sizes) as look:
            results = [
                validated(look, one, X, y, tasks, cv, self.scoring, self.n_jobs)["test_score"]
                for one in candidates
            ]
            best = int(np.argmax([scores.mean() for scores in results]))
            self.best_estimator_ = look.charging(candidates[best])
            _fit_with_tasks(self.best_estimator_, X, y, tasks)
            look.note(self.best_estimator_)
            stated = look.stated()
        self.privacy_ = replace(stated, sound=False) if leaks else stated
        self.best_params_, self.best_score_ = grid[best], float(results[best].mean())
        self.cv_results_ = {
            "params": grid,
            "mean_test_score": np.array([scores.mean() for scores in results]),
            "std_test_score": np.array([scores.std() for scores in results]),
        }
        inner(self.best_estimator_).privacy_ = self.privacy_
        return self

    def predict(self, X: Any, *, tasks: Any = None) -> AnyArray:
        """Predict with the best candidate's models."""
        check_is_fitted(self, "best_estimator_")
        with sklearn.config_context(enable_metadata_routing=True):
            return self.best_estimator_.predict(X, tasks=tasks)


def _fit_with_tasks(estimator: Any, X: Any, y: Any, tasks: Any) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        estimator.fit(X, y, tasks=tasks)
