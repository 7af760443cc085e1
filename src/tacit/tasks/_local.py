"""What a task may do with its own rows before it learns: centring and public row norms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tacit._rows import row_dots
from tacit._types import Array
from tacit.errors import InvalidInput

__all__ = ["Centring", "row_norms", "scale_rows"]


@dataclass(frozen=True, eq=False)
class Centring:
    """Per-task means that were taken out of the rows, kept by the task to build its intercept.

    Guarantee: none of its own. The means are computed from raw rows. With the task as unit they
    may be used freely by the task itself (joint privacy: they never leave it). With one row as
    unit they shift every centred row, so a message built from centred rows must pay for them.

    Attributes
    ----------
    x_mean : (m, d) array
        Mean row of each task.
    y_mean : (m,) array or None
        Mean target of each task.
    """

    x_mean: Array
    y_mean: Array | None

    def intercept(self, W: Array) -> Array:
        """Intercepts (m,) with which models ``W`` (m, d) of centred rows answer on raw rows."""
        if self.y_mean is None:
            raise InvalidInput("intercept: the tasks had no target when they were centred")
        if W.shape != self.x_mean.shape:
            raise InvalidInput(
                f"W: shape {W.shape} does not fit {self.x_mean.shape} (tasks, features)"
            )
        result: Array = self.y_mean - row_dots(self.x_mean, W)
        return result


def row_norms(X: Array) -> Array:
    """Euclidean norms of rows in float64, safe from overflow and underflow of the squares."""
    norms = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    extreme = ~((norms > 1e-140) & (norms < 1e140))
    if extreme.any():
        rows = X[extreme].astype(np.float64)
        peak = np.abs(rows).max(axis=1)
        unit = rows / np.where(peak > 0, peak, 1.0)[:, None]
        norms[extreme] = peak * np.sqrt(row_dots(unit, unit))
    return norms


def scale_rows(X: Array, norm: float, *, clip: bool) -> Array:
    """Scale rows to ``norm``; with ``clip`` only those that are longer. Zero rows stay zero.

    The aim is a hair below ``norm``, so that after rounding (of the norm, d terms in float64,
    and of each product in the rows' own precision) no row is longer than ``norm``: sensitivities
    are proved for real numbers, and must not be exceeded in floating point.
    """
    rounding = (X.shape[1] + 4) * np.finfo(np.float64).eps
    target = norm * (1.0 - 2.0 * rounding - 2.0 * np.finfo(X.dtype).eps)
    norms = row_norms(X)
    with np.errstate(over="ignore"):
        factor = target / np.where(norms > 0, norms, 1.0)
    if clip:
        factor[norms <= norm * (1.0 - rounding)] = 1.0
    if not np.isfinite(factor).all():
        raise InvalidInput(f"norm={norm!r}: some rows are too short to reach it; clip instead")
    scaled: Array = (X * factor[:, None]).astype(X.dtype, copy=False)
    return scaled
