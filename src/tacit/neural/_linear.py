"""What descent on a linear model needs to know of a task's rows, found at home.

Nobody else knows how long a task's rows are, and whoever chooses a step or a strength without
knowing chooses wrongly for most data.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tacit._types import Array
from tacit.neural.rows import StackedRows

__all__ = ["Extent"]

_BLOCK = 32
_POWERS = 12
_MARGIN = 1.1  # twelve powers come near the largest eigenvalue, from below
_TINY = 1e-30


@dataclass(frozen=True)
class Extent:
    """Rows x̃ = (x, 1) of every task: largest eigenvalue of mean x̃x̃ᵀ, and mean ‖x̃‖², each (m,)."""

    largest: Array
    square: Array
    counts: Array

    @classmethod
    def of(cls, rows: StackedRows) -> Extent:
        """Measure the rows of every task, one after the other."""
        largest, square = _measured(rows)
        counts = np.maximum(np.asarray(rows.counts, np.float64), 1)
        return cls(np.asarray(largest, np.float64), np.asarray(square, np.float64), counts)

    def strength(self, relative: float) -> Array:
        """Return λ of a pull under which a score varies by 1/√relative around the centre's.

        ``relative`` is the ratio of the pull to what one row says: λ n = relative · mean ‖x̃‖².
        """
        return relative * self.square / self.counts

    def rate(self, curvature: float, strength: float | Array) -> Array:
        """Return the step 1/L under a loss of that curvature and a pull of λ ``strength``."""
        steps: Array = 1.0 / np.maximum(_MARGIN * curvature * self.largest + strength, _TINY)
        return steps


@partial(jax.jit)
def _measured(rows: StackedRows) -> Any:
    flat = rows.X.reshape(len(rows.X), -1)

    def over_rows(first: Any, count: Any, start: Any, add: Any) -> Any:
        """Return the mean of ``add(x̃, weight)`` over blocks of a task's rows."""

        def block(b: Any, total: Any) -> Any:
            place = b * _BLOCK + jnp.arange(_BLOCK)
            x = flat[first + jnp.minimum(place, count - 1)]
            x = jnp.concatenate([x, jnp.ones((_BLOCK, 1), x.dtype)], axis=1)
            return total + add(x, (place < count).astype(x.dtype))

        total = jax.lax.fori_loop(0, (count + _BLOCK - 1) // _BLOCK, block, start)
        return total / jnp.maximum(count, 1)

    def one(task: tuple[Any, Any]) -> tuple[Any, Any]:
        zeros = jnp.zeros(flat.shape[1] + 1, flat.dtype)
        squares = over_rows(*task, zeros, lambda x, weight: weight @ x**2)

        def power(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
            vector, _ = state
            after = over_rows(*task, zeros, lambda x, weight: (weight * (x @ vector)) @ x)
            size = jnp.linalg.norm(after)
            return after / jnp.maximum(size, _TINY), size

        begun = squares / jnp.maximum(jnp.linalg.norm(squares), _TINY)
        return jax.lax.fori_loop(0, _POWERS, power, (begun, 0.0))[1], jnp.sum(squares)

    return jax.lax.map(one, (rows.first, rows.counts))
