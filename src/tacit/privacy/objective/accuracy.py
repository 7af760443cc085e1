"""How near a computed minimiser is to the exact one: proved, from public numbers alone.

For float inputs rows, labels, b, c the loss is f(w) = Σ log(1 + e^z) − y z + bᵀw + (α/2)‖w − c‖²,
its gradient G, its minimiser w*; n rows of norm ≤ R in d dimensions, ‖b‖ ≤ B. f is α-strongly
convex and L-smooth, L = nR²/4 + α.

*Where w* is.* f(w*) ≤ f(c), 0 ≤ Σ loss(w*) and Σ loss(c) ≤ nλ with λ = log 2 + R‖c‖ give, for
r = ‖w* − c‖, (α/2)r² ≤ nλ + Br, hence r ≤ W = 2B/α + √(2nλ/α).

*Rounding* (u = 2⁻⁵³). For ‖w − c‖ ≤ T = 9W/8 the gradient as it is computed errs by at most

    u·[nR(m + 8 + dR(‖c‖ + T)/4) + 5(B + αT)]

to first order, whatever the rows and labels are: a score errs by at most du·R‖w‖ (any order of
summation) and the logistic function is ¼-Lipschitz (it errs itself by at most 4 units in the last
place: assumed, as in `tacit.privacy.noise.reals`); products and sums of n residuals, in blocks of
1024 rows, pass at most m = 1024 + ⌈n/1024⌉ + 1 roundings; the rest is a handful. One step w − G/L,
put back into the ball of radius W around c where it leaves it, errs, times L, by at most
u·[nR + B + αT + 6L(‖c‖ + T)] more. `rounding`, γ, is twice the sum of both; underflow and terms of
second order are far below the factor of two.

*Newton.* A point within T of c whose computed gradient is at most τ = γ has a true gradient of at
most 3γ/2, hence is within 3γ/(2α) of w*.

*Gradient descent* reaches w* without luck: the map w − G(w)/L is a (1 − α/L)-contraction (its
derivative I − H/L lies between 0 and 1 − α/L), the projection to a ball that holds w* moves nothing
away from it, a computed step errs by at most γ/(2L), so from c

    ‖w_t − w*‖ ≤ (1 − α/L)ᵗ W + γ/(2α),

and after t ≥ (L/α) log(2αW/γ) steps the distance is at most γ/α. Either way the point returned is
within 2γ/α of w*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit.errors import InvalidInput

__all__ = ["BLOCK", "Accuracy"]

BLOCK = 1024  # rows summed at once; sums of blocks keep rounding far below n·2⁻⁵³
_UNIT = 2.0**-53


@dataclass(frozen=True)
class Accuracy:
    """The public numbers of one minimisation, and what follows from them (module docstring).

    Parameters
    ----------
    n_rows, dimension : int
    row_norm : float
        R, the bound of every row.
    strength : float
        α.
    centre_norm : float
        ‖c‖.
    linear_norm : float
        B, the bound of ‖b‖.

    Guarantee: no attribute depends on rows or labels; `distance` bounds ‖w − w*‖ for whatever
    `minimise` returns.
    """

    n_rows: int
    dimension: int
    row_norm: float
    strength: float
    centre_norm: float
    linear_norm: float

    @property
    def radius(self) -> float:
        """W, how far the minimiser can be from the centre, rounded up."""
        start = self.n_rows * (math.log(2) + self.row_norm * self.centre_norm)
        least = 2 * self.linear_norm / self.strength + math.sqrt(2 * start / self.strength)
        return least * (1 + 2.0**-30)

    @property
    def smoothness(self) -> float:
        """L = nR²/4 + α, rounded up."""
        return (0.25 * self.n_rows * self.row_norm**2 + self.strength) * (1 + 2.0**-30)

    @property
    def rounding(self) -> float:
        """γ, the rounding of a gradient and a step, and the tolerance τ of a gradient."""
        ball, depth = 1.125 * self.radius, BLOCK + math.ceil(self.n_rows / BLOCK) + 1
        length = self.centre_norm + ball
        pulls = self.linear_norm + self.strength * ball
        scores = 0.25 * self.dimension * self.row_norm * length
        rows = self.n_rows * self.row_norm * (depth + 9 + scores)
        return 2 * _UNIT * (rows + 6 * pulls + 6 * self.smoothness * length)

    @property
    def distance(self) -> float:
        """2γ/α, how far a computed minimiser can be from the exact one."""
        return 2 * self.rounding / self.strength

    @property
    def most_steps(self) -> int:
        """Steps of gradient descent that always suffice."""
        ratio = max(2.0, 2 * self.strength * self.radius / self.rounding)
        return math.ceil(self.smoothness / self.strength * math.log(ratio)) + 1

    def check(self) -> None:
        """Raise where rounding would exceed the model itself; public numbers decide it."""
        if not self.rounding <= 2.0**-10 * self.strength * self.radius:
            raise InvalidInput(
                f"alpha={self.strength:g}: too weak for {self.n_rows} rows of norm "
                f"{self.row_norm:g} in floating point; raise alpha or lower epsilon"
            )
