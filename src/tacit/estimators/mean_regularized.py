"""Personal models drawn to a shared mean."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from tacit._types import Array
from tacit.estimators._base import Learned, outputs
from tacit.estimators._hierarchical import HierarchicalEstimator
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import Sizes
from tacit.joint.mean import joint_mean, select_alpha
from tacit.privacy.ledger import Ledger
from tacit.privacy.statement import Statement
from tacit.protocols.hierarchical import HierarchicalProtocol, HierarchicalPublic
from tacit.protocols.mean_regularized import Centre, MeanRegularizedProtocol
from tacit.tasks import TaskSet, within_range

__all__ = ["MeanRegularizedClassifier", "MeanRegularizedRegressor"]

_ALPHAS = np.logspace(-1, 4, 11)
# Task means differ more than slopes do: the intercept's deviation is penalised 9 times less.
_INTERCEPT = 3.0


class _MeanRegularized(HierarchicalEstimator):
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        alpha: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
        n_rounds: int | str = "auto",
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
        self.alpha = alpha
        self.mechanism = mechanism
        self.clip = clip
        self.n_rounds = n_rounds
        self.fit_intercept = fit_intercept
        self.intervals = intervals
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _protocol(self, sizes: Sizes) -> HierarchicalProtocol | MeanRegularizedProtocol:
        if self.clip == self.alpha == self.n_rounds == "auto":
            return self._hierarchical(sizes, pattern="mean")
        return MeanRegularizedProtocol(
            loss=self._loss,
            n_tasks=sizes.n_tasks,
            n_features=sizes.n_features,
            n_outputs=sizes.n_outputs,
            n_turns=1 if self.n_rounds == "auto" else int(self.n_rounds),
            clip=None if self.clip == "auto" else float(self.clip),
            alpha="auto" if self.alpha == "auto" else float(self.alpha),
            fit_intercept=self.fit_intercept,
        )

    def _read_public(self, public: HierarchicalPublic | Centre, sizes: Sizes) -> dict[str, Any]:
        if isinstance(public, HierarchicalPublic):
            return self._shared_model(public, sizes)
        if self.clip == "auto":
            return {}
        return {"shared_coef": public.value[:, :-1], "shared_intercept": public.value[:, -1]}

    def _learn_open(self, tasks: TaskSet, targets: Array) -> Learned:
        """Solve for all models and their mean exactly, on features of pooled unit variance."""
        tasks = within_range(tasks)
        X = tasks.X.astype(np.float64, copy=False)
        centre = X.mean(axis=0) if self.fit_intercept else np.zeros(X.shape[1])
        spread = X.std(axis=0)
        spread = np.where(spread > 1e-12 * np.abs(X).max(initial=1e-300), spread, 1.0)
        rows = (X - centre) / spread
        if self.fit_intercept:
            rows = np.hstack([rows, np.full((len(X), 1), _INTERCEPT)])
        models, means = [], []
        for output in outputs(tasks.replace(X=rows), targets):
            level = 0.0
            if self._loss.name == "squared" and self.fit_intercept:
                values = np.asarray(output.y)
                level = float(values.mean())
                output = output.replace(y=values - level)
            alpha = (
                select_alpha(output, self._loss, _ALPHAS)
                if self.alpha == "auto"
                else float(self.alpha)
            )
            fit = joint_mean(output, self._loss, alpha)
            unscaled = np.vstack([fit.W, fit.mean])
            coef = unscaled[:, : len(spread)] / spread
            intercept = level - coef @ centre
            if self.fit_intercept:
                intercept = intercept + _INTERCEPT * unscaled[:, -1]
            models.append(np.column_stack([coef[:-1], intercept[:-1]]))
            means.append(np.append(coef[-1], intercept[-1]))
        W, mean = np.stack(models, axis=1), np.stack(means)
        return Learned(
            coef=W[..., :-1],
            intercept=W[..., -1],
            statement=Statement.non_private(n_units=tasks.n_tasks),
            shared_coef=mean[:, :-1],
            shared_intercept=mean[:, -1],
        )


class MeanRegularizedRegressor(MultiTaskRegressor, _MeanRegularized):
    """Ridge regressions drawn to a shared mean.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget for one whole task; ``float("inf")`` solves the joint problem exactly,
        without privacy, on features scaled to unit variance over all rows.
    delta : "auto" or float
    alpha : "auto" or float
        Strength of the pull in units of the summed loss. "auto" is learned: by 5-fold
        cross-validation over all tasks at ``epsilon=inf``, from released evidence in private fits.
        A number means features of unit variance over all rows at ``epsilon=inf`` and features as
        they are in private fits, where it holds as soon as the released mean stands out of its
        noise (until then tasks learn on their own).
    mechanism : "auto", "gaussian" or "gamma-vector"
    clip : "auto" or float
        A number is the public radius of an update, w_i − centre.
    n_rounds : int or "auto"
        Releases of the mean; the budget is divided among them.

    With alpha, clip and n_rounds all "auto" the mean is that of the hierarchical prior: slopes and
    intercept, their strengths and all scales are learned from some 20 releases, and where noise
    is so loud that nothing could be told from it nothing is released or spent. Where any of them
    is given, tasks send directions of models (updates, with a clip) and are pulled to their mean.
    fit_intercept : bool, default True
    intervals : bool, default False
        Keep what ``predict(…, return_std=True)`` needs: (d + 1)² numbers a task, computed at home,
        private to the task like its model. Regressors only.
    ledger, data, random_state, engine, progress, unknown_task
        See :class:`tacit.estimators.PrivateEstimator`.

    Guarantee: (ε, δ) joint differential privacy for every task under replace-one, against all other
    tasks together; the curator is trusted. Proofs in
    :class:`tacit.protocols.hierarchical.HierarchicalProtocol` and
    :class:`tacit.protocols.mean_regularized.MeanRegularizedProtocol`.
    """


class MeanRegularizedClassifier(MultiTaskClassifier, _MeanRegularized):
    """Logistic regressions drawn to a shared mean.

    Parameters and guarantee are those of :class:`MeanRegularizedRegressor`.
    """
