"""Personal models drawn to a shared mean."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.estimators._base import Learned, MultiTaskClassifier, MultiTaskRegressor, outputs
from tacit.estimators._private import PrivateEstimator
from tacit.numerics.joint_mean import joint_mean, select_alpha
from tacit.privacy.accounting import power, scale_gaussian, scale_pure
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import GammaVector, Gaussian, Mechanism
from tacit.privacy.statement import Statement
from tacit.protocols.mean_regularized import MeanRegularizedProtocol
from tacit.tasks import TaskSet, within_range

__all__ = ["MeanRegularizedClassifier", "MeanRegularizedRegressor"]

_ALPHAS = np.logspace(-1, 4, 11)
# Task means differ more than slopes do: the intercept's deviation is penalised 9 times less.
_INTERCEPT = 3.0


class _MeanRegularized(PrivateEstimator):
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        alpha: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
        n_rounds: int = 1,
        fit_intercept: bool = True,
        ledger: Ledger | str | PathLike[str] | None = None,
        data: str | None = None,
        random_state: Any = None,
        engine: str = "local",
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
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.alpha != "auto":
            _check.positive("alpha", self.alpha, remedy='use alpha="auto" or a ridge strength')
        if self.clip != "auto":
            _check.positive("clip", self.clip, remedy='use clip="auto" or a public radius')
        _check.one_of("mechanism", self.mechanism, ("auto", "gaussian", "gamma-vector"))
        _check.positive_integer("n_rounds", self.n_rounds, remedy="use at least one round")

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        return (
            self._learn_private(tasks, targets)
            if self._private
            else self._learn_open(tasks, targets)
        )

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

    def _mechanisms(self, n_tasks: int) -> tuple[Mechanism, ...]:
        clip = None if self.clip == "auto" else float(self.clip)
        limit = MeanRegularizedProtocol.limit(clip)
        sensitivity = limit.sensitivity("l2", MeanRegularizedProtocol.adjacency)
        shares, delta = power(self.n_rounds), self._delta(n_tasks)
        if delta > 0 and self.mechanism != "gamma-vector":
            multipliers = scale_gaussian(shares, self.epsilon, delta)
            return tuple(Gaussian(sensitivity, float(sigma)) for sigma in multipliers)
        budgets = scale_pure(shares, self.epsilon, delta)
        return tuple(GammaVector(sensitivity, float(epsilon)) for epsilon in budgets)

    def _learn_private(self, tasks: TaskSet, targets: Array) -> Learned:
        protocol = MeanRegularizedProtocol(
            loss=self._loss,
            n_tasks=tasks.n_tasks,
            mechanisms=self._mechanisms(tasks.n_tasks),
            n_outputs=targets.shape[1],
            clip=None if self.clip == "auto" else float(self.clip),
            alpha="auto" if self.alpha == "auto" else float(self.alpha),
            fit_intercept=self.fit_intercept,
        )
        outcome, statement, billboard = self._run(
            protocol,
            tasks,
            assumptions=("the number of tasks and the features are public",),
        )
        centre = outcome.state.centre if self.clip != "auto" else None
        return Learned(
            coef=outcome.models[..., :-1],
            intercept=outcome.models[..., -1],
            statement=statement,
            shared_coef=None if centre is None else centre[:, :-1],
            shared_intercept=None if centre is None else centre[:, -1],
            history=outcome.history,
            billboard=billboard,
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
        Strength of the pull in units of the summed loss; "auto" by cross-validation: 5-fold over
        all tasks at ``epsilon=inf``, leave-one-out at home, at no cost, in private fits. A number
        means features of unit variance over all rows at ``epsilon=inf`` and features as they are
        in private fits, where it holds as soon as the released mean stands out of its noise
        (until then tasks learn on their own).
    mechanism : "auto", "gaussian" or "gamma-vector"
    clip : "auto" or float
        "auto" sends the direction of each model; a number is the public radius of an update.
    n_rounds : int, default 1
        Releases; the budget is divided among them.
    fit_intercept : bool, default True
    ledger, data, random_state, engine, progress, unknown_task
        See :class:`tacit.estimators.PrivateEstimator`.

    Guarantee: (ε, δ) joint differential privacy for every task under replace-one, against all other
    tasks together; the curator is trusted. Proof in
    :class:`tacit.protocols.mean_regularized.MeanRegularizedProtocol`.
    """


class MeanRegularizedClassifier(MultiTaskClassifier, _MeanRegularized):
    """Logistic regressions drawn to a shared mean.

    Parameters and guarantee are those of :class:`MeanRegularizedRegressor`.
    """
