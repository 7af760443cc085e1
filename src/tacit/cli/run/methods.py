"""The methods a user can name, found among the public estimators."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tacit.errors import InvalidInput

__all__ = ["DEFAULT", "estimator_class", "methods", "parameters_of", "purpose"]

DEFAULT = "shared-prior"
_SUFFIXES = ("Regressor", "Classifier")
_PURPOSES = {
    "shared-prior": "the default: related tasks of any size; personal models under a learned prior",
    "low-rank": "tasks that share a few directions; several rounds",
    "group-sparse": "many features of which few matter, the same ones for all tasks",
    "low-rank-sparse": "tasks that share a few directions, with features of their own besides",
    "mean-regularized": "tasks that differ little from a common model",
    "task-relationship": "few tasks, positively or negatively related; noise at every task",
    "shared-moments": "few sites with many rows: hides single rows, not whole sites",
    "averaged": "one common model by a single private average",
    "single-task": "no sharing at all: the baseline everybody can have",
    "pooled": "all rows in one place, no privacy: the other extreme",
}


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


@cache
def methods() -> dict[str, dict[str, Any]]:
    """Return, for every method, its estimator classes by "regression" and "classification".

    A method is any public estimator of many tasks whose fit needs nothing but rows, targets and
    tasks; the transfer estimators, which need a source, are not among them.
    """
    import tacit
    from tacit.estimators import MultiTaskEstimator
    from tacit.estimators._row_private import RowPrivateClassifier

    found: dict[str, dict[str, Any]] = {}
    for name in tacit.ESTIMATORS:
        suffix = next((part for part in _SUFFIXES if name.endswith(part)), None)
        kind = getattr(tacit, name)
        if suffix is None or not issubclass(kind, MultiTaskEstimator):
            continue
        if issubclass(kind, RowPrivateClassifier):
            continue
        use = "regression" if suffix == "Regressor" else "classification"
        found.setdefault(_kebab(name.removesuffix(suffix)), {})[use] = kind
    order = [*(name for name in _PURPOSES if name in found)]
    return {name: found[name] for name in [*order, *sorted(set(found) - set(order))]}


def purpose(method: str) -> str:
    """Say in a line what a method is for."""
    if method in _PURPOSES:
        return _PURPOSES[method]
    kind = next(iter(methods()[method].values()))
    return (kind.__doc__ or "").strip().splitlines()[0]


def estimator_class(method: str, kind: str) -> Any:
    """Return the estimator of a method for a kind of target."""
    if method not in methods():
        raise InvalidInput(
            f"--method {method!r}: must be one of {', '.join(methods())}; see: tacit methods"
        )
    use = "regression" if kind == "regression" else "classification"
    if use not in methods()[method]:
        raise InvalidInput(
            f"--method {method}: does not do {use}; choose another method, see: tacit methods"
        )
    return methods()[method][use]


def parameters_of(estimator: Any) -> list[str]:
    """Return the names of an estimator class's parameters."""
    return list(estimator._get_param_names())
