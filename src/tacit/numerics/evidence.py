"""What a task says about candidate priors, and the model it makes of their posterior means.

The message is a vector over a public grid: how well each candidate explains the task's targets.
At home the task weighs the candidates by its own evidence *and* by what all tasks together said
(public log-weights), with its single-task fit as one more candidate. Nothing is picked: a pick is
only as good as the release behind it, an average degrades gently as the noise grows.
"""

from __future__ import annotations

import typing

import numpy as np
from scipy.special import expit, logsumexp

from tacit._types import Array
from tacit.numerics.hierarchical import Candidates, Frame
from tacit.numerics.local_fit import LocalFit

__all__ = ["TasksUnderPriors", "personal_models"]


class TasksUnderPriors(typing.Protocol):
    """Tasks of either loss: `SquaredTasks` or `LogisticTasks`."""

    @property
    def frame(self) -> Frame:
        """The coordinates of models."""
        ...

    def scores(self, mean: Array, slope: float, level: float) -> Array:
        """Return whitened scores (m, p) of the mean."""
        ...

    def evidence(self, candidates: Candidates) -> Array:
        """Return log-evidence (m, size)."""
        ...

    def averaged(self, candidates: Candidates, log_weights: Array) -> tuple[Array, Array]:
        """Return models (m, p) averaged by evidence × weight, and the logarithm of its sum (m,)."""
        ...

    def doubted(
        self,
        odds: Array,
        models: Array,
        candidates: Candidates,
        log_weights: Array,
        *,
        most: float = np.inf,
    ) -> Array:
        """Return log-odds (m,) for the models, less where a task's own rows speak against them."""
        ...


def personal_models(
    tasks: TasksUnderPriors,
    shared: Candidates,
    alone: Candidates,
    log_weights: Array,
    own: LocalFit,
    *,
    most: float = np.inf,
) -> LocalFit:
    """Return every task's model: the candidates' posterior means and the own fit, averaged.

    Parameters
    ----------
    shared : Candidates
        Priors learned from the releases.
    alone : Candidates
        Priors that use no release but the level; their share of the weight goes to ``own``.
    log_weights : (shared.size + alone.size,) array
        Public log-weights, the same for all tasks. Either group as a whole starts equal.
    own : LocalFit
        Single-task fits.
    most : float
        Of labels: how far log-odds for sharing count at all (`told_alone.doubted`).

    Guarantee: row i depends on task i's rows and on public arguments only.
    """
    pulled = log_weights[: shared.size] - np.log(shared.size)
    models, together = tasks.averaged(shared, pulled)
    free = tasks.evidence(alone) + log_weights[shared.size :] - np.log(alone.size)
    by_itself = logsumexp(free, axis=1)
    coef, offset = tasks.frame.model(models)
    odds = together - by_itself
    odds = tasks.doubted(odds, models, shared, pulled, most=most)
    share = expit(-odds)[:, None]
    return LocalFit(
        share * own.coef + (1 - share) * coef,
        share[:, 0] * own.intercept + (1 - share[:, 0]) * offset,
    )
