"""Private mean-regularised learning with full participation: a shared centre, personal models.

Every turn each task fits its own model under the pull of the centre and sends it; the curator
releases the noisy mean. Up: k·(d + 1) numbers a task and turn; down: the same.

Two forms of message:

- *directions* (``clip=None``): the model scaled to norm 1. No scale has to be known, none is
  released; a task reads the mean direction u as a prior covariance I + τ u uᵀ and finds its own
  scale along it.
- *updates* (``clip=γ``): w_i − w̃, intercept included, clipped to the public γ; the centre moves by
  the noisy mean, and tasks are pulled to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.losses import Loss
from tacit.numerics.logistic_dual import are_many
from tacit.numerics.prior import Prior
from tacit.privacy.bounds import VectorClip, VectorNormalise
from tacit.privacy.mechanisms import Mechanism
from tacit.privacy.schedule import Call, Round
from tacit.protocols._home import Outputs, Priors, fitted, joining
from tacit.protocols.protocol import Protocol
from tacit.protocols.shown import Shared
from tacit.tasks import TaskSet, one_vs_rest

__all__ = ["Centre", "MeanRegularizedProtocol"]

_ALONG = (3.0, 30.0)  # prior variance along the shared direction, relative to across it


@dataclass(frozen=True)
class Centre:
    """The public centre (k, d + 1), and whether it stands out of the noise heard so far."""

    value: Array
    noise: float = 0.0  # what the squared norm of the noise in ``value`` hardly ever exceeds
    informative: bool = False


@dataclass(frozen=True)
class MeanRegularizedProtocol(Protocol[Centre, Outputs]):
    """The conversation.

    Parameters
    ----------
    n_tasks, n_features, n_outputs : int
        Public sizes; ``n_tasks`` is the divisor of the mean.
    n_turns : int
        Releases.
    clip : float or None
        Radius of an update; None sends directions.
    alpha : "auto" or float
        Strength of the pull once there is something to be pulled to; "auto" lets every task settle
        it, and whether to be pulled at all, by its own leave-one-out errors.

    Guarantee: joint DP with the task as unit under replace-one. A message has norm at most the
    bound's radius K whatever the task did before, so the sum's ℓ2 sensitivity is 2K; the divisor
    is public; the first centre is the constant 0; the rest is post-processing or local. Whether a
    release is above the noise is judged from the release and the noise's known law alone.
    """

    loss: Loss
    n_tasks: int
    n_features: int
    n_outputs: int = 1
    n_turns: int = 1
    clip: float | None = None
    alpha: float | str = "auto"
    fit_intercept: bool = True

    def rounds(self) -> tuple[Round, ...]:
        """Return the one round: the sum of directions, or of updates with their intercept."""
        if self.clip is None:
            shape = (self.n_outputs, self.n_features)
            return (Round("mean direction", VectorNormalise(1.0), shape, turns=self.n_turns),)
        shape = (self.n_outputs, self.n_features + 1)
        return (Round("mean update", VectorClip(self.clip), shape, turns=self.n_turns),)

    def opening(self) -> Centre:
        """Return the constant 0."""
        return Centre(np.zeros((self.n_outputs, self.n_features + 1)))

    def read(self, public: Centre, release: AnyArray, call: Call, noise: Mechanism) -> Centre:  # noqa: ARG002
        """Move the centre; one that pure noise would reach is not told from noise."""
        mean = np.asarray(release) / self.n_tasks
        heard = noise.ceiling(mean.size) / self.n_tasks**2
        if self.clip is None:
            centre = np.concatenate([mean, np.zeros((len(mean), 1))], axis=1)
        else:
            centre, heard = public.value + mean, public.noise + heard
        return Centre(centre, heard, bool(np.sum(centre**2) > heard))

    def shown(self, public: Centre) -> Shared:
        """Show the centre, without its intercept."""
        return Shared(mean_model=public.value[:, :-1])

    def start(self, rows: TaskSet, positions: IntArray) -> Outputs:  # noqa: ARG002
        """Keep the rows, once per output."""
        return one_vs_rest(rows, self.n_outputs)

    def speak(
        self,
        home: Outputs,
        public: Centre,
        call: Call,  # noqa: ARG002
        joined: AnyArray | None,
    ) -> tuple[Outputs, Array]:
        """Say the model under the centre (directions: without intercept), or its distance."""
        models = self.finish(home, public)
        said = models[..., :-1] if self.clip is None else models - public.value
        return home, joining(said, joined)

    def finish(self, home: Outputs, public: Centre) -> Array:
        """Return models (m, k, d + 1) under the centre, the intercept last."""
        pulls = [self._pulls(centre, public.informative) for centre in public.value]
        given = self.alpha != "auto" and all(pulls)
        return fitted(
            home,
            self.loss,
            pulls if given else [(Prior(), *pull) for pull in pulls],
            intercept=self.fit_intercept,
            alpha=self.alpha if given else "auto",
            many=are_many(self.n_tasks, self.n_features),
        )

    def _pulls(self, centre: Array, informative: bool) -> Priors:
        """Return the priors that the centre gives; none if it says nothing."""
        if not informative:
            return ()
        if self.clip is not None:
            return (Prior(centre[:-1]),)
        norm = float(np.linalg.norm(centre[:-1]))
        if norm == 0:
            return ()
        unit = centre[:-1] / norm
        eye, along = np.eye(len(unit)), np.outer(unit, unit)
        return [Prior(covariance=eye + variance * along) for variance in _ALONG]
