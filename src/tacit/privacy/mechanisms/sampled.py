"""Gaussian noise on the sum of a random cohort."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit._check import fraction, one_of, positive_integer
from tacit.errors import InvalidInput
from tacit.privacy.mechanisms.vectors import Gaussian
from tacit.privacy.noise.entropy import Entropy, bernoulli, sample_without_replacement

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = ["FixedSizeGaussian", "PoissonGaussian"]

_OBSERVERS = ("participants", "outside")


@dataclass(frozen=True)
class PoissonGaussian(Gaussian):
    """Gaussian noise on the sum of a cohort that every unit joins by its own coin.

    Parameters
    ----------
    sensitivity
        ℓ2 sensitivity of the cohort's sum under add-or-remove (radius ÷ divisor). The divisor must
        be public: sampling_rate · n_units, never the size of the cohort drawn.
    noise_multiplier
        Standard deviation ÷ sensitivity.
    sampling_rate
        Probability with which a unit joins a round.

    Guarantee: a Poisson-sampled Gaussian, under add-or-remove adjacency, against everybody who
    does not know whether the unit joined. This includes all other tasks together (joint DP), as
    the coins are independent, *as long as* neither the size nor the members of the cohort appear in
    a release, a history, a report or a log.
    """

    sampling_rate: float
    name: ClassVar[str] = "poisson-gaussian"
    serves: ClassVar[tuple[str, ...]] = ()  # chosen by a round's cohort, not by its aggregate

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling_rate != 1:
            fraction("sampling_rate", self.sampling_rate, remedy="give the probability to join")

    @property
    def event(self) -> DpEvent:
        """A Poisson-sampled Gaussian event."""
        from dp_accounting import dp_event

        return dp_event.PoissonSampledDpEvent(
            self.sampling_rate, dp_event.GaussianDpEvent(self.noise_multiplier)
        )

    def cohort(self, n_units: int, entropy: Entropy) -> NDArray[np.bool_]:
        """Return which units join, by exact independent coins; keep it secret."""
        return bernoulli(self.sampling_rate, n_units, entropy)


@dataclass(frozen=True)
class FixedSizeGaussian(Gaussian):
    """Gaussian noise on the sum of a cohort of fixed size, drawn without replacement.

    Parameters
    ----------
    sensitivity
        ℓ2 sensitivity of the cohort's sum under replace-one (2·radius ÷ size).
    noise_multiplier
        Standard deviation ÷ sensitivity.
    n_units, cohort_size
        Public numbers of units and of members.
    observer
        "participants" (default): whoever may be a member observes. "outside": only somebody who
        never learns any membership does.

    Guarantee: under replace-one. Against participants the full Gaussian event, with **no**
    amplification: all other units, pooled, know who was chosen among them and hence whether this
    one was, so joint DP gains nothing from the draw. Against an outside observer of the releases
    alone, sampling without replacement.
    """

    n_units: int
    cohort_size: int
    observer: str = "participants"
    name: ClassVar[str] = "fixed-size-gaussian"
    serves: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        positive_integer("n_units", self.n_units, remedy="give the number of units")
        positive_integer("cohort_size", self.cohort_size, remedy="give the number of members")
        if self.cohort_size > self.n_units:
            raise InvalidInput(
                f"cohort_size={self.cohort_size}: must be at most n_units={self.n_units}"
            )
        one_of("observer", self.observer, _OBSERVERS)

    @property
    def event(self) -> DpEvent:
        """A Gaussian event; amplified for an outside observer."""
        from dp_accounting import dp_event

        gaussian = dp_event.GaussianDpEvent(self.noise_multiplier)
        if self.observer == "participants":
            return gaussian
        return dp_event.SampledWithoutReplacementDpEvent(self.n_units, self.cohort_size, gaussian)

    def cohort(self, entropy: Entropy) -> NDArray[np.int64]:
        """Return the indices of the members, sorted; uniform over all sets of that size."""
        return sample_without_replacement(self.n_units, self.cohort_size, entropy)
