"""The methods by name, and what each would cost.

A method is any public estimator of many tasks whose fit needs nothing but rows, targets and tasks:
``shared-prior`` is `SharedPriorRegressor` or `SharedPriorClassifier`. The transfer estimators,
which need a source, are not among them; those of `tacit.neural` are where its extra is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.privacy.plan import Plan

__all__ = ["Advice", "advise", "estimator_class", "methods", "plan"]

# What to try, by what is to be hidden: methods that decide from public numbers whether to speak.
_CANDIDATES: dict[str, tuple[tuple[str, dict[str, Any]], ...]] = {
    "party": (("shared-prior", {}),),
    "row": (("shared-moments", {}), ("shared-moments", {"aggregation": "trusted"})),
}
# Moments have d² numbers: with more features than this, rows speak by gradients.
_MOST_FEATURES = 100
_BY_GRADIENTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("asynchronous", {}),
    ("asynchronous", {"aggregation": "trusted"}),
)
_SUFFIXES = ("Regressor", "Classifier")


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()


@cache
def methods() -> dict[str, dict[str, Any]]:
    """Return, for every method, its estimator classes by "regression" and "classification"."""
    import tacit
    from tacit.estimators import MultiTaskEstimator
    from tacit.estimators._row_private import RowPrivateClassifier

    found: dict[str, dict[str, Any]] = {}
    neural = tacit.NEURAL if all(map(find_spec, ("jax", "optax"))) else ()
    for name in (*tacit.ESTIMATORS, *neural):
        suffix = next((part for part in _SUFFIXES if name.endswith(part)), None)
        kind = getattr(tacit, name)
        if suffix is None or not issubclass(kind, MultiTaskEstimator):
            continue
        if issubclass(kind, RowPrivateClassifier):
            continue
        use = "regression" if suffix == "Regressor" else "classification"
        found.setdefault(_kebab(name.removesuffix(suffix)), {})[use] = kind
    return found


def estimator_class(method: str, kind: str) -> Any:
    """Return the estimator of a method for "regression", or for another kind of target."""
    if method not in methods():
        raise InvalidInput(f"method={method!r}: must be one of {', '.join(methods())}")
    use = "regression" if kind == "regression" else "classification"
    if use not in methods()[method]:
        raise InvalidInput(f"method={method!r}: does not do {use}; choose another method")
    return methods()[method][use]


@dataclass(frozen=True)
class Advice:
    """A method that can help, with the settings it needs, or single-task learning; and why."""

    method: str
    settings: dict[str, Any]
    reason: str


def advise(
    n_tasks: int,
    n_features: int,
    *,
    protect: str = "party",
    n_rows: int | None = None,
    epsilon: float = 1.0,
) -> Advice:
    """Return the first method whose releases can stand out of their noise, from public numbers.

    Parameters
    ----------
    protect : "party" or "row"
        What is to be hidden: all of a party's rows and its model, or every single row.
    n_rows : int
        Rows of all parties; needed where rows are hidden.
    """
    if protect not in _CANDIDATES:
        raise InvalidInput(f"protect={protect!r}: must be one of {', '.join(_CANDIDATES)}")
    if protect == "row" and n_rows is None:
        raise InvalidInput("n_rows=None: whether rows can be hidden depends on how many there are")
    many = protect == "row" and n_features > _MOST_FEATURES
    for method, settings in _BY_GRADIENTS if many else _CANDIDATES[protect]:
        made = plan(method, n_tasks, n_features, n_rows=n_rows, epsilon=epsilon, **settings)
        if made.releases:
            trust = f", curator {made.trust}" if made.trust != "untrusted" else ""
            reason = f"{n_tasks} parties stand out of noise that hides one {protect}{trust}"
            return Advice(method, dict(settings), reason)
    other = "" if protect == "row" else "; hiding single rows may still let them learn together"
    reason = f"noise that hides one {protect} would hide what {n_tasks} parties share{other}"
    return Advice("single-task", {}, reason)


def plan(
    method: str,
    n_tasks: int,
    n_features: int,
    *,
    n_outputs: int = 1,
    n_rows: int | None = None,
    **settings: Any,
) -> Plan:
    """Return what a fit would release and cost, from public numbers only.

    Parameters
    ----------
    method : str
        As on the command line: "shared-prior", "low-rank", …; see ``tacit methods``.
    n_tasks, n_features : int
    n_outputs : int
        Models per task: 1, or the classes if there are more than two.
    n_rows : int, optional
        Rows of all tasks, where rows are protected or pooled.
    settings
        Parameters of the estimator, such as ``epsilon`` or ``n_rounds``.

    The same as ``estimator(**settings).plan(…)``, for every method and by name.
    """
    kind = "classification" if n_outputs != 1 or "classes" in settings else "regression"
    chosen = estimator_class(method, kind)
    unknown = sorted(set(settings) - set(chosen._get_param_names()))
    if unknown:
        raise InvalidInput(
            f"{unknown[0]}={settings[unknown[0]]!r}: {method} has no such parameter; it has "
            f"{', '.join(chosen._get_param_names())}"
        )
    planned: Plan = chosen(**settings).plan(n_tasks, n_features, n_outputs=n_outputs, n_rows=n_rows)
    return planned
