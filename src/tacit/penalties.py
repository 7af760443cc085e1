"""Penalties on the models of all tasks, each with its value and its proximal operator.

``W`` has one row per task, shape (m, d). Every penalty is ``strength`` times a convex function,
and ``prox(V, step)`` is the minimiser over ``W`` of ``½‖W − V‖² + step · value(W)``.

A penalty with ``task_separable = True`` is a sum of one term per task; its prox also takes one
step per task, shape (m,) or (m, 1), so that every task can walk at its own curvature.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse
import scipy.sparse.linalg

from tacit._check import non_negative
from tacit._types import Array
from tacit.errors import InvalidInput
from tacit.numerics.shared_map import apply_map, second_moment, symmetric_spectrum

__all__ = [
    "OWN_PENALTIES",
    "SHARED_PENALTIES",
    "FeatureGroup",
    "GraphLaplacian",
    "Lasso",
    "MeanPull",
    "Nuclear",
    "Penalty",
    "Ridge",
    "TaskGroup",
]

# Below this ratio of threshold to largest singular value the squared spectrum of a Gram matrix
# no longer resolves the values near the threshold, and a true SVD is taken instead.
_GRAM_RESOLUTION = 1e-5


class Penalty(Protocol):
    """A convex function of all tasks' models that a proximal method can handle."""

    @property
    def strength(self) -> float:
        """Multiplier of the penalty."""

    @property
    def task_separable(self) -> bool:
        """Whether the penalty is a sum of one term per task."""

    def value(self, W: Array) -> float:
        """Penalty of all models together."""

    def prox(self, W: Array, step: float | Array) -> Array:
        """Minimiser of ``½‖· − W‖² + step · value(·)``."""


@dataclass(frozen=True)
class _Scaled:
    """The ``strength`` that every penalty carries, checked once."""

    strength: float

    def __post_init__(self) -> None:
        """Refuse a strength that is negative, infinite or not a number."""
        non_negative("strength", self.strength, remedy="use strength=0.0 for no penalty")

    def _threshold(self, step: float | Array) -> float:
        """Return ``step · strength`` for a penalty that couples tasks: one step for all."""
        if np.ndim(step) != 0:
            raise InvalidInput(
                f"step of shape {np.shape(step)}: {type(self).__name__} couples the tasks and "
                "needs one step for all of them; pass a number"
            )
        return float(step) * self.strength

    def _thresholds(self, step: float | Array, like: Array) -> float | Array:
        """Return ``step · strength`` as a number or as one row per task, (m, 1)."""
        if np.ndim(step) == 0:
            return float(step) * self.strength
        return np.asarray(step, dtype=like.dtype).reshape(len(like), 1) * like.dtype.type(
            self.strength
        )


def _shrink_factor(norms: Array, threshold: float | Array) -> Array:
    """Return ``max(0, 1 − threshold/norm)``, with 1 where there is nothing to shrink."""
    safe = np.where(norms > 0, norms, 1)
    return np.maximum(1 - np.where(norms > 0, threshold, 0) / safe, 0)


@dataclass(frozen=True)
class Nuclear(_Scaled):
    """Nuclear norm ``‖W‖_*``: models share a low-dimensional subspace (low rank).

    The prox needs the right singular vectors only. For m ≫ d they come from the d × d matrix
    ``WᵀW`` (one pass over ``W`` and a small eigendecomposition), which is the shared map of the
    model-protected method: ``prox(W) = W M``.
    """

    task_separable: ClassVar[bool] = False

    def value(self, W: Array) -> float:
        """``strength`` times the sum of singular values."""
        return self.strength * float(np.linalg.svd(W, compute_uv=False).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        """Soft-threshold the singular values."""
        threshold = self._threshold(step)
        if threshold == 0:
            return W.copy()
        tall = W if W.shape[0] >= W.shape[1] else W.T
        eigenvalues, vectors = symmetric_spectrum(second_moment(tall))
        singular = np.sqrt(np.maximum(eigenvalues, 0))
        if threshold < _GRAM_RESOLUTION * singular[-1]:
            left, singular, right = np.linalg.svd(W, full_matrices=False)
            return (left * np.maximum(singular - W.dtype.type(threshold), 0)) @ right
        shrunk = apply_map(tall, (vectors * _shrink_factor(singular, threshold)) @ vectors.T)
        return shrunk if tall is W else shrunk.T


@dataclass(frozen=True)
class FeatureGroup(_Scaled):
    """One ℓ2 norm over all tasks for each feature: tasks use the same few features.

    The row-group ℓ2,1 norm of the papers, whose W is the transpose of ours.
    """

    task_separable: ClassVar[bool] = False

    def value(self, W: Array) -> float:
        """``strength · Σ_j ‖W[:, j]‖``."""
        return self.strength * float(np.linalg.norm(W, axis=0).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        """Shrink every feature's column towards zero, together for all tasks."""
        norms = np.linalg.norm(W, axis=0)
        return W * _shrink_factor(norms, self._threshold(step)).astype(W.dtype)


@dataclass(frozen=True)
class TaskGroup(_Scaled):
    """One ℓ2 norm for each task (column ℓ2 of the papers): whole tasks may be zero."""

    task_separable: ClassVar[bool] = True

    def value(self, W: Array) -> float:
        """``strength · Σ_i ‖w_i‖``."""
        return self.strength * float(np.linalg.norm(W, axis=1).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        """Shrink every task's model towards zero."""
        norms = np.linalg.norm(W, axis=1, keepdims=True)
        return W * _shrink_factor(norms, self._thresholds(step, W)).astype(W.dtype)


@dataclass(frozen=True)
class Lasso(_Scaled):
    """ℓ1 norm of all entries: each task uses few features of its own."""

    task_separable: ClassVar[bool] = True

    def value(self, W: Array) -> float:
        """``strength · Σ |W_ij|``."""
        return self.strength * float(np.abs(W).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        """Soft-threshold every entry."""
        threshold = self._thresholds(step, W)
        return np.sign(W) * np.maximum(np.abs(W) - threshold, 0)


@dataclass(frozen=True)
class Ridge(_Scaled):
    """Half the squared distance ``½‖W − centre‖²`` (the centre is zero unless given).

    Parameters
    ----------
    strength : float
        Multiplier.
    centre : ndarray of shape (d,) or (m, d), optional
        Where the models are pulled to.
    """

    centre: Array | None = None
    task_separable: ClassVar[bool] = True

    def value(self, W: Array) -> float:
        """``strength/2 · ‖W − centre‖²``."""
        away = W if self.centre is None else W - self.centre
        return 0.5 * self.strength * float(np.sum(away * away))

    def prox(self, W: Array, step: float | Array) -> Array:
        """Weighted mean of ``W`` and the centre."""
        weight = self._thresholds(step, W)
        pulled = W if self.centre is None else W + weight * self.centre.astype(W.dtype)
        return pulled / (1 + weight)


@dataclass(frozen=True)
class MeanPull(_Scaled):
    """Half the squared distances to the mean model, ``½ Σ_i ‖w_i − w̄‖²``."""

    task_separable: ClassVar[bool] = False

    def value(self, W: Array) -> float:
        """``strength/2 · Σ_i ‖w_i − w̄‖²``."""
        away = W - W.mean(axis=0)
        return 0.5 * self.strength * float(np.sum(away * away))

    def prox(self, W: Array, step: float | Array) -> Array:
        """Pull every model towards the mean, which itself does not move."""
        mean = W.mean(axis=0)
        return mean + (W - mean) / (1 + self._threshold(step))


@dataclass(frozen=True)
class GraphLaplacian(_Scaled):
    """Half the Laplacian form ``½ tr(Wᵀ L W)``: neighbouring tasks have similar models.

    Parameters
    ----------
    strength : float
        Multiplier.
    laplacian : (m, m) ndarray or scipy sparse matrix
        Symmetric positive semi-definite. A dense one is eigendecomposed once; for a sparse one
        ``I + step·strength·L`` is factorised once for each step in use.
    """

    laplacian: Any = None
    task_separable: ClassVar[bool] = False
    _factors: dict[float, Any] = field(default_factory=dict, init=False, repr=False, compare=False)
    _spectrum: Any = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the Laplacian and decompose a dense one."""
        super().__post_init__()
        L: Any = self.laplacian
        sparse = bool(scipy.sparse.issparse(L))
        if getattr(L, "ndim", 0) != 2 or L.shape[0] != L.shape[1]:
            raise InvalidInput(
                f"laplacian of shape {getattr(L, 'shape', None)}: must be a square (m, m) matrix"
            )
        scale = float(abs(L).max()) if L.shape[0] else 0.0
        if not np.isfinite(scale) or float(abs(L - L.T).max()) > 1e-10 * max(scale, 1e-300):
            raise InvalidInput("laplacian: must be finite and symmetric; use D − A of the graph")
        if sparse:
            # Gershgorin is enough for graph Laplacians and costs one pass.
            off = np.asarray(abs(L).sum(axis=1)).ravel() - np.abs(L.diagonal())
            if np.any(L.diagonal() - off < -1e-10 * scale):
                raise InvalidInput("laplacian: must be diagonally dominant; use D − A of the graph")
            return
        eigenvalues, vectors = np.linalg.eigh(np.asarray(L, dtype=np.float64))
        if eigenvalues[0] < -1e-10 * max(abs(eigenvalues[-1]), 1e-300):
            raise InvalidInput("laplacian: must be positive semi-definite; use D − A of the graph")
        object.__setattr__(self, "_spectrum", (np.maximum(eigenvalues, 0), vectors))

    def value(self, W: Array) -> float:
        """``strength/2 · tr(Wᵀ L W)``."""
        return 0.5 * self.strength * float(np.sum(W * (self.laplacian @ W)))

    def prox(self, W: Array, step: float | Array) -> Array:
        """Solve ``(I + step·strength·L) P = W``."""
        weight = self._threshold(step)
        if self._spectrum is not None:
            eigenvalues, vectors = self._spectrum
            smoothed = vectors @ ((vectors.T @ W) / (1 + weight * eigenvalues)[:, None])
            return smoothed.astype(W.dtype)
        if weight not in self._factors:
            system = scipy.sparse.eye_array(W.shape[0]) + weight * self.laplacian
            self._factors.clear()
            self._factors[weight] = scipy.sparse.linalg.splu(scipy.sparse.csc_matrix(system))
        solved: Array = self._factors[weight].solve(np.ascontiguousarray(W, dtype=np.float64))
        return solved.astype(W.dtype)


SHARED_PENALTIES: dict[str, Callable[[float], Penalty]] = {
    "low-rank": Nuclear,
    "group-sparse": FeatureGroup,
}
"""What couples the tasks of a structured method, by the name of its pattern."""
OWN_PENALTIES: dict[str, Callable[[float], Penalty]] = {
    "entries": Lasso,
    "tasks": TaskGroup,
    "ridge": Ridge,
}
"""What holds a part of a model that is a task's own, by name; all separable by task."""
