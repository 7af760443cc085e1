"""Parameter constraints, declared as scikit-learn declares them and checked in one place.

A class says in ``_parameter_constraints``, by parameter, what it allows: a list of values and, as
its last entry, a rule for the rest, such as ``["auto", rule(_check.positive, remedy="…")]``.
Declarations are inherited; a class repeats only what it changes. What ties parameters to each other
stays in ``_check_parameters``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

__all__ = ["Constraints", "anything", "constraints_of", "rule", "validate"]

Constraints = Mapping[str, Sequence[Any]]

rule = partial
"""A check of `tacit._check` with all but the parameter's name and value given."""


def anything(name: str, value: Any) -> None:
    """Allow what can be judged only with the data's sizes or with other parameters."""


def constraints_of(kind: type) -> dict[str, Sequence[Any]]:
    """Return what a class and its bases declare; the nearest declaration of a parameter counts."""
    found: dict[str, Sequence[Any]] = {}
    for base in reversed(kind.__mro__):
        found.update(vars(base).get("_parameter_constraints", {}))
    return found


def validate(estimator: Any) -> None:
    """Refuse the first parameter of an estimator that its class does not allow."""
    declared = constraints_of(type(estimator))
    for name, value in estimator.get_params(deep=False).items():
        *values, refuse = declared.get(name, [anything])
        if not any(value is None if v is None else _equal(value, v) for v in values):
            refuse(name, value)


def _equal(value: Any, allowed: Any) -> bool:
    return type(value) is type(allowed) and bool(value == allowed)
