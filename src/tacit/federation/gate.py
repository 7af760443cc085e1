"""The gate: nothing leaves a site, and nothing is taken by a coordinator, but what was agreed on.

Both sides check alike: a site so that nothing else leaves, a coordinator so that nobody's mistake
changes anything. What fails is refused with a reason and changes no state.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._types import AnyArray
from tacit.federation.errors import Refused
from tacit.privacy.mechanisms import Gaussian, Mechanism, SymmetricGaussian
from tacit.privacy.schedule import Call, Round
from tacit.privacy.unit import Adjacency, Norm, Unit

__all__ = ["MESSAGE", "check_message", "most_bytes"]

MESSAGE = "message"
_FIELDS = frozenset({"run", "call"})
_OVERHEAD = 1 << 14  # header, names and shapes of an archive
# Norms are checked up to the rounding of this check itself; bounds hold exactly (`Bound`).
_ROUNDING = 1 + 1e-9
_DEVIATIONS = 100.0


def most_bytes(round: Round) -> int:
    """Return the largest message of a round: eight bytes a number, and what goes around them."""
    return 8 * math.prod(round.shape) + _OVERHEAD


def check_message(
    header: dict[str, Any],
    arrays: dict[str, AnyArray],
    *,
    run: str,
    call: Call,
    round: Round,
    mechanism: Mechanism,
    n_rows: int | None,
) -> AnyArray:
    """Return the one array of a message, or raise `Refused`.

    Parameters
    ----------
    n_rows
        Public number of the site's rows, where rows are the unit.

    Guarantee: what passes has the fields, shape and type of the round, is finite, answers this call
    of this run and, where no noise hides it, is no longer than the round's bound lets one task be.
    With Gaussian noise of its own it is no longer than that and a hundred deviations in every
    direction, which an honest site exceeds with a probability below e⁻⁴⁰⁰⁰: one that lies cannot
    drown what the others say in numbers that nobody can compute with.
    """
    if set(header) != _FIELDS or set(arrays) != {MESSAGE}:
        extra = sorted((set(header) ^ _FIELDS) | (set(arrays) ^ {MESSAGE}))
        raise Refused(f"message: fields {extra} are missing or were not agreed on")
    if header["run"] != run or header["call"] != call.to_json():
        raise Refused(f"message: answers another call than {call.number} of this run")
    value = arrays[MESSAGE]
    if value.shape != round.shape:
        raise Refused(f"message: has shape {value.shape}, round {round.name!r} {round.shape}")
    if round.distributed:
        if value.dtype != np.uint64:
            raise Refused(f"message: is {value.dtype}, not masked whole numbers")
        return value
    if value.dtype != np.float64 or not np.all(np.isfinite(value)):
        raise Refused("message: is not of finite 64-bit numbers")
    with np.errstate(over="ignore"):
        length = float(np.linalg.norm(value))
    if length > _longest(round, mechanism, n_rows):
        raise Refused(f"message: is longer than the bound of round {round.name!r} allows")
    return value


def _longest(round: Round, mechanism: Mechanism, n_rows: int | None) -> float:
    """Return how long an honest message can be; infinite where that is not public."""
    if round.at_task and not isinstance(mechanism, Gaussian | SymmetricGaussian):
        return math.inf
    if round.unit is not Unit.TASK and n_rows is None:
        return math.inf if round.at_task else 0.0
    units = 1 if round.unit is Unit.TASK else (n_rows or 0)
    longest = units * round.sensitivity(Norm.L2, Adjacency.ZERO_OUT) * _ROUNDING
    if round.at_task:
        longest += _DEVIATIONS * mechanism.scale * math.sqrt(math.prod(round.shape))
    return longest
