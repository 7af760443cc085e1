"""Logistic regressions of small tasks on their kernel matrices, eight tasks in a compiled pass.

With rows R (n, r) and the penalty α‖v‖²/2, the minimiser is v = Rᵀc: n numbers, whatever r is. With
K = R Rᵀ, log-odds z = o + K c + b, slopes g and curvatures D = S² of the losses, a Newton step is

    δc = −(q + S u)/α,   (I + S K S/α) u = S·(−K q/α + δb·1),   q = g + α c,

whose matrix has no eigenvalue below one, so that a Cholesky factor without pivots is stable however
alike the rows are; it costs n³/3 operations where a Hessian of n coordinates costs n³ before it is
factored. The intercept, with penalty λ, is a border: its pivot is H_b = λ + sᵀ(I + S K S/α)⁻¹s.

The same factor B = I + S K S/α tells the rest. D½R(RᵀDR + αI)⁻¹RᵀD½ = I − B⁻¹, so that a row's
leverage times its curvature is 1 − (B⁻¹)_rr (and + (B⁻¹s)_r²/H_b with an intercept); and the log
determinant of Laplace's evidence is log det B + log H_b.

Near a minimiser the factor of the step before serves again (its curvatures are those of log-odds
that moved by less than a twentieth), and a step is accepted as in `tacit.numerics.newton`.

Guarantee: what is found for a task is, to the bit, a function of its own rows and strengths; a task
whose numbers do not stay finite gets NaN.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._types import Array, IntArray

__all__ = ["DualPath", "are_many", "dual_path", "is_small"]

_LARGEST = 128  # rows: beyond, the library's blocked factors are faster
_TALLEST = 4.0  # rows a feature: beyond, the features' side is smaller
_SHORTEST = 64  # rows: up to here the features' side is not quicker, however small
_NARROW = 12  # features: below, arrays are quicker than elsewhere
# Slopes in all, from which on a compiled kernel is worth loading: fewer are fitted before.
_MANY, _MANY_NARROW = 500, 2000


def are_many(n_tasks: int, n_features: int) -> bool:
    """Return whether so many tasks are fitted that a compiled kernel is worth loading.

    The last bits of a task's fit depend on it: ``n_tasks`` is the public number of all tasks,
    wherever they are.
    """
    return n_tasks * n_features >= (_MANY if n_features >= _NARROW else _MANY_NARROW)


def is_small(n_rows: int, n_features: int, many: bool | None = None) -> bool:
    """Return whether tasks padded to so many rows are solved here.

    ``many`` is what `are_many` says of all tasks; None where that is not known, and then the number
    of features decides.
    """
    if not (n_features >= _NARROW if many is None else many):
        return False
    return n_rows <= min(_LARGEST, max(_SHORTEST, _TALLEST * n_features))


@dataclass(frozen=True)
class DualPath:
    """Minimisers of t tasks at a strengths each.

    Attributes
    ----------
    coef : (t, a, n) array
        c; the model is Rᵀc.
    intercept : (t, a) array
        Zero where none was asked for (``bordered``).
    log_odds : (t, a, n) array
        Of every row, or of every row as a fit without it (approximately) tells.
    evidence : (t, a) array
        Laplace's log-evidence.
    """

    coef: Array
    intercept: Array
    log_odds: Array
    evidence: Array
    bordered: bool

    def part(self, some: slice) -> DualPath:
        """Return the minimisers of some of the tasks."""
        models, told = (self.coef[some], self.intercept[some]), self.log_odds[some]
        return DualPath(*models, told, self.evidence[some], self.bordered)


def dual_path(
    rows: Array,
    offset: Array,
    labels: Array,
    weights: Array,
    counts: IntArray,
    alphas: Array,
    levels: Array | None,
    order: IntArray,
    *,
    accuracy: float,
    evidence: bool = True,
    left_out: bool = False,
) -> DualPath:
    """Fit stacked tasks at every strength.

    Parameters
    ----------
    rows : (t, n, r) array
        Rows in coordinates in which the penalty is round, zero beyond a task's ``counts``.
    offset, labels, weights : (t, n) arrays
        As in `LogisticStack`. Like those of all that follows their length may be a multiple of t:
        problem i is then on the rows of task i modulo t.
    alphas, levels : (t, a) arrays
        Strengths on the model and on the intercept; no ``levels``, no intercept.
    order : (t, a) array
        In which order strengths are worked off, each from the last one's minimiser.
    accuracy : float
        Of the gradient, relative to that at zero or to one, if that is larger.
    evidence : bool
        Compute the evidence, too.
    left_out : bool
        Return log-odds of rows left out, by one Newton step from the minimiser.
    """
    from tacit.numerics._logistic_kernel import dual_paths

    shape = (*alphas.shape, rows.shape[1])
    found = DualPath(
        np.zeros(shape),
        np.empty(alphas.shape),
        np.zeros(shape),
        np.empty(alphas.shape),
        levels is not None,
    )
    dual_paths(
        rows @ rows.transpose(0, 2, 1),
        np.ascontiguousarray(offset),
        np.ascontiguousarray(labels),
        np.ascontiguousarray(weights),
        np.ascontiguousarray(counts, dtype=np.int64),
        np.ascontiguousarray(order, dtype=np.int64),
        np.ascontiguousarray(alphas),
        np.zeros_like(alphas) if levels is None else np.ascontiguousarray(levels),
        found.bordered,
        evidence,
        left_out,
        accuracy,
        found.coef,
        found.intercept,
        found.log_odds,
        found.evidence,
    )
    return found
