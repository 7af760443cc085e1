"""The methods a user can name, found among the public estimators."""

from __future__ import annotations

from typing import Any

from tacit.methods import estimator_class
from tacit.methods import methods as known

__all__ = ["DEFAULT", "estimator_class", "methods", "parameters_of", "purpose", "reads_batches"]

DEFAULT = "shared-prior"
_PURPOSES = {
    "shared-prior": "the default: related tasks of any size; personal models under a learned prior",
    "low-rank": "tasks that share a few directions; several rounds",
    "group-sparse": "many features of which few matter, the same ones for all tasks",
    "low-rank-sparse": "tasks that share a few directions, with features of their own besides",
    "mean-regularized": "tasks that differ little from a common model",
    "task-relationship": "few tasks, positively or negatively related; noise at every task",
    "shared-moments": "few sites with many rows: hides single rows, not whole sites",
    "asynchronous": "sites that come and go: hides single rows from an untrusted server",
    "averaged": "one common model by a single private average",
    "single-task": "no sharing at all: the baseline everybody can have",
    "pooled": "all rows in one place, no privacy: the other extreme",
}


def methods() -> dict[str, dict[str, Any]]:
    """Return, for every method, its estimator classes, the usual ones first."""
    found = known()
    order = [name for name in _PURPOSES if name in found]
    return {name: found[name] for name in [*order, *sorted(set(found) - set(order))]}


def purpose(method: str) -> str:
    """Say in a line what a method is for."""
    if method in _PURPOSES:
        return _PURPOSES[method]
    kind = next(iter(methods()[method].values()))
    return (kind.__doc__ or "").strip().splitlines()[0]


def parameters_of(estimator: Any) -> list[str]:
    """Return the names of an estimator class's parameters."""
    return list(estimator._get_param_names())


def reads_batches(method: str, epsilon: float | None) -> bool:
    """Whether a method learns from a file a batch of tasks at a time, with that budget."""
    kind = next(iter(methods()[method].values()))
    budget = {} if epsilon is None or "epsilon" not in parameters_of(kind) else {"epsilon": epsilon}
    return bool(kind(**budget)._reads_batches)
