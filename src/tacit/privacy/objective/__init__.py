"""Objective perturbation: the minimiser of a noisy regularised logistic loss, and noise on it.

`calibration` says how much noise the ideal minimiser takes, `minimiser` finds it to the `accuracy`
that is proved, `output` pays for the difference, and `mechanism` divides one budget over all of it.
The proofs in one piece: ``docs/methods/private-transfer.md``.
"""

from __future__ import annotations

from tacit.privacy.objective.accuracy import Accuracy
from tacit.privacy.objective.calibration import (
    gamma_scale,
    gaussian_scales,
    jacobian_cost,
    pure_cost,
    smallest_strength,
)
from tacit.privacy.objective.mechanism import (
    ObjectivePerturbation,
    Strength,
    check_rows,
    noise_norm,
)
from tacit.privacy.objective.minimiser import minimise
from tacit.privacy.objective.output import Output, Problem

__all__ = [
    "Accuracy",
    "ObjectivePerturbation",
    "Output",
    "Problem",
    "Strength",
    "check_rows",
    "gamma_scale",
    "gaussian_scales",
    "jacobian_cost",
    "minimise",
    "noise_norm",
    "pure_cost",
    "smallest_strength",
]
