"""The release: a budget divided over models and over what each pays for, and one event."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon, gaussian_mu
from tacit.privacy.mechanisms.release import Release
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.objective.accuracy import Accuracy
from tacit.privacy.objective.calibration import gamma_scale, gaussian_scales, smallest_strength
from tacit.privacy.objective.minimiser import minimise
from tacit.privacy.objective.output import Output, Problem

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

__all__ = ["ObjectivePerturbation", "Problem", "noise_norm"]


# The part of ε that pays for rounding. The noise in the objective grows by 0.4 %; with less the
# noise on the model would matter from some 10⁵ rows on, where the worst case of rounding is larger.
_OUTPUT_SHARE, _MOST_OUTPUT = 2.0**-8, 2.0**-4


def noise_norm(
    epsilon: float, delta: float, share: float, weight: float, row_norm: float, dimension: int
) -> float:
    """Return the expected norm of the noise of a d-dimensional model, before any Jacobian cost.

    Public: it depends on the budget, the bound and the dimension only, so that a strength may be
    chosen from it.
    """
    if math.isinf(epsilon):
        return 0.0
    if delta == 0:
        return gamma_scale(epsilon * share, row_norm) * dimension
    return 2 * row_norm / (gaussian_mu(epsilon, delta) * weight) * math.sqrt(dimension)


@dataclass(frozen=True)
class ObjectivePerturbation:
    """K regularised logistic regressions on the same rows, released together.

    Parameters
    ----------
    epsilon : float
        ``float("inf")`` adds no noise.
    delta : float
        0: gamma noise, pure ε. Above 0: Gaussian noise.
    strengths : tuple of float
        The ridge strength α_k asked for in each model, on the scale of the *summed* loss
        (scikit-learn's 1/C).
    row_norm : float
        R, the public bound of every row of every model.
    shares : tuple of float, optional
        Budget of each model, summing to 1; equal by default. Gamma noise gives model k the pure
        budget share_k·ε; Gaussian noise has standard deviation ∝ 1/share_k. Both are what rows
        scaled to norm share_k·R get from one common noise scale.

    Guarantee: the K released models together are (ε, δ)-differentially private for one replaced row
    (the number of rows is public), if every row has norm ≤ R, and strengths, centres, shares and R
    do not depend on the rows. It holds for the floats released: the ideal minimisers are
    (ε(1 − 2⁻⁸), δ)-DP (`tacit.privacy.objective.calibration`), and noise on each model pays ε·2⁻⁸
    (at most 1/16) for the rounding of noise and arithmetic (`tacit.privacy.objective.output`).
    Strengths below 2R²/(share_k·ε) are raised to it (the paper's Δ), where gamma noise pays nothing
    for the Jacobian; Gaussian noise pays it in full. The whole proof:
    ``docs/methods/private-transfer.md``.
    """

    name: ClassVar[str] = "objective-perturbation"
    sound: ClassVar[bool] = True

    epsilon: float
    delta: float
    strengths: tuple[float, ...]
    row_norm: float = 1.0
    shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        _check.positive("row_norm", self.row_norm, remedy="give the public bound of a row's norm")
        for strength in self.strengths:
            _check.positive("strengths", strength, remedy="strong convexity is what is paid with")
        count = len(self.strengths)
        shares = (1.0 / count,) * count if self.shares is None else self.shares
        if len(shares) != count or min(shares) <= 0 or math.fsum(shares) > 1 + 1e-9:
            raise InvalidInput(
                f"shares={shares!r}: must be {count} positive numbers that sum to at most 1"
            )
        object.__setattr__(self, "shares", tuple(float(share) for share in shares))

    @property
    def _parts(self) -> tuple[float, ...]:
        assert self.shares is not None  # noqa: S101  # set in __post_init__
        # Shares may sum to 1 plus rounding; the pure budgets must not.
        excess = max(1.0, math.fsum(self.shares) * (1 + 2.0**-50)) if len(self.shares) > 1 else 1.0
        return tuple(share / excess for share in self.shares)

    @property
    def weights(self) -> tuple[float, ...]:
        """Shares scaled to length 1: how Gaussian noise divides the budget."""
        length = math.hypot(*self._parts)
        return tuple(share / length for share in self._parts)

    @property
    def effective_strengths(self) -> tuple[float, ...]:
        """The strengths that are used: α_k + Δ_k = max(α_k, 2R²/(share_k·ε₀))."""
        if math.isinf(self.epsilon):
            return self.strengths
        return tuple(
            max(strength, smallest_strength(self._ideal_epsilon * share, self.row_norm))
            for strength, share in zip(self.strengths, self._parts, strict=True)
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """Scale of each model's noise: 1/κ_k of the gamma vector, or the standard deviation."""
        if math.isinf(self.epsilon):
            return (0.0,) * len(self.strengths)
        if self.delta == 0:
            return tuple(
                gamma_scale(self._ideal_epsilon * share, self.row_norm) for share in self._parts
            )
        return gaussian_scales(
            self._ideal_epsilon,
            self._ideal_delta,
            self.row_norm,
            self.effective_strengths,
            self.weights,
        )

    @property
    def _ideal_epsilon(self) -> float:
        """ε₀, what the ideal minimisers may cost."""
        rest = self.epsilon - min(self.epsilon * _OUTPUT_SHARE, _MOST_OUTPUT)
        return rest * (1 - 2.0**-50)

    @property
    def _output_epsilon(self) -> float:
        """ε', a hair below ε − ε₀ so that the two add up to no more than ε as floats."""
        return min(self.epsilon * _OUTPUT_SHARE, _MOST_OUTPUT) * (1 - 2.0**-20)

    @property
    def _ideal_delta(self) -> float:
        """δ₀: e^(ε'/2)·δ₀, and noise beyond its cap, stay within the event's δ."""
        return self._kept_delta * (1 - 2.0**-20) * math.exp(-0.5 * self._output_epsilon)

    @property
    def _kept_delta(self) -> float:
        # An accountant that rounds up needs room between the event's δ and the δ asked for.
        return self.delta * (1 - 2.0**-20)

    @property
    def event(self) -> DpEvent:
        """What the release of all K models costs."""
        if math.isinf(self.epsilon):
            from dp_accounting.dp_event import NonPrivateDpEvent

            return NonPrivateDpEvent()
        from tacit.privacy.events import EpsilonDeltaDpEvent

        return EpsilonDeltaDpEvent(epsilon=self.epsilon, delta=self._kept_delta)

    def solve(self, problems: list[Problem], entropy: Entropy) -> list[Array]:
        """Return the K private models, not yet accounted for; `release` is the way out."""
        if len(problems) != len(self.strengths):
            raise InvalidInput(f"problems: {len(problems)} for {len(self.strengths)} strengths")
        for problem in problems:
            if problem.rows.size and _longest(problem.rows) > self.row_norm * (1 + 2.0**-40):
                raise PrivacyLeak(
                    f"a row is longer than row_norm={self.row_norm!r}; bound the rows first "
                    "(RowClip or RowNormalise)"
                )
        return [
            minimise(
                problem.rows,
                problem.labels,
                np.zeros(known.dimension),
                known.strength,
                problem.centre,
                known,
            )
            if math.isinf(self.epsilon)
            else self._output(k, known).release(problem, entropy)
            for k, (problem, known) in enumerate(zip(problems, self._known(problems), strict=True))
        ]

    def _known(self, problems: list[Problem]) -> list[Accuracy]:
        """Return the public numbers of each problem."""
        return [
            Accuracy(
                n_rows=len(problem.rows),
                dimension=len(problem.centre),
                row_norm=self.row_norm,
                strength=strength,
                centre_norm=float(np.linalg.norm(problem.centre)) * (1 + 2.0**-30),
                linear_norm=0.0,
            )
            for problem, strength in zip(problems, self.effective_strengths, strict=True)
        ]

    def _output(self, k: int, known: Accuracy) -> Output:
        scale, epsilon = self.scales[k], self._output_epsilon * self._parts[k]
        if self.delta == 0:
            return Output.gamma(known, scale, epsilon)
        tail = 50 + self.epsilon - math.log(self.delta) + math.log(len(self.strengths))
        return Output.gaussian(known, scale, epsilon, tail)

    def release(self, problems: list[Problem], entropy: Entropy) -> Release:
        """Return the K models, one after the other in one vector, with their event."""
        return self.packed(self.solve(problems, entropy), entropy)

    def packed(self, models: list[Array], entropy: Entropy) -> Release:
        """Return solved models as one release; models on disjoint rows share one event.

        Guarantee: rows that enter one model only are protected by that model's noise alone
        (parallel composition), so models of disjoint sets of rows cost one event together.
        """
        return Release(
            value=np.concatenate([model.reshape(-1) for model in models]),
            event=self.event,
            mechanism=self.name,
            sound=self.sound,
            seeded=not entropy.system,
        )


def _longest(rows: Array) -> float:
    return float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
