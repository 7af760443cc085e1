"""From design and budget to a mechanism: strengths, noise and trust, all from public numbers.

Everything here that is chosen, is chosen from public numbers: the budget, how many rows and
features there are, and the importances. With one row as unit, a choice that looks at the rows would
have to be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit._types import Array
from tacit.privacy.objective import ObjectivePerturbation, Strength, noise_norm
from tacit.transfer.design import Design

__all__ = ["Budget", "Learner", "combined_centre", "default_strength", "trust"]

# Public rules, set on Fashion-MNIST pairs (papers/private_transfer/defaults.py, and the docs page):
# α = R²(1 + β/10 + 4β²/n), β = E‖b‖/R.
_LINEAR, _QUADRATIC = 0.1, 4.0


@dataclass(frozen=True)
class Budget:
    """What one party spends on one row: ε (inf: no privacy) and δ (0: pure ε)."""

    epsilon: float
    delta: float = 0.0


def default_strength(noise: float, reach: float) -> Strength:
    """Return the ridge strength for noise of expected norm ``noise``: it grows with the noise."""
    relative = noise / reach
    return Strength(reach**2 * (1 + _LINEAR * relative), _QUADRATIC * noise**2)


def trust(uncertainty: float) -> float:
    """Return 1 − η, how far a target's models are pulled to the source's rather than to zero."""
    return uncertainty / (1 + uncertainty)


@dataclass(frozen=True)
class Learner:
    """Private logistic models for every output and group of a `Design`, jointly within a budget.

    Parameters
    ----------
    alpha : float or None
        Ridge strength; None is `default_strength`.
    firmness : float
        Least strength of a model by default, in expected norms of its noise.

    Guarantee: `mechanism` is (ε, δ)-DP for one replaced row, by `ObjectivePerturbation`, for rows
    bounded to the design's `reach`; strengths, noise and grids follow from public numbers only.
    """

    design: Design
    budget: Budget
    n_outputs: int
    alpha: float | None = None
    firmness: float = 0.0

    @property
    def _shares(self) -> list[float]:
        return [share / self.n_outputs for share in self.design.shares]

    @property
    def _noise(self) -> tuple[float, ...]:
        """Expected noise norm of each group's model (the same for every output)."""
        epsilon, delta = self.budget.epsilon, self.budget.delta
        shares, reach = self._shares, self.design.reach
        length = math.sqrt(self.n_outputs) * math.hypot(*shares)
        return tuple(
            noise_norm(epsilon, delta, share, share / length, reach, dimension)
            for share, dimension in zip(shares, self.design.dimensions, strict=True)
        )

    def _strength(self, noise: float) -> Strength:
        if self.alpha is not None:
            return Strength(self.alpha)
        usual = default_strength(noise, self.design.reach)
        return Strength(usual.constant, usual.over_rows, self.firmness * noise)

    @property
    def mechanism(self) -> ObjectivePerturbation:
        """The mechanism of all models together, outputs outermost."""
        return ObjectivePerturbation(
            epsilon=self.budget.epsilon,
            delta=self.budget.delta,
            strengths=tuple(self._strength(noise) for noise in self._noise) * self.n_outputs,
            row_norm=self.design.reach,
            shares=tuple(self._shares) * self.n_outputs,
            dimensions=self.design.dimensions * self.n_outputs,
        )

    def uncertainties(self, n_rows: int) -> tuple[float, ...]:
        """Return the size of each group's error: noise over signal, plus 2/√n for the sample."""
        return tuple(
            noise / (self.design.reach * n_rows) + 2 / math.sqrt(n_rows) for noise in self._noise
        )


def combined_centre(
    sources: Sequence[Sequence[Array]],
    uncertainties: Sequence[Sequence[float]],
    shrinkage: Sequence[float],
) -> tuple[Array, ...]:
    """Return one centre per group: sources averaged by 1/uncertainty², times ``shrinkage``."""
    centres: list[Array] = []
    for k, factor in enumerate(shrinkage):
        weights = np.array([1.0 / own[k] ** 2 for own in uncertainties])
        weights /= weights.sum()
        mean = sum(w * models[k] for w, models in zip(weights, sources, strict=True))
        centres.append(factor * np.asarray(mean))
    return tuple(centres)
