"""What is protected, between which data sets, and measured in which norm."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Adjacency", "Norm", "Unit"]


class Unit(StrEnum):
    """What one change of the data may replace, add or remove: a whole task, or one row.

    Guarantee: none by itself. A guarantee for a task covers all its rows and its model at once; a
    guarantee for a row covers that row only, and a person with k rows gets k times the ε.
    """

    TASK = "task"
    ROW = "row"


class Adjacency(StrEnum):
    """Which two data sets count as neighbours.

    Attributes
    ----------
    REPLACE_ONE
        One unit's data are exchanged for any other data; the number of units is public.
    ADD_OR_REMOVE
        One unit is present in one data set and absent in the other; the number is private.
    ZERO_OUT
        One unit's message is exchanged for zero; the number of units is public.

    Guarantee: none by itself. ε under replace-one and ε under the other two are not comparable:
    a mechanism that is ε-DP under add-or-remove is only 2ε-DP under replace-one.
    """

    REPLACE_ONE = "replace-one"
    ADD_OR_REMOVE = "add-or-remove"
    ZERO_OUT = "zero-out"


class Norm(StrEnum):
    """Norm in which a change of the aggregate is measured.

    ``L1`` and ``L2`` are over the entries of a vector. ``FROBENIUS`` is ``L2`` over the entries of
    a matrix. ``TRACE`` (nuclear) is the sum of a matrix's singular values.
    """

    L1 = "l1"
    L2 = "l2"
    FROBENIUS = "frobenius"
    TRACE = "trace"
