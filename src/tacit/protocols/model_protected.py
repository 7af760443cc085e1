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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.local_fit import FEW_ROWS, LocalFit, local_fit, local_fits
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.prior import Prior
from tacit.privacy.bounds import SecondMoment, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.protocols._home import Outputs, Priors, joining
from tacit.protocols._row_protection import RowProtection
from tacit.protocols._shrinkage import Shape, shrink_diagonal, shrink_spectrum
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet, one_vs_rest

__all__ = [
    "ModelProtectedHome",
    "ModelProtectedProtocol",
    "Moment",
    "candidate_priors",
    "moment_bound",
    "moment_rounds",
]

# What the floor of the released shape keeps in a prior. Most of the floor is the estimation error
# of the models that were sent, so little of it belongs to the models themselves.
_FLOOR_SHARES = (0.04, 0.01)


def moment_bound(clip: float | None, *, diagonal: bool) -> SecondMoment:
    """Return the bound of a message: directions for ``clip=None``, else a clip at that radius."""
    if clip is None:
        return SecondMoment(1.0, inner=VectorNormalise(1.0), diagonal=diagonal)
    return SecondMoment(clip, inner=VectorClip(clip), diagonal=diagonal)


def moment_rounds(
    shares: tuple[float, ...], n_features: int, n_outputs: int, bound: SecondMoment
) -> tuple[Round, ...]:
    """Return one round per share, each of the bounded moment (or its diagonal)."""
    shape = (n_features,) if bound.diagonal else (n_features, n_features)
    what = "squared feature norms" if bound.diagonal else "second moment"
    return tuple(
        Round(
            what if len(shares) == 1 else f"{what} {number + 1}",
            bound,
            shape,
            message=(n_outputs, n_features),
            share=share,
        )
        for number, share in enumerate(shares)
    )


@dataclass(frozen=True)
class Moment:
    """The releases of all rounds so far, averaged by precision; public.

    ``shape`` is what stands out of the noise; None before the first release.
    """

    total: Array | float = 0.0
    precision: float = 0.0
    shape: Shape | None = None

    def plus(
        self, release: AnyArray, noise: Mechanism, *, n_tasks: int, trace: float | None
    ) -> Moment:
        """Return the moment with one more release.

        Averages of Laplace or Wishart noise are given the law of a single draw of the same
        variance, whose tails are heavier.

        Parameters
        ----------
        trace : float or None
            Sum of the messages' squared norms where it is public; else it is read off the release.
        """
        weight = noise.scale**-2 if noise.scale > 0 else 1.0
        total, precision = self.total + weight * np.asarray(release), self.precision + weight
        mean = np.asarray(total / precision)
        # Relative to one draw of this round's noise, the average has this deviation.
        factor = float((precision / weight) ** -0.5)
        if trace is None:
            read = float(mean.sum() if mean.ndim == 1 else np.trace(mean))
            trace = max(read, 0.0) or 1e-12
        if mean.ndim == 1:
            shape = shrink_diagonal(mean, noise.coordinates().scaled(factor), trace=trace)
        else:
            law = noise.spectrum(len(mean)).scaled(factor)
            shape = shrink_spectrum(mean, law, trace=trace, n_tasks=n_tasks)
        return Moment(total, precision, shape)


def candidate_priors(shape: Shape | None) -> Priors:
    """Return the priors a task weighs: none, the whole shape, and its leading eigenvector alone.

    A flat shape gives the plain single-task fit, nothing else. Falling back always stays: now and
    then noise passes for a direction.
    """
    if shape is None or shape.flat:
        return (Prior(),)
    if shape.vectors is None:
        # Posterior means are uncertain in every feature: the whole floor stays.
        shares = (1.0, _FLOOR_SHARES[0])
        return (Prior(), *(Prior(covariance=shape.covariance(share)) for share in shares))
    covariances = [shape.covariance(share) for share in _FLOOR_SHARES]
    if int((shape.excess > 0).sum()) > 1:
        covariances.append(shape.leading(1).covariance(_FLOOR_SHARES[0]))
    return (Prior(), *(Prior(covariance=covariance) for covariance in covariances))


@dataclass(frozen=True)
class ModelProtectedHome:
    """What a stack of tasks keeps: rows by output, own models (m, k, d + 1), protected messages."""

    outputs: Outputs
    own: Array
    support: Array  # (m, k), that own models have in leave-one-out
    messages: Array | None = None  # fixed once noised, where rows are protected too


@dataclass(frozen=True)
class ModelProtectedProtocol(Protocol[Moment, ModelProtectedHome]):
    """The conversation.

    Parameters
    ----------
    n_tasks, n_features, n_outputs : int
        Public sizes.
    shares : tuple of float
        Weights of the budget, one a round.
    clip : float or None
        Public radius of a model; None sends directions, which need no scale.
    diagonal : bool
        Release the d squared feature norms only (group-sparse) instead of the matrix (low-rank).
    rows : RowProtection or None
        Protect every row as well: messages then come from noised row gradients, in a first round
        that only the curator sees.

    Guarantee: joint DP with the task as unit, under replace-one. The curator sees bounded models
    only; a replaced task moves Σ by at most √2K² in Frobenius norm and 2K² in trace norm, whatever
    it computed before, so each release costs its mechanism's event and rounds compose. Shape,
    priors and personal models are functions of the releases and the task's own rows (billboard
    lemma), including the choice of strength. The curator is trusted with the bounded models.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    n_outputs: int = 1
    shares: tuple[float, ...] = (1.0,)
    clip: float | None = None
    diagonal: bool = False
    fit_intercept: bool = True
    rows: RowProtection | None = None

    def rounds(self) -> tuple[Round, ...]:
        """Return the moment's rounds, after the round that protects rows."""
        bound = moment_bound(self.clip, diagonal=self.diagonal)
        moments = moment_rounds(self.shares, self.n_features, self.n_outputs, bound)
        before = () if self.rows is None else (self.rows.round(self.n_features),)
        return (*before, *moments)

    def _protects(self, call: Call) -> bool:
        return self.rows is not None and call.round == 0

    def opening(self) -> Moment:
        """Nothing is known."""
        return Moment()

    def read(self, public: Moment, release: AnyArray, call: Call, noise: Mechanism) -> Moment:  # noqa: ARG002
        """Read the shape off all releases so far."""
        trace = float(self.n_tasks) if self.clip is None else None
        return public.plus(release, noise, n_tasks=self.n_tasks, trace=trace)

    def shown(self, public: Moment) -> Shared:
        """Show the spectrum of the moment, or the use of features."""
        return Shared() if public.shape is None else public.shape.shown()

    def start(self, rows: TaskSet, positions: IntArray) -> ModelProtectedHome:  # noqa: ARG002
        """Fit every task on its own."""
        outputs = one_vs_rest(rows, self.n_outputs)
        many = are_many(self.n_tasks, self.n_features)
        fits = local_fits(outputs, self.loss, intercept=self.fit_intercept, many=many)
        own = np.stack([np.column_stack([fit.coef, fit.intercept]) for fit in fits], axis=1)
        return ModelProtectedHome(outputs, own, np.stack([fit.support for fit in fits], axis=1))

    def memory(self, home: ModelProtectedHome) -> dict[str, Array]:
        """Return own models and messages."""
        kept = {"own": home.own, "support": home.support}
        return kept if home.messages is None else {**kept, "messages": home.messages}

    def resume(
        self,
        rows: TaskSet,
        positions: IntArray,  # noqa: ARG002
        memory: dict[str, Any],
    ) -> ModelProtectedHome:
        """Take own models and messages up again."""
        outputs = one_vs_rest(rows, self.n_outputs)
        own, support = memory["own"], memory["support"]
        return ModelProtectedHome(outputs, own, support, memory.get("messages"))

    def speak(
        self,
        home: ModelProtectedHome,
        public: Moment,
        call: Call,
        joined: AnyArray | None,
    ) -> tuple[ModelProtectedHome, Any]:
        """Say the personal model without its intercept, all outputs as one message."""
        if self.rows is not None and self._protects(call):
            return home, self.rows.gradients(home.outputs, self.loss)
        if home.messages is not None:
            return home, joining(home.messages, joined)
        return home, joining(self._models(home, public)[..., :-1], joined)

    def keep(self, home: ModelProtectedHome, release: Array, call: Call) -> ModelProtectedHome:
        """Keep the noised gradients: all that later messages are made of."""
        return replace(home, messages=release) if self._protects(call) else home

    def finish(self, home: ModelProtectedHome, public: Moment) -> Array:
        """Return models (m, k, d + 1), the intercept last."""
        return self._models(home, public)

    def _models(self, home: ModelProtectedHome, public: Moment) -> Array:
        return (
            home.own
            if public.shape is None or public.shape.flat
            else self.under(home, public.shape)
        )

    def under(self, home: ModelProtectedHome, shape: Shape) -> Array:
        """Return every task's models under a shape that stands out; of a few rows, its own.

        So few cannot tell by leave-one-out how far to follow a direction, and go wild along it.
        """
        models = np.empty_like(home.own)
        for number, rows in enumerate(home.outputs):
            own = home.own[:, number]
            fit = local_fit(
                rows,
                self.loss,
                intercept=self.fit_intercept,
                priors=candidate_priors(shape)[1:],
                beside=LocalFit(own[:, :-1], own[:, -1], home.support[:, number]),
                many=are_many(self.n_tasks, self.n_features),
            )
            models[:, number, :-1], models[:, number, -1] = fit.coef, fit.intercept
        few = home.outputs[0].counts <= FEW_ROWS
        return np.where(few[:, None, None], home.own, models)
