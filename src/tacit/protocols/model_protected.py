"""Model-protected learning: tasks share the second moment of their models, and only that.

The framework of Liang et al. (2020, Algorithm 1) in sound form. Every round each task sends its
model; the curator releases Σ = Σ_i w_i w_iᵀ (or its diagonal) with noise; everybody reads off the
same `Shape` and each task fits its own rows again under it. Up: k·d numbers a task and round (the
models of k outputs); down: d² numbers (d for the diagonal), the same for all tasks.

The update is that of alternating minimisation for the trace norm (or the ℓ2,1 norm), which the
paper's framework covers: with D the shape, ‖W‖_* = min_D ½ Σ_i w_iᵀ D⁻¹ w_i + ½ tr D. As whatever a
task does at home is free, it solves its part to the end instead of taking one gradient step a
round, and finds the strength of the pull by its own leave-one-out errors; so one release, with all
of the budget, goes further than many. `tacit.protocols.proximal_protected` has the paper's
iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.local_fit import local_fit
from tacit.numerics.threads import one_blas_thread
from tacit.privacy.bounds import SecondMoment, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import (
    Gaussian,
    Laplace,
    Mechanism,
    SymmetricGaussian,
    TwoSidedWishart,
)
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.shrinkage import (
    Coordinates,
    Semicircle,
    Shape,
    WishartDifference,
    shrink_diagonal,
    shrink_spectrum,
)
from tacit.tasks import TaskSet, one_vs_rest

if TYPE_CHECKING:
    from tacit.protocols.row_protection import RowProtection

__all__ = [
    "ModelProtectedProtocol",
    "ModelProtectedState",
    "Moment",
    "candidate_priors",
    "fitted_under",
    "moment_bound",
    "moment_mechanism",
]

# What the floor of the released shape keeps in a prior. Most of the floor is the estimation error
# of the models that were sent, so little of it belongs to the models themselves.
_FLOOR_SHARES = (0.04, 0.01)


def moment_bound(clip: float | None, *, diagonal: bool) -> SecondMoment:
    """Return the bound of a message: directions for ``clip=None``, else a clip at that radius."""
    if clip is None:
        return SecondMoment(1.0, inner=VectorNormalise(1.0), diagonal=diagonal)
    return SecondMoment(clip, inner=VectorClip(clip), diagonal=diagonal)


def moment_mechanism(name: str, bound: SecondMoment, strength: float) -> Mechanism:
    """Return the mechanism of one release of the bounded moment.

    ``strength`` is the noise multiplier of Gaussian noise and the ε of the pure mechanisms.

    Guarantee: the sensitivities are those of `SecondMoment` under replace-one-task.
    """
    adjacency = Adjacency.REPLACE_ONE
    if name == "gaussian" and bound.diagonal:
        return Gaussian(bound.sensitivity("l2", adjacency), strength)
    if name == "gaussian":
        return SymmetricGaussian(bound.sensitivity("frobenius", adjacency), strength)
    if name == "laplace":
        return Laplace(bound.sensitivity("l1", adjacency), strength)
    if name == "two-sided-wishart":
        return TwoSidedWishart(bound.sensitivity("trace", adjacency), strength)
    from tacit.privacy.published import WishartPublished

    return WishartPublished(strength, bound.radius)


@dataclass(frozen=True)
class Moment:
    """The releases of all rounds so far, averaged by precision; public."""

    total: Array | float = 0.0
    precision: float = 0.0

    def plus(self, release: Array, scale: float) -> Moment:
        """Return the moment with one more release of that noise scale."""
        weight = scale**-2
        return Moment(self.total + weight * np.asarray(release), self.precision + weight)

    @property
    def mean(self) -> Array:
        """Average release."""
        return np.asarray(self.total / self.precision)

    @property
    def scale(self) -> float:
        """Noise scale of the average."""
        return float(self.precision**-0.5)

    def shape(self, mechanism: Mechanism, *, n_tasks: int, trace: float | None) -> Shape:
        """Return what stands out of the noise.

        Averages of Laplace or Wishart noise are given the law of a single draw of the same
        variance, whose tails are heavier.

        Parameters
        ----------
        trace : float or None
            Sum of the messages' squared norms where it is public; else it is read off the release.
        """
        mean, scale = self.mean, self.scale
        d = mean.shape[0]
        if trace is None:
            read = float(mean.sum() if mean.ndim == 1 else np.trace(mean))
            trace = max(read, 0.0) or 1e-12
        if mean.ndim == 1:
            noise = Coordinates(scale, heavy=isinstance(mechanism, Laplace))
            return shrink_diagonal(mean, noise, trace=trace)
        if isinstance(mechanism, TwoSidedWishart):
            law = WishartDifference.of_wishart(scale, d)
            return shrink_spectrum(mean, law, trace=trace, n_tasks=n_tasks)
        return shrink_spectrum(mean, Semicircle.of_gaussian(scale, d), trace=trace, n_tasks=n_tasks)


def candidate_priors(shape: Shape | None) -> Sequence[Mapping[str, Array]]:
    """Return the priors a task weighs: the whole shape, and its leading eigenvector alone.

    A flat shape gives the plain single-task fit, nothing else.
    """
    if shape is None or shape.flat:
        return ({},)
    if shape.vectors is None:
        # Posterior means are uncertain in every feature: the whole floor, and falling back, stay.
        shares = (1.0, _FLOOR_SHARES[0])
        return ({}, *({"prior_covariance": shape.covariance(share)} for share in shares))
    covariances = [shape.covariance(share) for share in _FLOOR_SHARES]
    if int((shape.excess > 0).sum()) > 1:
        covariances.append(shape.leading(1).covariance(_FLOOR_SHARES[0]))
    return [{"prior_covariance": covariance} for covariance in covariances]


def fitted_under(
    outputs: Sequence[TaskSet], loss: Loss, shape: Shape | None, *, fit_intercept: bool
) -> Array:
    """Return every task's own fit under a shape, (m, k, d + 1), the intercept last.

    Guarantee: row i depends on task i's rows and the (public) shape only.
    """
    priors = candidate_priors(shape)
    models = np.empty((outputs[0].n_tasks, len(outputs), outputs[0].n_features + 1))
    for number, tasks in enumerate(outputs):
        fit = local_fit(tasks, loss, intercept=fit_intercept, priors=priors)
        models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
    return models


@dataclass(frozen=True)
class ModelProtectedState:
    """What a stack of tasks keeps: rows by output, models (m, k, d + 1), the public moment."""

    outputs: tuple[TaskSet, ...]
    models: Array
    moment: Moment
    shape: Shape | None = None
    messages: Array | None = None  # fixed from the start where rows are protected too


@dataclass(frozen=True)
class ModelProtectedProtocol:
    """The conversation; ``mechanisms`` are one a round, calibrated by the caller.

    Parameters
    ----------
    n_tasks : int
        Public number of tasks.
    clip : float or None
        Public radius of a model; None sends directions, which need no scale.
    diagonal : bool
        Release the d squared feature norms only (group-sparse) instead of the matrix (low-rank).
    rows : RowProtection or None
        Protect every row as well: messages then come from noised row gradients.

    Guarantee: joint DP with the task as unit, under replace-one. The curator sees bounded models
    only; a replaced task moves Σ by at most √2K² in Frobenius norm and 2K² in trace norm, whatever
    it computed before, so each release costs its mechanism's event and rounds compose. Shape,
    priors and personal models are functions of the releases and the task's own rows (billboard
    lemma), including the choice of strength. The curator is trusted with the bounded models.
    """

    loss: Loss
    n_tasks: int
    mechanisms: tuple[Mechanism, ...]
    n_outputs: int = 1
    clip: float | None = None
    diagonal: bool = False
    fit_intercept: bool = True
    rows: RowProtection | None = None
    unit: Unit = Unit.TASK
    adjacency: Adjacency = Adjacency.REPLACE_ONE

    @property
    def n_rounds(self) -> int:
        """Number of releases."""
        return len(self.mechanisms)

    def start(self, tasks: TaskSet) -> ModelProtectedState:
        """Fit every task on its own."""
        outputs = one_vs_rest(tasks, self.n_outputs)
        messages = None if self.rows is None else self.rows.messages(outputs, self.loss)
        return ModelProtectedState(outputs, self.fitted(outputs, None), Moment(), None, messages)

    def speak(self, state: ModelProtectedState, t: int) -> Array:  # noqa: ARG002
        """Say the personal model without its intercept, all outputs as one message."""
        return state.models[..., :-1] if state.messages is None else state.messages

    def bound(self, messages: Array) -> Array:
        """Limit every task's message."""
        return moment_bound(self.clip, diagonal=self.diagonal)(messages)

    def aggregate(self, messages: Array) -> Array:
        """Sum the outer products, or squares, of the bounded models."""
        with one_blas_thread():  # many small products: threads would only wait for each other
            return moment_bound(self.clip, diagonal=self.diagonal).aggregate(messages)

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of round ``t``."""
        return self.mechanisms[t]

    def listen(self, state: ModelProtectedState, release: Array, t: int) -> ModelProtectedState:
        """Read the shape off all releases so far and fit again under it."""
        moment = state.moment.plus(release, self.mechanisms[t].scale)
        trace = float(self.n_tasks) if self.clip is None else None
        shape = moment.shape(self.mechanisms[t], n_tasks=self.n_tasks, trace=trace)
        models = state.models if shape.flat and t == 0 else self.fitted(state.outputs, shape)
        return replace(state, models=models, moment=moment, shape=shape)

    def finish(self, state: ModelProtectedState) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        return state.models

    def fitted(self, outputs: Sequence[TaskSet], shape: Shape | None) -> Array:
        """Return every task's own fit under the shape, (m, k, d + 1)."""
        return fitted_under(outputs, self.loss, shape, fit_intercept=self.fit_intercept)
