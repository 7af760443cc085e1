"""Newton's method for a regression of so many rows that passes over them are what costs.

Predictions, slopes and curvatures of a block of rows are taken while it is in cache, so that one
pass tells gradient and Hessian. Neither depends on the penalty but by a term that is known, so the
pass at one strength's minimiser gives the first step at the next one too, and the Hessian that
leave-one-out asks for.

Guarantee: what is found depends on the regression's own rows, labels and penalties alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from tacit._types import Array
from tacit.numerics.newton import GRADIENT, SHORT, LogisticStack, newton
from tacit.numerics.stacks import solve

__all__ = ["TALL", "TallPath", "left_out"]

TALL = 2048  # rows: below, a stack of regressions at once is quicker
_BLOCK = 1024
_NARROW = 36
_SAME = 1e-6
_MAX_ROUNDS = 30


@dataclass(frozen=True)
class _Pass:
    """Predictions (n,), and the losses' gradient (p,) and Hessian (p, p), without penalties."""

    z: Array
    slope: Array
    bend: Array


def _swept(stack: LogisticStack, z: Array, bend: Array | None = None) -> _Pass:
    """Return what one pass over a lone regression's rows tells at predictions ``z`` (n,).

    Nothing new of the Hessian, if ``bend`` is given.
    """
    n, p = stack.rows.shape[1:]
    slope, found = np.zeros(p), np.zeros((p, p))
    for low in range(0, n, _BLOCK):
        part = (0, slice(low, low + _BLOCK))
        rows, weights, chance = stack.rows[part], stack.weights[part], expit(z[part[1]])
        slope += (weights * (chance - stack.labels[part])) @ rows
        if bend is None:
            curvature = weights * chance * (1 - chance)
            if p <= _NARROW:
                found += rows.T @ (rows * curvature[:, None])
            else:
                bent = rows * np.sqrt(curvature)[:, None]
                found += bent.T @ bent  # of one array with itself: half the work, if it is wide
    return _Pass(z, slope, found if bend is None else bend)


def left_out(stack: LogisticStack, z: Array, inverse: Array) -> Array:
    """Return the log-odds (b, n) of every row left out, by one Newton step from the minimiser.

    ``inverse`` (b, p, p) is that of the Hessian at predictions ``z`` (b, n).
    """
    found = np.empty_like(z)
    for task, low in np.ndindex(len(z), -(-z.shape[1] // _BLOCK)):
        part = (task, slice(low * _BLOCK, (low + 1) * _BLOCK))
        rows, weights, chance = stack.rows[part], stack.weights[part], expit(z[part])
        leverage = np.einsum("np,np->n", rows @ inverse[task], rows)
        bend, slope = weights * chance * (1 - chance), weights * (chance - stack.labels[part])
        # The leverage of a row times its curvature is below one; rounding must not cross it.
        found[part] = z[part] + leverage * slope / np.maximum(1 - leverage * bend, 1e-12)
    return found


class TallPath:
    """Minimisers of one regression at one strength after the other, each from the last one's."""

    def __init__(self, stack: LogisticStack) -> None:
        self._stack = stack
        self._u: Array = np.zeros(stack.rows.shape[2])
        self._pass = _swept(stack, stack.predictions(self._u[None])[0])
        self._limit = GRADIENT * max(float(np.linalg.norm(self._pass.slope)), 1.0)

    def at(self, penalty: Array) -> tuple[LogisticStack, Array, Array, Array]:
        """Return the regression with this penalty (1, p), and its minimiser (1, p).

        And the predictions (1, n) and the Hessian (1, p, p) there. Steps are taken as in `newton`
        as long as they are short, so that none has to be evaluated; a long one is left to it, and
        so is whatever is not finite. Curvatures of predictions that moved by less than `_SAME` are
        those from before, by a relative e^s − 1.
        """
        stack, before, kept = replace(self._stack, penalty=penalty), np.inf, None
        for _ in range(_MAX_ROUNDS):
            gradient = self._pass.slope + penalty[0] * self._u
            size = float(np.linalg.norm(gradient))
            # At the limit of the arithmetic a gradient does not shrink any more.
            if size <= self._limit or (kept is not None and size > 0.5 * before):
                break
            before = size
            direction = solve(self._hessian(stack), gradient[None, :, None])[0, :, 0]
            moved = self._u - direction
            z = stack.predictions(moved[None])[0]
            shift = np.abs(z - self._pass.z).max()
            if not shift <= SHORT:
                moved = newton(stack, self._u[None])[0]
                self._u, self._pass = moved, _swept(stack, stack.predictions(moved[None])[0])
                break
            kept = self._pass.bend if shift <= _SAME else None
            self._u, self._pass = moved, _swept(stack, z, kept)
            if np.linalg.norm(direction) <= 1e-15 * np.linalg.norm(moved):
                break
        return stack, self._u[None], self._pass.z[None], self._hessian(stack)

    def _hessian(self, stack: LogisticStack) -> Array:
        return stack.penalised(self._pass.bend[None].copy())
