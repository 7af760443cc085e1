"""The shared prior: tasks learn what their models have in common, once, and fit again under it.

Every task fits its own rows, keeps only the *direction* of its model, and sends it. The curator
releases the noisy second moment of the directions, bordered by their mean; everybody reads the
same prior off it. A second, cheap release settles how long the mean model is, by a ballot. Each
task then averages its own fit with fits under the candidate priors (`averaged_fit`).

Up: k·d numbers a task for the moment, 33 for the ballot (66 a class for the optional ballot on
the intercept). Down: (d + k)² and 33 numbers, the same for all tasks. The curator keeps one
(d + k) × (d + k) matrix, whatever the number of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tacit._types import Array
from tacit.losses import Loss
from tacit.numerics.kernels import row_products
from tacit.numerics.local_fit import LocalFit, local_fit
from tacit.numerics.prior_average import CandidatePrior, averaged_fit
from tacit.privacy.bounds import SecondMoment, VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.unit import Adjacency, Unit
from tacit.protocols.ballots import OCTAVES, ballots, read_ballot, signed_ballots
from tacit.protocols.bordered_moment import Prior, border, moment_bound, read_prior
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["ROUND_SHARES", "SharedPriorProtocol", "SharedPriorState", "ballot_bound"]

# Relative noise budgets μ_t (or ε_t) of the moment and of each ballot, whose few coarse bins need
# little: at (1, 0.35) the moment keeps 94 % of μ.
ROUND_SHARES = (1.0, 0.35, 0.35)
# Parts of the released floor that belong to the models; the rest is estimation error of what was
# sent. The tasks weigh the alternatives.
_FLOOR_SHARES = (1.0, 0.1)


def ballot_bound() -> SecondMoment:
    """Return the bound of a ballot: square roots of non-negative votes that sum to at most 1.

    Guarantee: a replaced ballot moves the count by at most √2 in ℓ2 and 2 in ℓ1.
    """
    return SecondMoment(1.0, inner=VectorClip(1.0), diagonal=True)


@dataclass(frozen=True)
class SharedPriorState:
    """What a stack of tasks keeps: rows by output, own fits, and what the billboard told."""

    outputs: tuple[TaskSet, ...]
    own: tuple[LocalFit, ...]
    prior: Prior | None = None
    length: float | None = None
    intercepts: Array | None = None  # (k,), released

    @property
    def mean(self) -> Array | None:
        """The mean model (k, d) in the targets' units, from releases only."""
        if self.prior is None or self.prior.mean is None or self.length is None:
            return None
        return self.length * self.prior.mean


@dataclass(frozen=True)
class SharedPriorProtocol:
    """The conversation; ``mechanisms`` are one a round, calibrated by the caller.

    Parameters
    ----------
    n_tasks : int
        Public number of tasks.
    clip : float or None
        Public radius of a model. None sends directions, which need no scale but do need the
        ballot on the length.
    share_intercept : bool
        Add a ballot on the intercept, so that unknown tasks can be answered.

    Guarantee: joint DP with the task as unit, under replace-one. Round by round:

    - moment: a task's k vectors v_c = (w_c, b e_c) have Σ‖w_c‖² ≤ 1 and k b² = B², so they make
      one PSD matrix of trace ≤ 1 + B². Replacing it moves the sum by at most √2 (1 + B²) in
      Frobenius and 2 (1 + B²) in trace norm, whatever the task computed.
    - ballots: non-negative votes of sum ≤ 1, hence √2 in ℓ2 and 2 in ℓ1.

    Each release costs its mechanism's event and they compose. Prior, candidates and personal
    models are functions of the releases and of the task's own rows (billboard lemma), so the
    choice of strength, of prior and of falling back is free. Divisors are the public number of
    tasks. The curator is trusted with the bounded messages.
    """

    loss: Loss
    n_tasks: int
    mechanisms: tuple[Mechanism, ...]
    n_outputs: int = 1
    clip: float | None = None
    fit_intercept: bool = True
    share_intercept: bool = False
    unit: Unit = field(default=Unit.TASK, init=False)
    adjacency: Adjacency = field(default=Adjacency.REPLACE_ONE, init=False)

    @property
    def rounds(self) -> tuple[str, ...]:
        """What each round is about."""
        length = ("length",) if self.clip is None else ()
        level = ("intercept",) if self.share_intercept else ()
        return ("moment", *length, *level)

    @property
    def n_rounds(self) -> int:
        """Number of releases."""
        return len(self.rounds)

    def mechanism(self, t: int) -> Mechanism:
        """Return the mechanism of round ``t``."""
        return self.mechanisms[t]

    def start(self, tasks: TaskSet) -> SharedPriorState:
        """Fit every task on its own."""
        outputs = one_vs_rest(tasks, self.n_outputs)
        own = tuple(local_fit(o, self.loss, intercept=self.fit_intercept) for o in outputs)
        return SharedPriorState(outputs, own)

    def speak(self, state: SharedPriorState, t: int) -> Array:
        """Say the own model (m, k, d), or square roots of a ballot (m, bins)."""
        if self.rounds[t] == "moment":
            return np.stack([fit.coef for fit in state.own], axis=1)
        if self.rounds[t] == "length":
            return np.sqrt(ballots(self._lengths(state)))
        votes = signed_ballots(self._intercepts(state)) / self.n_outputs
        return np.sqrt(votes.reshape(len(votes), -1))

    def bound(self, messages: Array) -> Array:
        """Limit messages: models (three axes) to the bordered unit ball, ballots to sum 1."""
        if messages.ndim == 2:
            return ballot_bound()(messages)
        unit = VectorNormalise(1.0)(messages)
        if self.clip is not None:
            unit = VectorClip(self.clip)(messages) / self.clip
        return moment_bound()(border(unit))

    def aggregate(self, messages: Array) -> Array:
        """Sum bordered outer products, or count votes."""
        return (ballot_bound() if messages.ndim == 2 else moment_bound()).aggregate(messages)

    def listen(self, state: SharedPriorState, release: Array, t: int) -> SharedPriorState:
        """Read the prior, the length of the mean or the intercepts off the release."""
        noise = self.mechanisms[t]
        if self.rounds[t] == "moment":
            prior = read_prior(
                release, noise, n_tasks=self.n_tasks, n_outputs=self.n_outputs, unit=not self.clip
            )
            return replace(state, prior=prior, length=self.clip)
        if self.rounds[t] == "length":
            return replace(state, length=read_ballot(release, noise))
        counts = release.reshape(self.n_outputs, 2, OCTAVES.size)
        levels = [
            _level(read_ballot(up, noise), read_ballot(down, noise), up, down)
            for up, down in zip(counts[:, 0], counts[:, 1], strict=True)
        ]
        return replace(state, intercepts=np.array(levels))

    def finish(self, state: SharedPriorState) -> Array:
        """Return personal models (m, k, d + 1), the intercept last."""
        models = []
        for number, (tasks, own) in enumerate(zip(state.outputs, state.own, strict=True)):
            fit = averaged_fit(
                tasks,
                self.loss,
                candidates(state, number),
                intercept=self.fit_intercept,
                own=own,
            )
            models.append(np.column_stack([fit.coef, fit.intercept]))
        return np.stack(models, axis=1)

    def _lengths(self, state: SharedPriorState) -> Array:
        """Return how far each task's rows would go along the mean direction, (m,)."""
        direction = state.prior.mean if state.prior else None
        if direction is None:
            return np.zeros(state.outputs[0].n_tasks)
        alpha = 0.0 if self.loss.name == "squared" else "auto"
        weights = np.einsum("kd,kd->k", direction, direction)
        lengths = np.zeros(state.outputs[0].n_tasks)
        for tasks, along, weight in zip(state.outputs, direction, weights, strict=True):
            line = tasks.replace(X=row_products(tasks.X, along)[:, None])
            fit = local_fit(line, self.loss, alpha=alpha, intercept=self.fit_intercept)
            lengths += weight * fit.coef[:, 0]
        return lengths / weights.sum()

    def _intercepts(self, state: SharedPriorState) -> Array:
        """Return every task's intercepts (m, k) on top of the shared mean model."""
        found = np.empty((state.outputs[0].n_tasks, self.n_outputs))
        for number, tasks in enumerate(state.outputs):
            mean = np.zeros(tasks.n_features) if state.mean is None else state.mean[number]
            predicted = tasks.task_sums(row_products(tasks.X, mean)) / tasks.counts
            level = tasks.task_sums(np.asarray(tasks.y, dtype=float)) / tasks.counts
            if self.loss.name != "squared":
                # Log-odds of the task's share of positives, each class given half a row.
                positive = level * tasks.counts
                level = np.log((positive + 0.5) / (tasks.counts - positive + 0.5))
            found[:, number] = level - predicted
        return found


def candidates(state: SharedPriorState, output: int) -> list[CandidatePrior]:
    """Return the priors a task weighs against its own fit; none if nothing stands out."""
    prior = state.prior
    if prior is None:
        return []
    shapes: list[Array | None] = [None]
    if not prior.shape.flat:
        shapes += [prior.shape.covariance(share) for share in _FLOOR_SHARES]
    found = [CandidatePrior(covariance=shape) for shape in shapes[1:]]
    if state.mean is not None:
        found += [CandidatePrior(state.mean[output], shape) for shape in shapes]
    return found


def _level(up: float | None, down: float | None, counts_up: Array, counts_down: Array) -> float:
    """Return the released intercept: the sign with more votes, zero if neither stands out."""
    if up is not None and (down is None or counts_up.max() >= counts_down.max()):
        return up
    return 0.0 if down is None else -down
