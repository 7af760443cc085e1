"""Units, bounds, mechanisms, accounting, billboard, ledger, statement."""

from __future__ import annotations

from tacit.privacy.bounds import (
    Bound,
    RowClip,
    RowGradientClip,
    RowNormalise,
    SecondMoment,
    VectorClip,
    VectorNormalise,
)
from tacit.privacy.mechanisms import MECHANISMS, Mechanism, Release, mechanism
from tacit.privacy.samplers import Entropy, SeededEntropy, SystemEntropy, entropy_from
from tacit.privacy.unit import Adjacency, Norm, Unit

__all__ = [
    "MECHANISMS",
    "Adjacency",
    "Bound",
    "Entropy",
    "Mechanism",
    "Norm",
    "Release",
    "RowClip",
    "RowGradientClip",
    "RowNormalise",
    "SecondMoment",
    "SeededEntropy",
    "SystemEntropy",
    "Unit",
    "VectorClip",
    "VectorNormalise",
    "entropy_from",
    "mechanism",
]
