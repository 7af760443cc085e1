"""What regressors keep, where it was asked for, to say how far a prediction may be off."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._types import Array, IntArray
from tacit.errors import InvalidInput, UnknownTask
from tacit.numerics.threads import quiet_arithmetic
from tacit.tasks import TaskSet

__all__ = ["deviations", "keep", "refuse"]

_CHUNK = 1 << 22  # numbers of gathered spreads held at once


def refuse(name: str, value: Any) -> None:
    """Refuse to keep what predictions of classes do not use."""
    raise InvalidInput(
        f"{name}={value!r}: must be False here, intervals are for regressors; predict_proba says "
        "how sure a class is"
    )


def keep(model: Any, tasks: TaskSet, *, later: bool) -> None:
    """Keep the spread of these tasks; of a ``later`` party, behind the others."""
    kept = getattr(model, "spread_", None) if later else None
    wanted = kept is not None if later else getattr(model, "intervals", False)
    if not wanted:
        if not later:
            model.spread_ = None
        return
    with quiet_arithmetic():
        found = model._spread(tasks)
    parts = {"noise_": found.noise, "centre_": found.centre, "spread_": found.spread}
    for name, value in parts.items():
        setattr(model, name, np.concatenate([getattr(model, name), value]) if later else value)


def deviations(model: Any, rows: Array, index: IntArray) -> Array:
    """Return the standard deviation of what is predicted for rows of the tasks at ``index``."""
    spread: Array | None = getattr(model, "spread_", None)
    if spread is None:
        raise InvalidInput(
            f"return_std=True: this {type(model).__name__} kept no spread; fit with "
            "intervals=True (SharedPrior, MeanRegularized and SingleTask regressors have it)"
        )
    if (index < 0).any():
        raise UnknownTask(
            "return_std=True: a task that was not there at fit time has no rows to judge its "
            "predictions by; leave its rows out"
        )
    found = np.empty(len(rows))
    chunk = max(1, _CHUNK // (rows.shape[1] + 1) ** 2)
    for first in range(0, len(rows), chunk):
        part = slice(first, first + chunk)
        own = index[part]
        apart = np.column_stack([rows[part] - model.centre_[own], np.ones(len(own))])
        left_open = np.einsum("np,npq,nq->n", apart, spread[own], apart)
        found[part] = np.sqrt(model.noise_[own] + np.maximum(left_open, 0.0))
    return found
