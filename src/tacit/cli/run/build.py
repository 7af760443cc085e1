"""The estimator that a command line asks for."""

from __future__ import annotations

import math
from typing import Any

from tacit.cli.run.methods import estimator_class, parameters_of
from tacit.errors import InvalidInput

__all__ = ["build", "refuse_means_of_rows", "total_delta"]

# Parameters with an option of their own; --set is for the others.
_OPTIONS = {
    "epsilon": "--epsilon",
    "delta": "--delta",
    "mechanism": "--mechanism",
    "clip": "--clip",
    "n_rounds": "--rounds",
    "random_state": "--seed",
    "unknown_task": "--unknown-task",
    "classes": "--classes",
    "ledger": "--ledger",
    "data": "--data-name",
    "progress": None,
    "engine": "--engine",
}


def build(method: str, kind: str, given: dict[str, Any], extra: dict[str, Any]) -> Any:
    """Return an unfitted estimator; ``given`` holds options by parameter, None if left out."""
    chosen = estimator_class(method, kind)
    known = parameters_of(chosen)
    settings = {name: value for name, value in given.items() if value is not None}
    for name in settings:
        if name not in known:
            raise InvalidInput(
                f"{_OPTIONS[name]}: --method {method} has no such setting; leave it out"
            )
    free = [name for name in known if name not in _OPTIONS]
    for name in extra:
        if name in _OPTIONS:
            raise InvalidInput(f"--set {name}: use {_OPTIONS[name] or 'the default'} instead")
        if name not in free:
            raise InvalidInput(
                f"--set {name}: --method {method} has no such parameter; it has {', '.join(free)}"
            )
    estimator = chosen(**settings, **extra)
    estimator._check_parameters()
    return estimator


def total_delta(estimator: Any, n_tasks: int) -> float:
    """Return the δ of a run on ``n_tasks`` tasks."""
    from tacit.estimators._private import default_delta

    return default_delta(n_tasks) if estimator.delta == "auto" else float(estimator.delta)


def refuse_means_of_rows(prepared: Any, estimator: Any) -> None:
    """Refuse gaps that were filled with means of rows where a single row is protected.

    Guarantee: one row enters no other one. A mean of rows would carry it into every row that has a
    gap, and the sums of a method that hides one row would move by all of them.
    """
    protects = getattr(estimator, "_protects_rows", False)
    private = math.isfinite(getattr(estimator, "epsilon", math.inf))
    if protects and private and prepared.n_filled and prepared.intake.missing == "task-mean":
        raise InvalidInput(
            "--missing: single rows are protected here, and a mean of rows would cost budget; "
            "choose --missing drop or a number"
        )
