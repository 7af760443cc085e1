"""Parameter checks with one voice: the parameter, the value, the remedy."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

from tacit.errors import InvalidInput

__all__ = ["fraction", "non_negative", "one_of", "positive", "positive_integer"]


def _number(name: str, value: Any, remedy: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(float(value)):
        raise InvalidInput(f"{name}={value!r}: must be a number; {remedy}")
    return float(value)


def positive(name: str, value: Any, *, remedy: str, allow_inf: bool = False) -> float:
    """Return ``value`` as a float if it is > 0 (and finite, unless ``allow_inf``)."""
    number = _number(name, value, remedy)
    if number <= 0 or (math.isinf(number) and not allow_inf):
        finite = "" if allow_inf else " and finite"
        raise InvalidInput(f"{name}={value!r}: must be positive{finite}; {remedy}")
    return number


def non_negative(name: str, value: Any, *, remedy: str) -> float:
    """Return ``value`` as a float if it is ≥ 0 and finite."""
    number = _number(name, value, remedy)
    if number < 0 or math.isinf(number):
        raise InvalidInput(f"{name}={value!r}: must be at least 0 and finite; {remedy}")
    return number


def fraction(name: str, value: Any, *, remedy: str) -> float:
    """Return ``value`` as a float if 0 < value < 1."""
    number = _number(name, value, remedy)
    if not 0 < number < 1:
        raise InvalidInput(f"{name}={value!r}: must lie strictly between 0 and 1; {remedy}")
    return number


def positive_integer(name: str, value: Any, *, remedy: str) -> int:
    """Return ``value`` as an int if it is a whole number ≥ 1."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        raise InvalidInput(f"{name}={value!r}: must be a whole number of at least 1; {remedy}")
    return int(value)


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
    """Return ``value`` if it is one of ``choices``."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(repr(choice) for choice in sorted(choices))
        raise InvalidInput(f"{name}={value!r}: must be one of {listed}")
    return value
