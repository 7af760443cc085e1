"""The two kinds of estimators: regressors (squared loss) and classifiers (logistic loss)."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, overload

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.estimators import _classes, _input, _intervals
from tacit.estimators._base import MultiTaskEstimator
from tacit.estimators._constraints import Constraints
from tacit.losses import LogisticLoss, Loss, SquaredLoss
from tacit.privacy.statement import Statement
from tacit.tasks import ParquetTasks, TaskSet, within_range

__all__ = ["MultiTaskClassifier", "MultiTaskRegressor"]


class MultiTaskRegressor(RegressorMixin, MultiTaskEstimator):
    """A regressor with the squared loss."""

    _loss: Loss = SquaredLoss()

    def _encode_target(self, y: AnyArray) -> Array:
        try:
            return np.asarray(y, dtype=np.float64)[:, None]
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"y: a regressor needs numbers; {error}") from error

    @overload
    def predict(self, X: Any, *, tasks: Any = ..., return_std: Literal[False] = ...) -> Array: ...

    @overload
    def predict(
        self, X: Any, *, tasks: Any = ..., return_std: Literal[True]
    ) -> tuple[Array, Array]: ...

    def predict(
        self, X: Any, *, tasks: Any = None, return_std: bool = False
    ) -> Array | tuple[Array, Array]:
        """Predict one number a row with the model of the row's task.

        Parameters
        ----------
        return_std : bool
            Return the standard deviation of the predicted values, too: the task's own noise and
            what its rows leave open about its model. Needs a model fitted with
            ``intervals=True``. Mean ± 1.96 of it holds about 95 % of the values.
        """
        predicted = self._scores(X, tasks)[:, 0]
        return (predicted, self._deviations(X, tasks)) if return_std else predicted

    def _deviations(self, X: Any, tasks: Any) -> Array:
        X, tasks = _input.without_task_column(X, tasks)
        rows = _input.features(self, X, reset=False)
        return _intervals.deviations(self, rows, self._index_of_tasks(tasks, len(rows)))

    def _keep_spread(self, tasks: TaskSet, *, later: bool = False) -> None:
        _intervals.keep(self, within_range(tasks), later=later)

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, tasks: Any = None) -> float:
        """Return R² over all rows."""
        return float(r2_score(y, self.predict(X, tasks=tasks), sample_weight=sample_weight))


class MultiTaskClassifier(ClassifierMixin, MultiTaskEstimator):
    """A classifier with the logistic loss; more than two classes are learned one against the rest.

    Every classifier has the parameter ``classes``: a sequence of two labels or more that are
    public, the catch-all last. ``classes_`` are these, sorted, whatever occurs in the data, and a
    label that is none of them counts as the one declared last. ``n_strangers_`` is the number of
    such rows; it is private, for the owner of the rows. Without ``classes`` they are read off y,
    and the statement says that the set of classes is not protected.

    A task that has rows of one class only is allowed: its own data pull its model towards that
    class as far as the penalty lets them, and what is shared decides the rest.

    Guarantee: with declared classes neither the shape of a model nor whether a fit succeeds
    depends on any label.
    """

    __metadata_request__predict_proba: ClassVar[dict[str, bool]] = {"tasks": True}
    __metadata_request__decision_function: ClassVar[dict[str, bool]] = {"tasks": True}
    _loss: Loss = LogisticLoss()
    classes: Sequence[Any] | None = None
    _parameter_constraints: ClassVar[Constraints] = {
        "classes": [None, lambda _, value: _classes.check_declared(value)],
        "intervals": [False, _intervals.refuse],
    }

    if TYPE_CHECKING:

        def __init__(
            self, *args: Any, classes: Sequence[Any] | None = None, **kwargs: Any
        ) -> None: ...

    def __init_subclass__(cls, **options: Any) -> None:
        """Give every classifier the parameter ``classes``, which regressors do not have."""
        super().__init_subclass__(**options)
        constructor = inspect.signature(cls.__init__)
        if cls.__init__ is not object.__init__ and "classes" not in constructor.parameters:
            cls.__init__ = _classes.with_parameter(cls.__init__, "classes", None)  # type: ignore[method-assign]

    def _target_values(self, y: Any, n_rows: int) -> AnyArray:
        return _input.target(y, n_rows, as_given=self.classes is not None)

    def _encode_target(self, y: AnyArray) -> Array:
        declared = _classes.check_declared(self.classes)
        if declared is None:
            self.classes_, codes = _classes.read_off(y)
            self.n_strangers_ = 0
        else:
            self.classes_, codes, self.n_strangers_ = _classes.declared_codes(y, declared)
        return _classes.indicators(codes, len(self.classes_))

    def _encode_known(self, y: AnyArray) -> Array:
        declared = _classes.check_declared(self.classes)
        if declared is None:
            codes = _classes.known_codes(y, self.classes_)
        else:
            codes = _classes.declared_codes(y, declared)[1]
        return _classes.indicators(codes, len(self.classes_))

    def _begin_file(self, rows: ParquetTasks) -> int:
        declared = _classes.check_declared(self.classes)
        self.n_strangers_ = 0
        if declared is None:
            self.classes_ = _classes.read_off_parts(rows.targets())
        else:
            self.classes_ = np.sort(declared)
            for values in rows.targets():
                self.n_strangers_ += _classes.declared_codes(values, declared)[2]
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _file_codes(self, values: AnyArray) -> Array:
        declared = _classes.check_declared(self.classes)
        if declared is None:
            return np.searchsorted(self.classes_, values).astype(np.float64)
        return _classes.declared_codes(values, declared)[1].astype(np.float64)

    def _stated(self, statement: Statement) -> Statement:
        if not statement.private:
            return statement
        if self.classes is None:
            unprotected = (*statement.not_protected, _classes.READ_OFF)
            return replace(statement, not_protected=unprotected)
        return replace(statement, assumptions=(*statement.assumptions, _classes.DECLARED))

    def decision_function(self, X: Any, *, tasks: Any = None) -> Array:
        """Return linear scores: one a row for two classes, else one a row and class."""
        scores = self._scores(X, tasks)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: Any, *, tasks: Any = None) -> Array:
        """Return the probability of every class (one-vs-rest scores normalised to sum to 1)."""
        positive = expit(self._scores(X, tasks))
        if len(self.classes_) == 2:
            return np.hstack([1.0 - positive, positive])
        return positive / np.maximum(positive.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def predict(self, X: Any, *, tasks: Any = None) -> AnyArray:
        """Predict the class of every row with the model of the row's task."""
        scores = self._scores(X, tasks)
        codes = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, tasks: Any = None) -> float:
        """Return the accuracy over all rows."""
        predicted = self.predict(X, tasks=tasks)
        declared = _classes.check_declared(self.classes)
        if declared is not None:
            known, codes, _ = _classes.declared_codes(
                self._target_values(y, len(predicted)), declared
            )
            y = known[codes]
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
