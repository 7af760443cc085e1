"""A prior learned from all tasks, a personal fit under it."""

from __future__ import annotations

from os import PathLike
from typing import Any, ClassVar

import numpy as np

from tacit import _check
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._hierarchical import HierarchicalEstimator
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import Sizes
from tacit.privacy.ledger import Ledger
from tacit.protocols.hierarchical import HierarchicalProtocol, HierarchicalPublic
from tacit.protocols.shared_prior import SharedPriorProtocol, SharedPriorPublic

__all__ = ["SharedPriorClassifier", "SharedPriorRegressor"]


class _SharedPrior(HierarchicalEstimator):
    _parameter_constraints: ClassVar[Constraints] = {
        "mechanism": [rule(_check.one_of, choices=("auto", "gaussian", "two-sided-wishart"))],
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
        fit_intercept: bool = True,
        intervals: bool = False,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: Any = "local",
        progress: Any = None,
        unknown_task: str = "error",
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.intervals = intervals
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()

    def _protocol(self, sizes: Sizes) -> HierarchicalProtocol | SharedPriorProtocol:
        if self.clip == "auto":
            return self._hierarchical(sizes, pattern="any")
        return SharedPriorProtocol(
            loss=self._loss,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_outputs=sizes.n_outputs,
            clip=float(self.clip),
            fit_intercept=self.fit_intercept,
            share_intercept=self.unknown_task == "shared" and self.fit_intercept,
        )

    def _read_public(
        self, public: HierarchicalPublic | SharedPriorPublic, sizes: Sizes
    ) -> dict[str, Any]:
        if isinstance(public, HierarchicalPublic):
            return self._shared_model(public, sizes)
        if self.unknown_task != "shared":
            return {}
        mean, levels = public.mean, public.intercepts
        empty = np.zeros((sizes.n_outputs, sizes.n_features))
        return {
            "shared_coef": empty if mean is None else mean,
            "shared_intercept": np.zeros(sizes.n_outputs) if levels is None else levels,
        }


class SharedPriorRegressor(MultiTaskRegressor, _SharedPrior):
    """Ridge regression of every task under a Gaussian prior learned from all tasks.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget; ``float("inf")`` learns together without privacy.
    delta : "auto" or float
        "auto" is min(1e-5, 1/m²) for m tasks; 0 asks for pure ε.
    mechanism : "auto", "gaussian" or "two-sided-wishart"
        "auto" is Gaussian where δ > 0. The pure one is the noise of the second moment, and goes
        with gamma-vector noise on everything else.
    clip : "auto" or float
        "auto" learns the hierarchical prior: mean, covariance, level and strengths of slopes and
        intercept, in some 20 releases, with no scale known beforehand. A number is the public
        radius of a model: tasks then send their models once, and the prior is read off their
        second moment.
    fit_intercept : bool, default True
    intervals : bool, default False
        Keep what ``predict(…, return_std=True)`` needs: (d + 1)² numbers a task, computed at home,
        private to the task like its model. Regressors only.
    ledger : Ledger, path or None
        Where the spend is recorded before anything is released.
    data : str or None
        The ledger's name for these rows; None counts on every line. See `Ledger`.
    random_state : int or None
        For tests only: a value makes the noise repeatable and the statement say "not private".
    engine : "local"
    progress : callable(round, n_rounds) or None
    unknown_task : "error" or "shared"
        "shared" answers tasks it has not seen with the released mean model.

    Where noise is so loud that nothing could be told from it (few tasks, a small budget), nothing
    is released or spent, and every task gets its single-task model.

    Guarantee: (ε, δ) joint differential privacy with the task as unit, under replace-one; see
    `tacit.protocols.hierarchical.HierarchicalProtocol` and, for a public clip,
    `tacit.protocols.shared_prior.SharedPriorProtocol`.
    """


class SharedPriorClassifier(MultiTaskClassifier, _SharedPrior):
    """Logistic regression of every task under a Gaussian prior learned from all tasks.

    Parameters are those of `SharedPriorRegressor`. More than two classes are learned one against
    the rest; what a task says of all classes is one message. The guarantee is the regressor's.
    """
