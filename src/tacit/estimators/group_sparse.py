"""Models that use the same few features."""

from __future__ import annotations

from typing import ClassVar

from tacit import _check
from tacit.estimators._constraints import Constraints, rule
from tacit.estimators._kinds import MultiTaskClassifier, MultiTaskRegressor
from tacit.estimators._structured import PUBLISHED, StructuredEstimator

__all__ = ["GroupSparseClassifier", "GroupSparseRegressor"]


class _GroupSparse(StructuredEstimator):
    _pattern: ClassVar[str] = "group-sparse"
    _parameter_constraints: ClassVar[Constraints] = {
        "mechanism": [rule(_check.one_of, choices=("auto", "gaussian", "laplace", PUBLISHED))],
    }


class GroupSparseRegressor(MultiTaskRegressor, _GroupSparse):
    """Regressions whose models use the same features.

    Only the d squared norms of features over tasks are released, which needs far less noise than
    a d × d matrix. ``epsilon=inf`` is the ℓ2,1 penalty; ``mechanism`` is "gaussian" or, for pure
    ε, "laplace". Other parameters and the guarantee are those of
    :class:`~tacit.estimators.low_rank.LowRankRegressor`.

    Guarantee: (ε, δ) joint differential privacy for every task under replace-one; squared norms of
    features move by √2K² in ℓ2 and 2K² in ℓ1 norm when a task is replaced.
    """


class GroupSparseClassifier(MultiTaskClassifier, _GroupSparse):
    """Logistic regressions whose models use the same features.

    Parameters and guarantee are those of :class:`GroupSparseRegressor`.
    """
