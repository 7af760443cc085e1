"""How kernels are compiled, whichever layer they belong to.

Imported by compiled kernels only: importing Numba takes most of a second.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["cached", "compiled", "reassociated"]

# Products may be fused into sums, but nothing is reassociated: the compiler makes a vector loop and
# a scalar one and chooses by where in memory arrays happen to lie, so that sums taken in another
# order would differ in their last bits from run to run.
_EXACT = {"contract", "nsz"}


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile without the GIL, cached on disk where a cache can be written."""
    return cached(function, fastmath=_EXACT)


def reassociated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile as `compiled` does, for long sums over rows in any order.

    That is what lets their loops use vector registers. NaN and infinity keep their meaning, so bad
    values still show in the result.
    """
    return cached(function, fastmath={*_EXACT, "reassoc", "arcp"})


def cached(function: Callable[..., Any], *, fastmath: set[str] | bool) -> Callable[..., Any]:
    """Compile with the floating-point freedoms named, cached where a cache can be written."""
    options = {"nogil": True, "fastmath": fastmath, "error_model": "numpy"}
    made: Callable[..., Any]
    try:
        made = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no writable place for the cache: compile again in every process
        made = numba.njit(**options)(function)
    return made
