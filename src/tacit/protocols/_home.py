"""What several protocols do at home."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tacit._types import AnyArray, Array, IntArray
from tacit.errors import InvalidInput
from tacit.losses import Loss
from tacit.numerics.kernels import row_products
from tacit.numerics.local_fit import local_fit, local_fits
from tacit.numerics.prior import Prior
from tacit.tasks import TaskSet

__all__ = ["Outputs", "Priors", "check_places", "fitted", "joining", "shadow"]

Outputs = tuple[TaskSet, ...]
"""A stack of tasks, once per output."""
Priors = Sequence[Prior]


def fitted(
    outputs: Outputs,
    loss: Loss,
    priors: Sequence[Priors] | None = None,
    *,
    intercept: bool = True,
    alpha: float | str = "auto",
    many: bool | None = None,
) -> Array:
    """Return every task's own models (m, k, d + 1) under the priors of each output.

    The intercept comes last; without ``priors`` tasks learn alone.

    Guarantee: row i depends on task i's rows and the (public) priors only.
    """
    if priors is None:
        fits = local_fits(outputs, loss, alpha=alpha, intercept=intercept, many=many)
    else:
        fits = tuple(
            local_fit(rows, loss, alpha=alpha, intercept=intercept, priors=candidates, many=many)
            for rows, candidates in zip(outputs, priors, strict=True)
        )
    return np.stack([np.column_stack([fit.coef, fit.intercept]) for fit in fits], axis=1)


def check_places(positions: IntArray, n_tasks: int) -> None:
    """Refuse two tasks of one home at one place, and places that do not exist; −1 came late."""
    places = positions[positions >= 0]
    if len(np.unique(places)) < len(places) or np.any(places >= n_tasks):
        raise InvalidInput(
            f"positions={positions.tolist()}: every task of a home needs its own place among the "
            f"{n_tasks}; two tasks at one place would share one budget"
        )


def joining(messages: Array, joined: AnyArray | None) -> Array:
    """Return the messages of those who joined; all of them for None."""
    return messages if joined is None else messages[joined]


def shadow(rows: TaskSet, direction: Array) -> TaskSet:
    """Return the tasks with one feature, every row's shadow on ``direction``."""
    return rows.replace(X=row_products(rows.X, direction)[:, None])
