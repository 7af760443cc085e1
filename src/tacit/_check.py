"""Parameter checks with one voice: the parameter, the value, the remedy."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from tacit.errors import InvalidInput

__all__ = [
    "above",
    "below",
    "flag",
    "fraction",
    "instance",
    "non_negative",
    "number",
    "one_of",
    "positive",
    "positive_integer",
    "whole",
]


def number(name: str, value: Any, *, remedy: str) -> float:
    """Return ``value`` as a float if it is a number."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(float(value)):
        raise InvalidInput(f"{name}={value!r}: must be a number; {remedy}")
    return float(value)


def positive(name: str, value: Any, *, remedy: str, allow_inf: bool = False) -> float:
    """Return ``value`` as a float if it is > 0 (and finite, unless ``allow_inf``)."""
    found = number(name, value, remedy=remedy)
    if found <= 0 or (math.isinf(found) and not allow_inf):
        finite = "" if allow_inf else " and finite"
        raise InvalidInput(f"{name}={value!r}: must be positive{finite}; {remedy}")
    return found


def non_negative(name: str, value: Any, *, remedy: str) -> float:
    """Return ``value`` as a float if it is ≥ 0 and finite."""
    found = number(name, value, remedy=remedy)
    if found < 0 or math.isinf(found):
        raise InvalidInput(f"{name}={value!r}: must be at least 0 and finite; {remedy}")
    return found


def above(name: str, value: Any, *, limit: float, remedy: str) -> float:
    """Return ``value`` as a float if it is above ``limit`` and finite."""
    found = positive(name, value, remedy=remedy)
    if found <= limit:
        raise InvalidInput(f"{name}={value!r}: must be above {limit:g}; {remedy}")
    return found


def below(name: str, value: Any, *, limit: float, remedy: str, included: bool = False) -> float:
    """Return ``value`` as a float if it is ≥ 0 and below ``limit`` (or at it, if ``included``)."""
    found = non_negative(name, value, remedy=remedy)
    if found > limit or (found == limit and not included):
        relation = "at most" if included else "below"
        raise InvalidInput(f"{name}={value!r}: must be {relation} {limit:g}; {remedy}")
    return found


def fraction(name: str, value: Any, *, remedy: str) -> float:
    """Return ``value`` as a float if 0 < value < 1."""
    found = number(name, value, remedy=remedy)
    if not 0 < found < 1:
        raise InvalidInput(f"{name}={value!r}: must lie strictly between 0 and 1; {remedy}")
    return found


def whole(name: str, value: Any, *, least: int, remedy: str, most: float = math.inf) -> int:
    """Return ``value`` as an int if it is a whole number from ``least`` to ``most``."""
    number_like = isinstance(value, Integral) and not isinstance(value, bool)
    if not number_like or not least <= int(value) <= most:
        limit = "" if math.isinf(most) else f" and at most {most:g}"
        raise InvalidInput(
            f"{name}={value!r}: must be a whole number of at least {least}{limit}; {remedy}"
        )
    return int(value)


def positive_integer(name: str, value: Any, *, remedy: str) -> int:
    """Return ``value`` as an int if it is a whole number ≥ 1."""
    return whole(name, value, least=1, remedy=remedy)


def one_of(name: str, value: Any, choices: Collection[str], *, kinds: tuple[type, ...] = ()) -> Any:
    """Return ``value`` if it is one of ``choices``, or of one of some ``kinds``."""
    if isinstance(value, kinds) or (isinstance(value, str) and value in choices):
        return value
    listed = [repr(choice) for choice in sorted(choices)] + [f"a {k.__name__}" for k in kinds]
    raise InvalidInput(f"{name}={value!r}: must be one of {', '.join(listed)}")


def flag(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InvalidInput(f"{name}={value!r}: must be True or False, not a word or number")
    return bool(value)


def instance(name: str, value: Any, *, kinds: tuple[Any, ...], wanted: str) -> Any:
    """Return ``value`` if it is of one of some ``kinds``, which ``wanted`` says in words."""
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise InvalidInput(f"{name}={value!r}: must be {wanted}")
    return value
