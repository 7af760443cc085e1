"""What leaves: the minimiser with noise of its own on a grid of its own, and the proof of it.

The calibration (`tacit.privacy.objective.calibration`) is for the *ideal* mechanism: real noise b
and the exact minimiser w*(b). What a computer has is b̂, b rounded to a grid, and ŵ, near w*(b̂).
Published as they are they betray the data: ŵ gives b̂ back, and only the true data put it on its
grid. Therefore ŵ is released with further noise N, which hides where within ρ of ŵ the ideal point
lies:

    released = round(ŵ + N),    N of density ∝ exp(−‖N‖/s),  s = 2ρ/ε',

    ρ = (step·√d/2 + 2γ)/α,     ‖b̂ − b‖ ≤ step·√d/2 (the sampler rounds exactly),

because w* is 1/α-Lipschitz in b and ŵ is within 2γ/α of w*(b̂), whatever the data are
(`tacit.privacy.objective.accuracy`). ρ, s and the grid of the release are public.

*Proof.* Let A(D) = w*_D(b) + N with the ideal b. For a fixed b, ŵ and w*_D(b) are at most ρ apart,
so M(D) = ŵ + N has at most e^(ρ/s) = e^(ε'/2) times the density of A(D) and conversely; averaging
over b keeps that. If the ideal minimisers are (ε₀, δ₀)-DP, so is A (post-processing), and

    M(D) ≤ e^(ε'/2) A(D) ≤ e^(ε'/2) (e^ε₀ A(D') + δ₀) ≤ e^(ε₀+ε') M(D') + e^(ε'/2) δ₀.

Rounding is post-processing (`tacit.privacy.noise.perturb`). K models: densities multiply, and
ε' = Σ ε'_k.

*Noise beyond the cap.* ρ holds for ‖b‖ ≤ B only. Beyond it, and on a coin of probability 2⁻¹²⁸,
what is released is V, of density ∝ exp(−‖V‖/v), rounded to the same grid: an event and a value
that do not depend on the data.

For Gaussian b, B is such that P(‖b‖ > B) ≤ δe^(−50−ε)/K (a norm exceeds σ√d by σt with probability
at most e^(−t²/2)); up to that event M is the mechanism above, which adds (1 + e^ε)e^(−50−ε)δ to δ.

For gamma noise nothing may be added. Write f_D for the density of w*_D(b) with ‖b‖ ≤ B, and let b
under D' be beyond the cap at w (else the calibration's bound holds between f_D and f_D'). Then
‖b_D(w)‖ > B − 3R (the gradients of two rows, and the rounding of b), so with C the constant of
the gamma density in d dimensions, κ its rate and L^d the largest Jacobian, f_D(w) ≤
F = C(κL)^d e^(−κ(B − 3R)), and ‖w‖ ≤ W = ‖c‖ + (nR + 2B)/α. With N added this part has density at x
of at most F·P(‖N‖ ≥ ‖x‖ − W) ≤ F·e^((W − ‖x‖)/v)·(1 − s/v)^(−d) ≤ 2F·e^(1 − ‖x‖/v) if v ≥ W and
v ≥ 2ds (Chernoff; ‖N‖/s is Gamma(d)). The coin's V has density 2⁻¹²⁸·C·v^(−d)·e^(−‖x‖/v). So the
coin of D' pays for it with the share e^(ε'/2) · 2eF·v^d·2¹²⁸/C of itself, and that share is at most
ε' ≤ e^ε − 1, so that the coin of D is paid for as well, if

    κB ≥ 3κR + d·log(κLv) + 128·log 2 + 2 + ε' − log ε',

to which the cap is raised. Pure ε stays pure. ∎
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tacit._types import Array
from tacit.privacy.noise.entropy import Entropy
from tacit.privacy.noise.perturb import gamma_vector, gaussian, perturb_gamma_vector
from tacit.privacy.noise.rounding import grid_of
from tacit.privacy.objective.accuracy import Accuracy
from tacit.privacy.objective.minimiser import minimise

__all__ = ["Output", "Problem"]

_NOISE_BITS = 28  # the noise in the objective is rounded to 2⁻²⁸ of its deviation
_COIN_WORDS = 2
_UP = 1 + 2.0**-40


@dataclass(frozen=True, eq=False)
class Problem:
    """One logistic regression: bounded rows (n, d), labels (n,) in {0, 1}, a public centre (d,)."""

    rows: Array
    labels: Array
    centre: Array


@dataclass(frozen=True)
class Output:
    """The public numbers of one model's release (module docstring).

    Parameters
    ----------
    accuracy : Accuracy
        With the cap B of the noise's norm.
    pure : bool
        Gamma noise in the objective, or Gaussian.
    noise_scale : float
        1/κ, or σ.
    epsilon : float
        ε', the part of the model's budget that pays for rounding.

    Guarantee: `release` adds ε' to the ε of the ideal minimiser, and e^(ε'/2) as a factor to its δ.
    """

    accuracy: Accuracy
    pure: bool
    noise_scale: float
    epsilon: float

    @classmethod
    def gamma(cls, accuracy: Accuracy, scale: float, epsilon: float) -> Output:
        """Return the release of a model under gamma noise, its cap as the proof needs it."""
        cap = accuracy.dimension * scale
        while True:
            output = cls(replace(accuracy, linear_norm=cap), True, scale, epsilon)
            if cap * (1 - 2.0**-20) >= output._least_cap:
                output.accuracy.check()
                return output
            cap = 1.25 * cap + 100 * scale

    @classmethod
    def gaussian(cls, accuracy: Accuracy, scale: float, epsilon: float, tail: float) -> Output:
        """Return the release under Gaussian noise, whose norm exceeds the cap with e^−tail."""
        cap = scale * (math.sqrt(accuracy.dimension) + math.sqrt(2 * tail)) * (1 + 2.0**-20)
        accuracy = replace(accuracy, linear_norm=cap)
        accuracy.check()
        return cls(accuracy, False, scale, epsilon)

    @property
    def _least_cap(self) -> float:
        known, rate = self.accuracy, 1 / self.noise_scale
        growth = math.log(rate) + math.log(known.smoothness) + math.log(self.fallback_scale)
        coin = 64 * _COIN_WORDS * math.log(2)
        exponent = known.dimension * growth + coin + 2 + self.epsilon - math.log(self.epsilon)
        return 3 * known.row_norm + exponent * self.noise_scale

    @property
    def noise_step(self) -> float:
        """The grid of the noise in the objective."""
        spread = math.sqrt(self.accuracy.dimension + 1) if self.pure else 1.0
        return grid_of(self.noise_scale * spread, _NOISE_BITS)

    @property
    def distance(self) -> float:
        """ρ, how far the computed minimiser can be from the ideal one."""
        known = self.accuracy
        grid = 0.5 * self.noise_step * math.sqrt(known.dimension) / known.strength
        return (grid + known.distance) * _UP

    @property
    def scale(self) -> float:
        """The scale s = 2ρ/ε' of the noise N."""
        return 2 * self.distance / self.epsilon * _UP

    @property
    def step(self) -> float:
        """The grid of the release."""
        return grid_of(self.scale * math.sqrt(self.accuracy.dimension + 1))

    @property
    def fallback_scale(self) -> float:
        """The scale v of what is released in place of a model, independent of the data."""
        known = self.accuracy
        reach = known.n_rows * known.row_norm + 2 * known.linear_norm
        return known.centre_norm + reach / known.strength + 2 * known.dimension * self.scale

    def release(self, problem: Problem, entropy: Entropy) -> Array:
        """Return the model: computed minimiser plus N, rounded to `step`."""
        size, known = len(problem.centre), self.accuracy
        draw = gamma_vector if self.pure else gaussian
        noise = draw(self.noise_scale, size, entropy, step=self.noise_step)
        coin = entropy.integer(_COIN_WORDS) == 0
        if coin or float(np.linalg.norm(noise)) > known.linear_norm * (1 - 2.0**-30):
            return gamma_vector(self.fallback_scale, size, entropy, step=self.step)
        model = minimise(problem.rows, problem.labels, noise, known.strength, problem.centre, known)
        return perturb_gamma_vector(model, self.scale, entropy, step=self.step)
