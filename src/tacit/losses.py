"""Losses of a linear predictor: what one row costs, and how sharply that can change.

A loss sees a row only through its prediction ``z = xᵀw`` and its target ``y``. A task's loss is
the mean over its rows, so everything else (gradients by task, step sizes, sensitivities) follows
from the four functions of ``z`` below.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from tacit._check import non_negative, one_of, positive
from tacit._types import Array

__all__ = ["LOSSES", "LogisticLoss", "Loss", "SquaredLoss", "loss_by_name"]

_NORM_REMEDY = "use the public bound on the norm of a row"


class Loss(Protocol):
    """What the solvers and the row-level mechanisms need to know of a loss."""

    @property
    def name(self) -> str:
        """Name under which `loss_by_name` finds the loss."""

    @property
    def curvature(self) -> float:
        """Largest second derivative in ``z``, over all ``z`` and ``y``."""

    def value(self, z: Array, y: Array) -> Array:
        """Loss of every row."""

    def derivative(self, z: Array, y: Array) -> Array:
        """Derivative in ``z`` of every row; the row's gradient is this times ``x``."""

    def second_derivative(self, z: Array, y: Array) -> Array:
        """Second derivative in ``z`` of every row."""

    def row_gradient_bound(self, row_norm: float) -> float:
        """Largest ℓ2 norm of one row's gradient when ``‖x‖ ≤ row_norm``."""


@dataclass(frozen=True)
class SquaredLoss:
    """Half the squared residual, ``½(z − y)²``.

    Parameters
    ----------
    residual_bound : float, default=inf
        Public bound on ``|z − y|``, if there is one (it must be enforced by whoever states it,
        for instance by clipping the residual). Without it a row's gradient is unbounded, and a
        row-level mechanism has to clip gradients.
    """

    residual_bound: float = math.inf
    name: ClassVar[str] = "squared"
    curvature: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        """Refuse a bound that is not one."""
        positive(
            "residual_bound",
            self.residual_bound,
            remedy='use float("inf") when residuals are not bounded',
            allow_inf=True,
        )

    def value(self, z: Array, y: Array) -> Array:
        """Half the squared residual of every row."""
        residual = z - y
        return 0.5 * residual * residual

    def derivative(self, z: Array, y: Array) -> Array:
        """Residual ``z − y`` of every row."""
        return z - y

    def second_derivative(self, z: Array, y: Array) -> Array:
        """One, for every row."""
        return np.ones_like(z - y)

    def row_gradient_bound(self, row_norm: float) -> float:
        """``residual_bound · row_norm`` (infinite when residuals are not bounded)."""
        norm = non_negative("row_norm", row_norm, remedy=_NORM_REMEDY)
        return self.residual_bound * norm if norm > 0 else 0.0


@dataclass(frozen=True)
class LogisticLoss:
    """Logistic loss ``log(1 + eᶻ) − yz`` with labels in {0, 1} (or probabilities between them).

    Written so that neither tail overflows nor cancels: the loss and its derivative keep full
    relative precision at ``|z|`` in the hundreds.
    """

    name: ClassVar[str] = "logistic"
    curvature: ClassVar[float] = 0.25

    def value(self, z: Array, y: Array) -> Array:
        """Negative log-likelihood of every row."""
        return (np.maximum(z, 0) - y * z) + np.log1p(np.exp(-np.abs(z)))

    def derivative(self, z: Array, y: Array) -> Array:
        """``σ(z) − y`` of every row, as ``(1−y)σ(z) − yσ(−z)``: exact in both tails."""
        return (1 - y) * expit(z) - y * expit(-z)

    def second_derivative(self, z: Array, y: Array) -> Array:
        """``σ(z)σ(−z)`` of every row."""
        # Rounding may exceed ¼ by an ulp near z = 0; the curvature must bound it all the same.
        return np.minimum(expit(z) * expit(-z), self.curvature) + 0 * y

    def row_gradient_bound(self, row_norm: float) -> float:
        """``row_norm``: the derivative never leaves [−1, 1]."""
        return non_negative("row_norm", row_norm, remedy=_NORM_REMEDY)


LOSSES: dict[str, Callable[[], Loss]] = {"squared": SquaredLoss, "logistic": LogisticLoss}


def loss_by_name(name: str) -> Loss:
    """Return the loss called ``name`` (``"squared"`` or ``"logistic"``)."""
    return LOSSES[one_of("loss", name, LOSSES)]()
