"""What the estimators that protect single rows share: the row bound, the budget, the release."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from numbers import Integral
from os import PathLike
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.estimators._base import MultiTaskClassifier
from tacit.estimators._private import default_delta, open_ledger
from tacit.privacy._pricing import check_data
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation
from tacit.privacy.noise.perturb import Entropy, entropy_from
from tacit.privacy.objective import ObjectivePerturbation
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Adjacency, Unit
from tacit.transfer.learning import Budget

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


def _entropy_of(random_state: Any, data: str) -> Entropy:
    """Return the entropy of one party; a seeded source and target must not share their noise."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        named = hashlib.sha256(f"{int(random_state)} {data}".encode()).digest()
        return entropy_from(int.from_bytes(named[:8], "little"))
    return entropy_from(random_state)


class RowPrivateClassifier(MultiTaskClassifier):
    """A linear classifier whose unit is one row; its release is the model itself."""

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

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _check.positive(
            "epsilon",
            self.epsilon,
            allow_inf=True,
            remedy='use epsilon=float("inf") for no privacy',
        )
        if self.delta != "auto":
            delta = _check.non_negative("delta", self.delta, remedy='use "auto", or 0 for pure ε')
            if delta >= 1:
                raise InvalidInput(f'delta={self.delta!r}: must be below 1; use "auto"')
        check_data(self.data)
        if self.alpha != "auto":
            _check.positive("alpha", self.alpha, remedy='use alpha="auto" or a ridge strength')
        _check.positive("row_norm", self.row_norm, remedy="give a public bound of a row's norm")
        _check.one_of("rows", self.rows, ("normalise", "clip"))
        _check.positive(
            "intercept_scaling",
            self.intercept_scaling,
            remedy="use fit_intercept=False for no intercept",
        )

    @property
    def _strength(self) -> float | None:
        return None if isinstance(self.alpha, str) else float(self.alpha)

    @property
    def _constant(self) -> float:
        return float(self.intercept_scaling) if self.fit_intercept else 0.0

    def _budget(self, n_rows: int) -> Budget:
        if math.isinf(self.epsilon):
            return Budget(math.inf)
        delta = default_delta(n_rows) if isinstance(self.delta, str) else float(self.delta)
        return Budget(float(self.epsilon), delta)

    def _reserved(
        self, mechanism: ObjectivePerturbation
    ) -> AbstractContextManager[Reservation | None]:
        """Return the reservation of one release; None where no ledger was asked for."""
        if self.ledger is None:
            return nullcontext()
        return open_ledger(self.ledger, mechanism.epsilon, mechanism.delta).reserve(
            [mechanism.event],
            unit=Unit.ROW,
            adjacency=Adjacency.REPLACE_ONE,
            data=self.data,
            delta=mechanism.delta,
            label=type(self).__name__,
        )

    def _publish(
        self,
        mechanism: ObjectivePerturbation,
        solve: Callable[[Entropy], list[Array]],
        *,
        data: str,
        n_rows: int,
        charged: bool = False,
    ) -> tuple[list[Array], Statement, Billboard]:
        """Reserve the budget, solve, charge and post the models; return them as posted.

        Guarantee: the ledger accepts or refuses before the rows are touched. ``solve`` may fit
        several models under one event only if every row enters one of them (parallel composition).
        ``data`` is the party's role; with ``charged`` the ledger was charged for it already.
        """
        entropy = _entropy_of(self.random_state, data)
        budget = Budget(mechanism.epsilon, mechanism.delta)
        with nullcontext() if charged else self._reserved(mechanism) as reservation:
            billboard = Billboard(reservation)
            models = solve(entropy)
            release = mechanism.packed(models, entropy)
            posting = billboard.post(
                release.value,
                release.event,
                label=f"{data}: {release.mechanism}",
                sound=release.sound,
                seeded=release.seeded,
                unit=Unit.ROW,
            )
        ends = np.cumsum([model.size for model in models])[:-1]
        posted = [
            part.reshape(model.shape)
            for part, model in zip(np.split(posting.value, ends), models, strict=True)
        ]
        statement = Statement.of_run(
            billboard,
            unit=Unit.ROW,
            adjacency=Adjacency.REPLACE_ONE,
            delta=budget.delta,
            curator="none",
            n_units=n_rows,
            assumptions=_ASSUMPTIONS,
            not_protected=_NOT_PROTECTED,
        )
        return posted, statement, billboard

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # a small private fit may answer at random
        return tags
