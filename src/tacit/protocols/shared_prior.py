"""The shared prior: tasks learn what their models have in common, once, and fit again under it.

Every task fits its own rows and sends its model, clipped to a public radius. The curator releases
the noisy second moment of the models, bordered by their mean; everybody reads the same prior off
it. Each task then averages its own fit with fits under the candidate priors (`averaged_fit`). The
prior that needs no radius is `tacit.protocols.hierarchical`.

Up: k·(d + k) numbers a task for the moment, 66 a class for the optional ballot on the intercept.
Down: (d + k)² numbers, and the ballot's, the same for all tasks. The curator keeps one
(d + k) × (d + k) matrix, whatever the number of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.kernels import row_products
from tacit.numerics.local_fit import LocalFit, local_fits
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.prior import Prior
from tacit.numerics.prior_average import averaged_fit
from tacit.privacy.bounds import SecondMoment, VectorClip
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.protocols._ballots import OCTAVES, read_ballot, signed_ballots
from tacit.protocols._bordered_moment import ReadPrior, border, moment_bound, read_prior
from tacit.protocols._home import Outputs, joining
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["SharedPriorHome", "SharedPriorProtocol", "SharedPriorPublic"]

# Weight of a ballot's noise budget relative to the moment's: its few coarse bins need little, and
# at (1, 0.35) the moment keeps 94 % of μ.
_BALLOT_SHARE = 0.35
# Parts of the released floor that belong to the models; the rest is estimation error of what was
# sent. The tasks weigh the alternatives.
_FLOOR_SHARES = (1.0, 0.1)


def ballot_bound() -> SecondMoment:
    """Return the bound of a ballot: square roots of non-negative votes that sum to at most 1.

    Guarantee: a replaced ballot moves the count by at most √2 in ℓ2 and 2 in ℓ1.
    """
    return SecondMoment(1.0, inner=VectorClip(1.0), diagonal=True)


@dataclass(frozen=True)
class SharedPriorPublic:
    """What the billboard told: the prior, in units of the radius ``clip``, the intercepts (k,)."""

    clip: float
    prior: ReadPrior | None = None
    intercepts: Array | None = None

    @property
    def mean(self) -> Array | None:
        """The mean model (k, d) in the targets' units, from releases only."""
        if self.prior is None or self.prior.mean is None:
            return None
        return self.clip * self.prior.mean

    def candidates(self, output: int) -> list[Prior]:
        """Return the priors a task weighs against its own fit; none if nothing stands out."""
        if self.prior is None:
            return []
        shapes: list[Array | None] = [None]
        if not self.prior.shape.flat:
            shapes += [self.prior.shape.covariance(share) for share in _FLOOR_SHARES]
        found = [Prior(covariance=shape) for shape in shapes[1:]]
        if self.mean is not None:
            found += [Prior(self.mean[output], shape) for shape in shapes]
        return found


@dataclass(frozen=True)
class SharedPriorHome:
    """What a stack of tasks keeps: rows by output, and own fits."""

    outputs: Outputs
    own: tuple[LocalFit, ...]


@dataclass(frozen=True)
class SharedPriorProtocol(Protocol[SharedPriorPublic, SharedPriorHome]):
    """The conversation.

    Parameters
    ----------
    n_tasks, n_features, n_outputs : int
        Public sizes.
    clip : float
        Public radius of a model.
    share_intercept : bool
        Add a ballot on the intercept, so that unknown tasks can be answered.

    Guarantee: joint DP with the task as unit, under replace-one. Round by round:

    - moment: a task's k vectors v_c = (w_c, b e_c) have Σ‖w_c‖² ≤ 1 and k b² = B², so they make
      one PSD matrix of trace ≤ 1 + B². Replacing it moves the sum by at most √2 (1 + B²) in
      Frobenius and 2 (1 + B²) in trace norm, whatever the task computed.
    - ballot: non-negative votes of sum ≤ 1, hence √2 in ℓ2 and 2 in ℓ1.

    Each release costs its mechanism's event and they compose. Prior, candidates and personal
    models are functions of the releases and of the task's own rows (billboard lemma), so the
    choice of strength, of prior and of falling back is free. Divisors are the public number of
    tasks. The curator is trusted with the bounded messages.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    clip: float
    n_outputs: int = 1
    fit_intercept: bool = True
    share_intercept: bool = False

    def rounds(self) -> tuple[Round, ...]:
        """Return the moment, and the ballot on the intercept."""
        k, side = self.n_outputs, self.n_features + self.n_outputs
        found = [Round("moment", moment_bound(), (side, side), message=(k, side))]
        if self.share_intercept:
            bins = (k * 2 * OCTAVES.size,)
            found.append(Round("intercept", ballot_bound(), bins, share=_BALLOT_SHARE))
        return tuple(found)

    def _name(self, call: Call) -> str:
        return self.rounds()[call.round].name

    def opening(self) -> SharedPriorPublic:
        """Nothing is known."""
        return SharedPriorPublic(self.clip)

    def read(
        self, public: SharedPriorPublic, release: AnyArray, call: Call, noise: Mechanism
    ) -> SharedPriorPublic:
        """Read the prior or the intercepts off the release."""
        if self._name(call) == "moment":
            prior = read_prior(release, noise, n_tasks=self.n_tasks, n_outputs=self.n_outputs)
            return replace(public, prior=prior)
        counts = release.reshape(self.n_outputs, 2, OCTAVES.size)
        levels = [
            _level(read_ballot(up, noise), read_ballot(down, noise), up, down)
            for up, down in zip(counts[:, 0], counts[:, 1], strict=True)
        ]
        return replace(public, intercepts=np.array(levels))

    def shown(self, public: SharedPriorPublic) -> Shared:
        """Show the prior's spectrum and mean."""
        if public.prior is None:
            return Shared()
        return replace(public.prior.shape.shown(), mean_model=public.mean)

    def start(self, rows: TaskSet, positions: IntArray) -> SharedPriorHome:  # noqa: ARG002
        """Fit every task on its own."""
        outputs = one_vs_rest(rows, self.n_outputs)
        many = are_many(self.n_tasks, self.n_features)
        own = local_fits(outputs, self.loss, intercept=self.fit_intercept, many=many)
        return SharedPriorHome(outputs, own)

    def memory(self, home: SharedPriorHome) -> dict[str, Array]:
        """Return the own fits."""
        return {
            "coef": np.stack([fit.coef for fit in home.own], axis=1),
            "intercept": np.stack([fit.intercept for fit in home.own], axis=1),
        }

    def resume(
        self,
        rows: TaskSet,
        positions: IntArray,  # noqa: ARG002
        memory: dict[str, Any],
    ) -> SharedPriorHome:
        """Take the own fits up again."""
        fits = (
            LocalFit(memory["coef"][:, c], memory["intercept"][:, c]) for c in range(self.n_outputs)
        )
        return SharedPriorHome(one_vs_rest(rows, self.n_outputs), tuple(fits))

    def speak(
        self,
        home: SharedPriorHome,
        public: SharedPriorPublic,
        call: Call,
        joined: AnyArray | None,
    ) -> tuple[SharedPriorHome, Array]:
        """Say the bordered model (m, k, d + k), or square roots of a ballot (m, bins)."""
        if self._name(call) == "moment":
            models = np.stack([fit.coef for fit in home.own], axis=1)
            return home, joining(border(VectorClip(self.clip)(models) / self.clip), joined)
        votes = signed_ballots(self._intercepts(home, public)) / self.n_outputs
        return home, joining(np.sqrt(votes.reshape(len(votes), -1)), joined)

    def finish(self, home: SharedPriorHome, public: SharedPriorPublic) -> Array:
        """Return personal models (m, k, d + 1), the intercept last."""
        models, many = [], are_many(self.n_tasks, self.n_features)
        for number, (rows, own) in enumerate(zip(home.outputs, home.own, strict=True)):
            fit = averaged_fit(
                rows,
                self.loss,
                public.candidates(number),
                intercept=self.fit_intercept,
                own=own,
                many=many,
            )
            models.append(np.column_stack([fit.coef, fit.intercept]))
        return np.stack(models, axis=1)

    def _intercepts(self, home: SharedPriorHome, public: SharedPriorPublic) -> Array:
        """Return every task's intercepts (m, k) on top of the shared mean model."""
        found = np.empty((home.outputs[0].n_tasks, self.n_outputs))
        for number, rows in enumerate(home.outputs):
            mean = np.zeros(rows.n_features) if public.mean is None else public.mean[number]
            predicted = rows.task_sums(row_products(rows.X, mean)) / rows.counts
            level = rows.task_sums(np.asarray(rows.y, dtype=float)) / rows.counts
            if self.loss.name != "squared":
                # Log-odds of the task's share of positives, each class given half a row.
                positive = level * rows.counts
                level = np.log((positive + 0.5) / (rows.counts - positive + 0.5))
            found[:, number] = level - predicted
        return found


def _level(up: float | None, down: float | None, counts_up: Array, counts_down: Array) -> float:
    """Return the released intercept: the sign with more votes, zero if neither stands out."""
    if up is not None and (down is None or counts_up.max() >= counts_down.max()):
        return up
    return 0.0 if down is None else -down
