"""Logistic regression that protects every single row, by objective perturbation."""

from __future__ import annotations

from os import PathLike
from typing import Any

from tacit._types import Array
from tacit.estimators._base import Learned
from tacit.estimators._private import Sizes
from tacit.estimators._row_private import RowPrivateClassifier
from tacit.privacy.ledger import Ledger
from tacit.tasks import TaskSet
from tacit.transfer.design import Design

__all__ = ["PrivateLogisticRegression"]


class PrivateLogisticRegression(RowPrivateClassifier):
    """Differentially private logistic regression; the unit is one row.

    The released model is the minimiser of the regularised loss plus a random linear term (objective
    perturbation: Chaudhuri, Monteleoni, Sarwate 2011; Kifer, Smith, Thakurta 2012), with a little
    noise on top that covers what floats do to it. The constants are proved for replaced rows in
    ``docs/methods/private-transfer.md``.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget of one row; ``float("inf")`` for none.
    delta : float or "auto", default 0.0
        0: pure ε, noise of norm about 2d/ε. Above 0: Gaussian noise of norm about √d; "auto" is
        min(1e-5, 1/n²).
    alpha : float or "auto", default "auto"
        Ridge strength (scikit-learn's 1/C). "auto" follows from n, d, ε and δ, never from the rows.
        Values below 2·row_norm²/ε are raised to it.
    row_norm : float, default 1.0
        Public bound of a row's norm.
    rows : {"normalise", "clip"}, default "normalise"
        Scale every row to ``row_norm``, or only longer ones. Choose "clip" if lengths matter and
        ``row_norm`` is known.
    fit_intercept : bool, default True
        The intercept is the coefficient of a constant column; it counts in the row's norm and is
        regularised.
    intercept_scaling : float, default 0.3
        Value of that column relative to ``row_norm``.
    ledger : Ledger, path or None
    data : str or None
        The ledger's name for these rows; None counts on every line. See `Ledger`.
    random_state : int or None
        For tests only: a value makes the noise repeatable and the statement say so.
    unknown_task : "error"

    Attributes
    ----------
    coef_, intercept_, classes_, privacy_, history_, billboard_
        As for every estimator. The model answers on *bounded* rows; ``predict`` bounds them.
    n_clipped_rows_ : int
        Rows that were longer than ``row_norm``; private, for the owner of the rows.

    Guarantee: (ε, δ)-differential privacy of ``coef_`` and ``intercept_`` for one replaced row,
    whatever the other rows are; pure ε-DP if ``delta=0``. More than two classes are learned one
    against the rest, each with ε/k (or, for δ > 0, composed numerically). With ``tasks``, every
    task gets a model from its own rows alone, and each row pays once.

    `FeatureSplitTransferClassifier.fit` without a source fits a model per feature group (PLR-FS).
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float | str = 0.0,
        *,
        alpha: float | str = "auto",
        row_norm: float = 1.0,
        rows: str = "normalise",
        fit_intercept: bool = True,
        intercept_scaling: float = 0.3,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.alpha = alpha
        self.row_norm = row_norm
        self.rows = rows
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.unknown_task = unknown_task

    def _design(self, n_features: int) -> Design:
        return Design(
            (tuple(range(n_features)),), (1.0,), float(self.row_norm), self.rows, self._constant
        )

    def _converse(self, tasks: TaskSet, n_outputs: int) -> Learned:  # type: ignore[override]
        sizes = Sizes.of(tasks, n_outputs)
        protocol = self._protocol(sizes)
        run = self._conversation(
            protocol, tasks, sizes, self._checkpoint.entropy(self.random_state)
        )
        design, mechanism = protocol.learner.design, protocol.learner.mechanism
        (models,) = protocol.models(run.models)
        coef, intercept = self._coefficients(models, design)
        first = mechanism.at([int(tasks.counts[0])] * n_outputs)
        return Learned(
            coef=coef,
            intercept=intercept,
            statement=run.statements["privacy_"],
            history=run.history,
            billboard=run.billboard,
            extra={
                "alpha_": first.effective_strengths[0],
                "n_clipped_rows_": self._clipped(tasks.X, design),
            },
        )

    def _prepared(self, X: Any) -> Array:
        return self._bounded(super()._prepared(X))
