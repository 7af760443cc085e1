"""The release: a budget divided over models and over what each pays for, and one event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit import _check
from tacit._types import Array
from tacit.errors import InvalidInput, PrivacyLeak
from tacit.privacy.accounting.gaussian import check_delta, check_epsilon, gaussian_mu
from tacit.privacy.mechanisms.release import Floats, Mechanism
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.objective.accuracy import Accuracy
from tacit.privacy.objective.calibration import gamma_scale, gaussian_scales, smallest_strength
from tacit.privacy.objective.minimiser import minimise
from tacit.privacy.objective.output import Output, Problem
from tacit.privacy.unit import Adjacency, Norm, Unit

if TYPE_CHECKING:
    from dp_accounting.dp_event import DpEvent

    from tacit.privacy.schedule import Round

__all__ = ["ObjectivePerturbation", "Problem", "Strength", "check_rows", "noise_norm"]


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
class Strength:
    """A ridge strength for n rows, max(least, constant + over_rows / n); all of it public."""

    constant: float
    over_rows: float = 0.0
    least: float = 0.0

    def __post_init__(self) -> None:
        _check.positive("strengths", self.constant, remedy="strong convexity is what is paid with")

    def at(self, n_rows: float) -> float:
        """Return the strength for ``n_rows``."""
        return max(self.least, self.constant + self.over_rows / n_rows)


def check_rows(name: str, round: Round, adjacency: Adjacency) -> None:
    """Raise `PrivacyLeak` unless every task learns at home from rows that its round bounds."""
    if not (round.unit is Unit.ROW and round.at_task and round.bound.kind == "rows"):
        raise PrivacyLeak(
            f"round {round.name!r}: {name} protects rows where they are learned from; it needs "
            "unit=Unit.ROW, noise=AtTask() and a bound of rows"
        )
    if adjacency is Adjacency.ADD_OR_REMOVE:
        raise PrivacyLeak(f"round {round.name!r}: {name} takes the number of rows as public")


@dataclass(frozen=True)
class ObjectivePerturbation(Mechanism):
    """K regularised logistic regressions on the same rows, released together.

    Parameters
    ----------
    epsilon : float
        ``float("inf")`` adds no noise.
    delta : float
        0: gamma noise, pure ε. Above 0: Gaussian noise.
    strengths : tuple of float or Strength
        The ridge strength α_k asked for in each model, on the scale of the *summed* loss
        (scikit-learn's 1/C); a `Strength` follows from the public number of rows.
    row_norm : float
        R, the public bound of every row of every model.
    shares : tuple of float, optional
        Budget of each model, summing to 1; equal by default. Gamma noise gives model k the pure
        budget share_k·ε; Gaussian noise has standard deviation ∝ 1/share_k. Both are what rows
        scaled to norm share_k·R get from one common noise scale.
    dimensions : tuple of int, optional
        Coefficients of each model, for `noise_norm`; by default as many in every model.

    The noise is in the objective, not on what is released: `scale`, `noise_norm` and `deviation`
    are about the random linear term b, beside which one row has a gradient of norm at most R.

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
    family: ClassVar[str] = "pure"
    norm: ClassVar[Norm] = Norm.L2

    epsilon: float
    delta: float
    strengths: tuple[float | Strength, ...]
    row_norm: float = 1.0
    shares: tuple[float, ...] | None = None
    dimensions: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        _check.positive("row_norm", self.row_norm, remedy="give the public bound of a row's norm")
        asked = tuple(s if isinstance(s, Strength) else Strength(s) for s in self.strengths)
        object.__setattr__(self, "strengths", asked)
        count = len(self.strengths)
        shares = (1.0 / count,) * count if self.shares is None else self.shares
        if len(shares) != count or min(shares) <= 0 or math.fsum(shares) > 1 + 1e-9:
            raise InvalidInput(
                f"shares={shares!r}: must be {count} positive numbers that sum to at most 1"
            )
        object.__setattr__(self, "shares", tuple(float(share) for share in shares))

    @classmethod
    def of_round(cls, round: Round, strength: float, adjacency: Adjacency) -> Mechanism:  # noqa: ARG003
        """Return one model at pure ε = ``strength``, no more regularised than it must be."""
        least = smallest_strength(strength, round.bound.radius)
        return cls(strength, 0.0, (least,), row_norm=round.bound.radius)

    @property
    def reach(self) -> float:
        """2R, how far a replaced row moves the gradient at most."""
        return math.inf if math.isinf(self.epsilon) else 2 * self.row_norm

    def check(self, round: Round, adjacency: Adjacency) -> None:
        """Raise `PrivacyLeak` if the round lets rows be longer than R, or bounds something else."""
        check_rows(self.name, round, adjacency)
        super().check(round, adjacency)

    @property
    def scale(self) -> float:
        """The largest of `scales`."""
        return max(self.scales)

    def noise_norm(self, shape: tuple[int, ...]) -> float:
        """Return √E‖b‖² over all models; ``shape`` holds their coefficients."""
        count = len(self.strengths)
        sizes = self.dimensions or (math.prod(shape) / count,) * count
        square = sum(
            scale**2 * size * (size + 1 if self.delta == 0 else 1)
            for scale, size in zip(self.scales, sizes, strict=True)
        )
        return math.sqrt(square)

    def deviation(self, shape: tuple[int, ...]) -> float:
        """Return the root mean square of an entry of b."""
        return self.noise_norm(shape) / math.sqrt(math.prod(shape))

    def at(self, n_rows: Sequence[float]) -> ObjectivePerturbation:
        """Return the mechanism with the strengths for these numbers of rows, one a model."""
        fixed = tuple(strength.at(n) for strength, n in zip(self._strengths, n_rows, strict=True))
        return replace(self, strengths=fixed)

    @property
    def _strengths(self) -> tuple[Strength, ...]:
        return tuple(s for s in self.strengths if isinstance(s, Strength))  # by __post_init__, all

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
        """The strengths that are used, at least: α_k + Δ_k = max(α_k, 2R²/(share_k·ε₀))."""
        asked = [strength.at(math.inf) for strength in self._strengths]
        if math.isinf(self.epsilon):
            return tuple(asked)
        return tuple(
            max(strength, smallest_strength(self._ideal_epsilon * share, self.row_norm))
            for strength, share in zip(asked, self._parts, strict=True)
        )

    @property
    def scales(self) -> tuple[float, ...]:
        """Scale of each model's noise: 1/κ_k of the gamma vector, or the standard deviation.

        Gaussian noise shrinks with the strength; where that depends on the rows, this is the most.
        """
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

    def perturbed(self, value: Any, entropy: Entropy) -> Floats:
        """Return the models of every task of ``value`` (K problems each), one task a row."""
        solved = [np.concatenate(self.solve(problems, entropy)) for problems in value]
        return np.stack(solved)

    def solve(self, problems: Sequence[Problem], entropy: Entropy) -> list[Array]:
        """Return the K private models, not yet accounted for; `release` is the way out."""
        if len(problems) != len(self.strengths):
            raise InvalidInput(f"problems: {len(problems)} for {len(self.strengths)} strengths")
        for problem in problems:
            if problem.rows.size and _longest(problem.rows) > self.row_norm * (1 + 2.0**-40):
                raise PrivacyLeak(
                    f"a row is longer than row_norm={self.row_norm!r}; bound the rows first "
                    "(RowClip or RowNormalise)"
                )
        return self.at([len(problem.rows) for problem in problems])._solved(problems, entropy)

    def _solved(self, problems: Sequence[Problem], entropy: Entropy) -> list[Array]:
        models = []
        for k, (problem, known) in enumerate(zip(problems, self._known(problems), strict=True)):
            if math.isinf(self.epsilon):
                rows, labels, none = problem.rows, problem.labels, np.zeros(known.dimension)
                model = minimise(rows, labels, none, known.strength, problem.centre, known)
            else:
                model = self._output(k, known).release(problem, entropy)
            models.append(model)
        return models

    def _known(self, problems: Sequence[Problem]) -> list[Accuracy]:
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


def _longest(rows: Array) -> float:
    return float(np.sqrt(np.einsum("ij,ij->i", rows, rows).max()))
