"""What the estimators that protect single rows share: the row bound, the budget, the models."""

from __future__ import annotations

import math
from abc import abstractmethod
from os import PathLike
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._kinds import MultiTaskClassifier
from tacit.estimators._private import PrivateEstimator, Sizes, default_delta
from tacit.privacy.ledger import Ledger
from tacit.privacy.schedule import Schedule
from tacit.privacy.unit import Unit
from tacit.protocols.protocol import Protocol
from tacit.tasks import TaskSet
from tacit.transfer.design import Design
from tacit.transfer.learning import Budget, Learner
from tacit.transfer.protocol import TransferProtocol

__all__ = ["RowPrivateClassifier"]

_ASSUMPTIONS = (
    "additions and products of floats are rounded correctly, in whatever order a matrix product "
    "takes them, and exp, log, sin and cos err by at most four units in the last place; noise on "
    "the model pays for these roundings and for how nearly the objective is minimised",
    "row_norm, alpha, importances, projections and scalings of the features do not depend on the "
    "private rows",
    "the number of rows is public",
)
_NOT_PROTECTED = (
    "a person with several rows, or with rows at the source and at the target: the budgets add up",
    "n_clipped_rows_, which counts private rows and stays with their owner",
)


class RowPrivateClassifier(MultiTaskClassifier, PrivateEstimator):
    """A linear classifier whose unit is one row; its release is the model itself."""

    mechanism = "objective-perturbation"
    engine = "local"
    progress = None
    _unit = Unit.ROW
    _assumptions = _ASSUMPTIONS
    _not_protected = _NOT_PROTECTED
    _models_released: ClassVar[bool] = True
    _parameter_constraints: ClassVar[Constraints] = {
        "row_norm": [rule(_check.positive, remedy="give a public bound of a row's norm")],
        "rows": [rule(_check.one_of, choices=("normalise", "clip"))],
        "intercept_scaling": [
            rule(_check.positive, remedy="use fit_intercept=False for no intercept")
        ],
    }

    epsilon: float
    delta: float | str
    alpha: float | str
    row_norm: float
    rows: str
    fit_intercept: bool
    intercept_scaling: float
    ledger: Ledger | str | PathLike[str] | None
    data: str | None
    random_state: Any

    @property
    def _strength(self) -> float | None:
        return None if isinstance(self.alpha, str) else float(self.alpha)

    @property
    def _constant(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    @abstractmethod
    def _design(self, n_features: int) -> Design:
        """Return the public design, which source and target compute alike."""

    def _bounded(self, rows: Array) -> Array:
        """Return rows as a model of one group answers on them."""
        TaskSet.from_arrays(rows)  # refuses NaN and inf, with row and column named
        return self._design(rows.shape[1]).bounded(rows)[0][:, : rows.shape[1]]

    def _run_delta(self, sizes: Sizes) -> float:
        if math.isinf(self.epsilon):
            return 0.0
        if self.delta != "auto":
            return float(self.delta)
        if sizes.n_rows is None:
            raise InvalidInput('n_rows=None: delta="auto" needs the number of all rows')
        return default_delta(sizes.n_rows)

    def _learner(self, sizes: Sizes) -> Learner:
        budget = Budget(float(self.epsilon), self._run_delta(sizes))
        return Learner(self._design(sizes.n_features), budget, sizes.n_outputs, self._strength)

    def _protocol(self, sizes: Sizes) -> TransferProtocol:
        return TransferProtocol(self._learner(sizes))

    def _schedule(self, protocol: Protocol[Any, Any], sizes: Sizes) -> Schedule:
        """Return the protocol's own schedule: its noise follows from design and budget."""
        if not isinstance(protocol, TransferProtocol):
            return super()._schedule(protocol, sizes)
        return protocol.schedule()

    def _coefficients(self, models: Array, design: Design) -> tuple[Array, Array]:
        """Return coefficients and intercepts of models (m, k, d (+ 1)) of a design of one group."""
        coef = models[:, :, : design.n_features]
        constant = design.intercept * design.row_norm
        return coef, constant * models[:, :, -1] if self.fit_intercept else np.zeros(coef.shape[:2])

    def _clipped(self, X: Array, design: Design) -> int:
        return design.longer(X) if self.rows == "clip" else 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # a small private fit may answer at random
        return tags
