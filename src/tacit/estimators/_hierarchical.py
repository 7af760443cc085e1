"""The hierarchical prior as the default of estimators that share a mean, or a mean and a shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit.errors import InvalidInput
from tacit.estimators._private import PrivateEstimator, Sizes
from tacit.privacy.accounting.gaussian import gaussian_mu
from tacit.privacy.mechanisms import MECHANISMS
from tacit.protocols.hierarchical import HierarchicalProtocol, HierarchicalPublic, Loudness

__all__ = ["HierarchicalEstimator"]


class HierarchicalEstimator(PrivateEstimator):
    """An estimator that learns a `HierarchicalProtocol` unless its parameters ask otherwise."""

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
