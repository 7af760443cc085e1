"""Who is attacked: every public estimator, in every configuration its own parameters offer.

Nobody is listed by name. An estimator is found because it is public, and configured because its
constructor has the parameter a variant sets; so a new one is attacked from the day it exists.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from typing import Any

from tacit.errors import InvalidInput

__all__ = ["estimators", "is_private", "mechanisms", "protocols", "variants"]

_PACKAGES = ("tacit", "tacit.neural")

# A variant applies to an estimator whose constructor has all of these parameters.
_VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "pure": {"delta": 0.0},
    "approximate": {"delta": "auto"},
    "clip": {"clip": 3.0},
    "proximal": {"update": "proximal", "clip": 3.0},
    "rows": {"epsilon_rows": 1.0, "target_bound": 2.0},
    "shared": {"unknown_task": "shared"},
    "trusted": {"aggregation": "trusted"},
}
# Parameters every attack sets where they exist: what a statement calls public is declared.
_PUBLIC: dict[str, Any] = {"classes": (0, 1)}


def estimators() -> dict[str, type[Any]]:
    """Return every public estimator class by name, those of optional packages included."""
    found: dict[str, type[Any]] = {}
    for package in _PACKAGES:
        try:
            module = importlib.import_module(package)
        except ModuleNotFoundError:
            continue
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind) and hasattr(kind, "fit") and hasattr(kind, "get_params"):
                found[name] = kind
    return found


def is_private(kind: type[Any]) -> bool:
    """Return whether an estimator class makes a privacy claim: it has a budget."""
    return "epsilon" in inspect.signature(kind).parameters


def variants(name: str, *, epsilon: float = 1.0) -> dict[str, Any]:
    """Return the configured, unfitted estimators of a name by variant.

    Raises `InvalidInput` if the name is not that of a public estimator.
    """
    kinds = estimators()
    if name not in kinds:
        raise InvalidInput(f"{name!r}: not a public estimator; known are {', '.join(kinds)}")
    kind = kinds[name]
    parameters = inspect.signature(kind).parameters
    common = {key: value for key, value in _PUBLIC.items() if key in parameters}
    if "epsilon" in parameters:
        common["epsilon"] = epsilon
    if not is_private(kind):
        return {"default": kind(**common)}
    return {
        label: kind(**common, **settings)
        for label, settings in _VARIANTS.items()
        if set(settings) <= set(parameters) and not _same_as_default(settings, parameters)
    }


def _same_as_default(settings: dict[str, Any], parameters: Any) -> bool:
    return bool(settings) and all(parameters[k].default == v for k, v in settings.items())


def protocols() -> dict[str, type[Any]]:
    """Return every concrete conversation in `tacit.protocols`: what speaks and finishes."""
    package = importlib.import_module("tacit.protocols")
    found: dict[str, type[Any]] = {}
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        loaded = importlib.import_module(module.name)
        for name, kind in inspect.getmembers(loaded, inspect.isclass):
            if kind.__module__ != module.name or inspect.isabstract(kind):
                continue
            if hasattr(kind, "speak") and hasattr(kind, "finish"):
                found[name] = kind
    return found


def mechanisms() -> tuple[str, ...]:
    """Return the name of every sound mechanism that claims privacy."""
    from tacit.privacy import MECHANISMS

    return tuple(name for name, kind in MECHANISMS.items() if not _claims_nothing(kind))


def _claims_nothing(kind: type[Any]) -> bool:
    if inspect.signature(kind).parameters:
        return False
    from dp_accounting.dp_event import NonPrivateDpEvent

    return isinstance(kind().event, NonPrivateDpEvent)
