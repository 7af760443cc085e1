"""A prior learned from all tasks, a personal fit under it."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.estimators._base import Learned, MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._private import PrivateEstimator
from tacit.privacy.accounting import scale_gaussian, scale_pure
from tacit.privacy.ledger import Ledger
from tacit.privacy.mechanisms import (
    Exact,
    Gaussian,
    Laplace,
    Mechanism,
    SymmetricGaussian,
    TwoSidedWishart,
)
from tacit.privacy.unit import Adjacency
from tacit.protocols.bordered_moment import moment_bound
from tacit.protocols.shared_prior import ROUND_SHARES, SharedPriorProtocol, ballot_bound
from tacit.tasks import TaskSet

__all__ = ["SharedPriorClassifier", "SharedPriorRegressor"]

_MECHANISMS = ("auto", "gaussian", "two-sided-wishart")


class _SharedPrior(PrivateEstimator):
    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float | str = "auto",
        mechanism: str = "auto",
        clip: float | str = "auto",
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
        self.mechanism = mechanism
        self.clip = clip
        self.fit_intercept = fit_intercept
        self.ledger = ledger
        self.data = data
        self.random_state = random_state
        self.engine = engine
        self.progress = progress
        self.unknown_task = unknown_task

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.clip != "auto":
            _check.positive("clip", self.clip, remedy='use clip="auto" or a public radius')
        _check.one_of("mechanism", self.mechanism, _MECHANISMS)
        if self.delta == 0 and self.mechanism == "gaussian":
            raise InvalidInput(
                'mechanism="gaussian": has no pure ε; use delta > 0 or mechanism="auto"'
            )

    def _mechanisms(self, n_rounds: int, n_tasks: int) -> tuple[Mechanism, ...]:
        """Return the mechanisms of the moment and of the ballots, within (ε, δ) together."""
        if not self._private:
            return (Exact(),) * n_rounds
        shares, delta = ROUND_SHARES[:n_rounds], self._delta(n_tasks)
        moment, ballot, replaced = moment_bound(), ballot_bound(), Adjacency.REPLACE_ONE
        if delta > 0 and self.mechanism != "two-sided-wishart":
            first, *others = (float(s) for s in scale_gaussian(shares, self.epsilon, delta))
            reach = ballot.sensitivity("l2", replaced)
            return (
                SymmetricGaussian(moment.sensitivity("frobenius", replaced), first),
                *(Gaussian(reach, multiplier) for multiplier in others),
            )
        first, *others = (float(e) for e in scale_pure(shares, self.epsilon, delta))
        reach = ballot.sensitivity("l1", replaced)
        return (
            TwoSidedWishart(moment.sensitivity("trace", replaced), first),
            *(Laplace(reach, epsilon) for epsilon in others),
        )

    def _learn(self, tasks: TaskSet, targets: Array) -> Learned:
        n_outputs = targets.shape[1]
        protocol = SharedPriorProtocol(
            loss=self._loss,
            n_tasks=tasks.n_tasks,
            mechanisms=(),
            n_outputs=n_outputs,
            clip=None if self.clip == "auto" else float(self.clip),
            fit_intercept=self.fit_intercept,
            share_intercept=self.unknown_task == "shared" and self.fit_intercept,
        )
        protocol = replace(protocol, mechanisms=self._mechanisms(protocol.n_rounds, tasks.n_tasks))
        outcome, statement, billboard = self._run(
            protocol,
            tasks,
            assumptions=("the number of tasks and the features are public",),
        )
        shared_coef, shared_intercept = None, None
        if self.unknown_task == "shared":
            mean, levels = outcome.state.mean, outcome.state.intercepts
            shared_coef = np.zeros((n_outputs, tasks.n_features)) if mean is None else mean
            shared_intercept = np.zeros(n_outputs) if levels is None else levels
        return Learned(
            coef=outcome.models[..., :-1],
            intercept=outcome.models[..., -1],
            statement=statement,
            shared_coef=shared_coef,
            shared_intercept=shared_intercept,
            history=outcome.history,
            billboard=billboard,
        )


class SharedPriorRegressor(MultiTaskRegressor, _SharedPrior):
    """Ridge regression of every task under a Gaussian prior learned from all tasks.

    Parameters
    ----------
    epsilon : float, default 1.0
        Privacy budget; ``float("inf")`` learns together without privacy.
    delta : "auto" or float
        "auto" is min(1e-5, 1/m²) for m tasks; 0 asks for pure ε.
    mechanism : "auto", "gaussian" or "two-sided-wishart"
        Noise of the second moment; "auto" is Gaussian where δ > 0. The pure one goes with Laplace
        noise on the ballots.
    clip : "auto" or float
        "auto" sends directions of models and settles their length by a ballot. A number is a
        public radius of a model: no ballot is needed then.
    fit_intercept : bool, default True
        Fit an unpenalised intercept for each task, at home.
    ledger : Ledger, path or None
        Where the spend is recorded before anything is released.
    data : str or None
        The ledger's name for these rows; None counts on every line. See `Ledger`.
    random_state : int or None
        For tests only: a value makes the noise repeatable and the statement say "not private".
    engine : "local"
    progress : callable(round, n_rounds) or None
    unknown_task : "error" or "shared"
        "shared" spends a further small share of the budget on a ballot on the intercept, and
        answers tasks it has not seen with the released mean model.

    Features should have comparable, publicly known scales (percentages as fractions, say): noise
    is the same in every direction of the model.

    Guarantee: (ε, δ) joint differential privacy with the task as unit, under replace-one; see
    `tacit.protocols.shared_prior.SharedPriorProtocol`.
    """


class SharedPriorClassifier(MultiTaskClassifier, _SharedPrior):
    """Logistic regression of every task under a Gaussian prior learned from all tasks.

    Parameters are those of `SharedPriorRegressor`. More than two classes are learned one against
    the rest; a task's models of all classes are one message.

    Guarantee: (ε, δ) joint differential privacy with the task as unit, under replace-one; see
    `tacit.protocols.shared_prior.SharedPriorProtocol`.
    """
