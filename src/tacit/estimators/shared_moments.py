"""Released moments of rows, a personal fit under what the others' moments say."""

from __future__ import annotations

import math
from os import PathLike
from typing import Any

from tacit import _check
from tacit.estimators._base import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.numerics.moment_prior import shared_models
from tacit.privacy.billboard import Billboard
from tacit.privacy.ledger import Ledger, Reservation
from tacit.privacy.schedule import Schedule
from tacit.privacy.statement import Statement
from tacit.privacy.unit import Unit
from tacit.protocols.shared_moments import SharedMomentsProtocol, SharedMomentsPublic

__all__ = ["SharedMomentsClassifier", "SharedMomentsRegressor"]


class _SharedMoments(PrivateEstimator):
    target_bound: float = 1.0

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.row_norm != "auto":
            _check.positive("row_norm", self.row_norm, remedy='use "auto" or a public norm of rows')

    def _protocol(self, sizes: Sizes) -> SharedMomentsProtocol:
        norm = math.sqrt(sizes.n_features) if self.row_norm == "auto" else float(self.row_norm)
        return SharedMomentsProtocol(
            loss=self._loss,
            n_features=sizes.n_features,
            counts=sizes.counts,
            n_outputs=sizes.n_outputs,
            row_norm=norm,
            target_bound=float(self.target_bound),
            fit_intercept=self.fit_intercept,
            aggregation=self.aggregation,
        )

    def _delta(self, n_units: int) -> float:
        return super()._delta(n_units)

    def _reserved(self, schedule, sizes):
        from tacit.estimators._private import open_ledger
        delta = self._delta(sizes.n_rows)
        return open_ledger(self.ledger, float(self.epsilon), delta).reserve(
            schedule.events(Unit.ROW), unit=Unit.ROW, adjacency=schedule.adjacency, data=self.data, delta=delta, label=type(self).__name__)

    def _statements(self, schedule, billboard, sizes):
        return {"privacy_": Statement.of_run(billboard, unit=Unit.ROW, adjacency=schedule.adjacency, delta=self._delta(sizes.n_rows), curator=schedule.trust(Unit.ROW), n_units=sizes.n_rows)}


class SharedMomentsRegressor(MultiTaskRegressor, _SharedMoments):
    def __init__(self, epsilon=1.0, *, delta="auto", mechanism="auto", aggregation="untrusted", row_norm="auto", target_bound=1.0, fit_intercept=True, ledger=None, data=None, random_state=None, engine="local", progress=None, unknown_task="error"):
        self.epsilon=epsilon; self.delta=delta; self.mechanism=mechanism; self.aggregation=aggregation; self.row_norm=row_norm; self.target_bound=target_bound; self.fit_intercept=fit_intercept; self.ledger=ledger; self.data=data; self.random_state=random_state; self.engine=engine; self.progress=progress; self.unknown_task=unknown_task


class SharedMomentsClassifier(MultiTaskClassifier, _SharedMoments):
    def __init__(self, epsilon=1.0, *, delta="auto", mechanism="auto", aggregation="untrusted", row_norm="auto", fit_intercept=True, ledger=None, data=None, random_state=None, engine="local", progress=None, unknown_task="error"):
        self.epsilon=epsilon; self.delta=delta; self.mechanism=mechanism; self.aggregation=aggregation; self.row_norm=row_norm; self.fit_intercept=fit_intercept; self.ledger=ledger; self.data=data; self.random_state=random_state; self.engine=engine; self.progress=progress; self.unknown_task=unknown_task
