"""The hierarchical prior as the default of estimators that share a mean, or a mean and a shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.errors import InvalidInput
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.estimators._weighted import WeightedRows
from tacit.numerics.spread import Spread, spread_alone
from tacit.privacy.accounting.gaussian import gaussian_mu
from tacit.privacy.mechanisms import MECHANISMS
from tacit.protocols.hierarchical import HierarchicalProtocol, HierarchicalPublic, Loudness
from tacit.tasks import TaskSet

__all__ = ["HierarchicalEstimator", "HierarchicalPrior"]


class HierarchicalPrior(PrivateEstimator):
    """What estimators share that learn a `HierarchicalProtocol`."""

    fit_intercept: bool

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.delta == 0 and self.mechanism == "gaussian":
            raise InvalidInput(
                "mechanism='gaussian': has no pure ε; use delta > 0 or mechanism='auto'"
            )

    def _hierarchical(self, sizes: Sizes, *, pattern: str) -> HierarchicalProtocol:
        return HierarchicalProtocol(
            loss=self._loss,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_outputs=sizes.n_outputs,
            loudness=self._loudness(sizes),
            pattern=pattern,
            fit_intercept=self.fit_intercept,
        )

    def _loudness(self, sizes: Sizes) -> Loudness:
        epsilon, delta = float(self.epsilon), self._run_delta(sizes)
        named = None if self.mechanism == "auto" else MECHANISMS[self.mechanism].family
        pure = delta == 0 or named == "pure"
        if math.isinf(epsilon):
            return Loudness(0.0, pure)
        budget = epsilon if pure else gaussian_mu(epsilon, delta)
        return Loudness(2 / (budget * sizes.n_tasks), pure)

    @staticmethod
    def _shared_model(public: HierarchicalPublic, sizes: Sizes) -> dict[str, Any]:
        """Return the released mean models for tasks that are not known; zero if there is none."""
        coef, intercept = public.model or (
            np.zeros((sizes.n_outputs, sizes.n_features)),
            np.zeros(sizes.n_outputs),
        )
        return {"shared_coef": coef, "shared_intercept": intercept}


class HierarchicalEstimator(WeightedRows, HierarchicalPrior):
    """An estimator that learns a `HierarchicalProtocol` unless its parameters ask otherwise."""

    intervals: bool

    def _spread(self, tasks: TaskSet) -> Spread:
        """Return the spread under the learned prior; where nobody shared, under the task's own."""
        found = None
        if self._sizes is not None:
            protocol, public = self._public_state(self.billboard_)
            if isinstance(protocol, HierarchicalProtocol):
                found = protocol.spread(tasks, public)
        return found or spread_alone(tasks, intercept=self.fit_intercept)

    def _refuse_weights(self) -> None:
        self._check_parameters()
        usual = isinstance(self._protocol(Sizes(2, 1)), HierarchicalProtocol)
        open_ = not self._private and type(self)._learn_open is not PrivateEstimator._learn_open
        if not usual or open_:
            raise InvalidInput(
                f"sample_weight: {type(self).__name__} weighs rows in its usual conversation only; "
                "leave out clip, alpha and n_rounds, and give a finite epsilon"
            )
