"""Mechanisms as printed in the papers, which do not keep the privacy they claim.

They exist so that the papers' figures can be reproduced. Each answers only to its full name, warns
with `PrivacyWarning` when made, and marks its releases ``sound=False``. Their ``event`` is what the
paper *claims*, so that a reproduction can print the paper's ε; it is not a guarantee.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tacit._check import positive, positive_integer
from tacit.errors import InvalidInput, PrivacyWarning
from tacit.privacy.mechanisms.release import Floats, Mechanism, pure_event
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.noise.perturb import perturb_gamma_vector, perturb_laplace, perturb_wishart
from tacit.privacy.unit import Adjacency, Norm

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

    from tacit.privacy.schedule import Round

__all__ = [
    "PUBLISHED",
    "Algorithm5NoisePublished",
    "AsynchronousPerIterationPublished",
    "SimulatedSensitivityPublished",
    "WishartPublished",
]


@dataclass(frozen=True)
class _Published(Mechanism):
    """What the printed mechanisms share: they claim pure ε, and warn."""

    epsilon: float
    sound: ClassVar[bool] = False
    family: ClassVar[str] = "pure"
    composition: ClassVar[str] = "published"
    norm: ClassVar[Norm] = Norm.L2
    reason: ClassVar[str]

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon, remedy="use mechanism 'exact' for no privacy")
        warnings.warn(f"{self.name}: not private; {self.reason}", PrivacyWarning, stacklevel=3)

    @property
    def event(self) -> DpEvent:
        """What the paper claims for one release; not a guarantee."""
        return pure_event(self.epsilon)

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:  # noqa: ARG003
        """Refuse: a printed mechanism that was never one of rounds of messages."""
        raise InvalidInput(f"mechanism={cls.name!r}: cannot noise the round {round.name!r}")

    def check(self, round: Round, adjacency: Adjacency) -> None:
        """Check nothing: what is printed does not cover what its bound allows."""


@dataclass(frozen=True)
class WishartPublished(_Published):
    """Model-protected MTL, Theorem 1: Σ + E with E ~ W_d(d + 1, K²/(2ε) I).

    Parameters
    ----------
    epsilon
        The ε claimed for one release.
    radius
        K, the norm to which models are clipped.

    Guarantee: none. The support {S ≻ Σ} moves with the data: for w = 0 against ‖w'‖ = K, the event
    that S − w'w'ᵀ (less the other tasks' moment) is not PSD has probability 0 under one data set
    and 1 − e^(−ε) under the other, so δ is at least that. `TwoSidedWishart` is the sound form.
    """

    radius: float
    name: ClassVar[str] = "wishart-published"
    serves: ClassVar[tuple[str, ...]] = ("matrix",)
    norm: ClassVar[Norm] = Norm.TRACE
    reason: ClassVar[str] = (
        "the support of one-sided Wishart noise moves with the data; use 'two-sided-wishart'"
    )

    def __post_init__(self) -> None:
        positive("radius", self.radius, remedy="give the norm to which models are clipped")
        super().__post_init__()

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:  # noqa: ARG003
        """Return the printed noise for models clipped to the bound's radius."""
        return cls(strength, round.bound.radius)

    @property
    def reach(self) -> float:
        """What the paper takes the sensitivity to be: K² in trace norm."""
        return self.radius**2

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return √E‖E‖² of a Wishart matrix with d + 1 degrees of freedom."""
        d = shape[-1]
        return self.scale * math.sqrt(2 * d) * (d + 1)

    def deviation(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation of an entry off the diagonal."""
        return self.scale * math.sqrt(shape[-1] + 1)

    @property
    def scale(self) -> float:
        """The printed Wishart scale K²/(2ε)."""
        return self.radius**2 / (2 * self.epsilon)

    def edge(self, d: int) -> float:
        """Return 4·d·scale, where the noise's largest eigenvalue lies in high dimension."""
        return 4 * positive_integer("d", d, remedy="give the dimension") * self.scale

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` plus one-sided noise."""
        return perturb_wishart(value, self.scale, entropy, two_sided=False)


@dataclass(frozen=True)
class Algorithm5NoisePublished(_Published):
    """Model-protected MTL, supplement Algorithm 5, step 5: density ∝ exp(−(s/ε)‖b‖), inverted.

    Parameters
    ----------
    epsilon
        The ε claimed for one release.
    sensitivity
        s̃, which the paper takes over the neighbours of the data at hand only.

    Guarantee: none. The exponent is upside down (ε/s is right): the noise *grows* with ε and
    shrinks as the sensitivity grows. `GammaVector` is the sound form. A stack (m, d) gets one
    vector per task.
    """

    sensitivity: float
    name: ClassVar[str] = "algorithm5-noise-published"
    reason: ClassVar[str] = "the exponent of its density is inverted; use 'gamma-vector'"

    def __post_init__(self) -> None:
        positive("sensitivity", self.sensitivity, remedy="give the printed sensitivity")
        super().__post_init__()

    @property
    def reach(self) -> float:
        """s̃, as the paper has it."""
        return self.sensitivity

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return the root of the expected squared norm of one vector of ``shape``."""
        size = math.prod(shape)
        return self.scale * math.sqrt(size * (size + 1))

    @property
    def scale(self) -> float:
        """The printed scale of the length, ε/s."""
        return self.epsilon / self.sensitivity

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` plus the printed noise, one vector for every entry of axis 0."""
        return perturb_gamma_vector(value, self.scale, entropy, rows=True)


@dataclass(frozen=True)
class AsynchronousPerIterationPublished(_Published):
    """Asynchronous MTL, Lemmas 1 and 2: density ∝ exp(−(ε/S)‖z‖), S = 2·step·C₁C₂/n.

    Parameters
    ----------
    epsilon
        The ε claimed for one iteration.
    row_norm, derivative_bound
        C₁ ≥ ‖x‖ and C₂ ≥ |ℓ'|.
    n_rows
        n, the rows of the task.
    step_size
        α for the noise on q (Lemma 1); 1 for the noise on the gradient (Lemma 2).
    share
        Part of ε that this noise is for: ε₂/(ε₁ + ε₂), the first noise having the rest.

    Guarantee: none over a run. The sensitivity is that of one step from a fixed q, but q carries
    the data of all earlier steps (hundreds of times the bound after a thousand steps), and the
    gradient is evaluated at that q. The sound form is one clipped, noised gradient per step, and
    nothing else computed from data.
    """

    row_norm: float
    derivative_bound: float
    n_rows: int
    step_size: float = 1.0
    share: float = 1.0
    name: ClassVar[str] = "asynchronous-per-iteration-published"
    reason: ClassVar[str] = (
        "its sensitivity is that of one step from a fixed q, but q carries the data of earlier "
        "steps; noise clipped gradients instead"
    )

    def __post_init__(self) -> None:
        positive("row_norm", self.row_norm, remedy="give a public bound on the rows' norm")
        positive("derivative_bound", self.derivative_bound, remedy="give a bound on |ℓ'|")
        positive_integer("n_rows", self.n_rows, remedy="give the task's number of rows")
        positive("step_size", self.step_size, remedy="give the step size α")
        super().__post_init__()

    @property
    def reach(self) -> float:
        """S = 2·step·C₁C₂/n, that of one step."""
        return self.scale * self.epsilon * self.share

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return the root of the expected squared norm of one vector of ``shape``."""
        size = math.prod(shape)
        return self.scale * math.sqrt(size * (size + 1))

    @property
    def scale(self) -> float:
        """The printed scale of the length, S/ε."""
        bound = 2 * self.step_size * self.row_norm * self.derivative_bound / self.n_rows
        return bound / (self.epsilon * self.share)

    def deviation(self, shape: tuple[int, ...]) -> float:
        """Return the standard deviation of an entry of one vector of ``shape``."""
        return self.scale * math.sqrt(math.prod(shape) + 1)

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return ``value`` plus the printed noise: one vector, or one a task of a stack."""
        return perturb_gamma_vector(value, self.scale, entropy, rows=np.ndim(value) > 2)


@dataclass(frozen=True)
class SimulatedSensitivityPublished(_Published):
    """DPMTL and dsMTL with differential privacy: Laplace noise for a sensitivity seen in the data.

    Before every gradient step, some rows are left out one at a time. The largest change of a
    coordinate of the mean gradient is called its sensitivity, and Laplace noise of that size over ε
    is added; the objective's value goes beside it as it is. Every coordinate, iteration and step of
    the line search claims the same ε anew.

    Parameters
    ----------
    epsilon
        The ε claimed.
    n_simulations
        Rows left out, drawn with replacement.

    Guarantee: none. A sensitivity is a maximum over *all* data sets, not over subsets of the one at
    hand: here the noise's size is a function of the data. Rows that agree in a coordinate get no
    noise there at all, so that one row that differs is seen with certainty; a row far from the
    others is found by how large the noise became, or missed by the simulation and released with
    far too little. Were the sensitivity right, d coordinates would cost d·ε. The value of the
    objective has no noise. The sound form clips every row's gradient to a public norm C and adds
    noise for 2C/n (`tacit.privacy.bounds.RowGradientClip`).
    """

    n_simulations: int = 100
    name: ClassVar[str] = "simulated-sensitivity-laplace-published"
    reason: ClassVar[str] = (
        "its noise is scaled by a sensitivity simulated on the data, and the objective's value has "
        "none; clip rows to a public norm instead"
    )

    def __post_init__(self) -> None:
        positive_integer("n_simulations", self.n_simulations, remedy="the package uses 100")
        super().__post_init__()

    @property
    def scale(self) -> float:
        """1/ε, which multiplies the simulated sensitivity."""
        return 1 / self.epsilon

    @property
    def reach(self) -> float:
        """Nothing: no change is covered that holds for every data set."""
        return 0.0

    def noise_norm(self, shape: tuple[int, ...]) -> float:  # noqa: ARG002
        """Refuse: how large the noise is depends on the data."""
        raise self._unstated("noise_norm")

    def sensitivity(self, gradients: ArrayLike, entropy: Entropy) -> Floats:
        """Return the largest change of every coordinate's mean over simulated removals.

        ``gradients`` (…, n, d) has a row's gradient in every row.
        """
        rows = np.asarray(gradients, dtype=np.float64)
        n = rows.shape[-2]
        if n < 2:
            raise InvalidInput(f"value with {n} row: nothing can be left out; give at least two")
        shape = (*rows.shape[:-2], self.n_simulations)
        left_out = (entropy.words(math.prod(shape)) % np.uint64(n)).astype(int).reshape(shape)
        seen = (left_out[..., None] == np.arange(n)).any(axis=-2)
        changes = np.abs(rows.mean(axis=-2, keepdims=True) - rows) / (n - 1)
        return np.asarray(np.where(seen[..., None], changes, 0.0).max(axis=-2))

    def perturbed(self, value: ArrayLike, entropy: Entropy) -> Floats:
        """Return the noised mean gradient with the exact mean loss last.

        ``value`` (…, n, d + 1) has a row's gradient and, in the last column, its loss.
        """
        rows = np.asarray(value, dtype=np.float64)
        released = rows.mean(axis=-2)
        size = self.sensitivity(rows[..., :-1], entropy)
        released[..., :-1] += size * perturb_laplace(np.zeros_like(size), self.scale, entropy)
        return released


PUBLISHED: MappingProxyType[str, type[Mechanism]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            WishartPublished,
            Algorithm5NoisePublished,
            AsynchronousPerIterationPublished,
            SimulatedSensitivityPublished,
        )
    }
)
