"""Objective perturbation: the exact minimiser of a noisy regularised logistic loss.

`minimiser` finds it, `calibration` says how much noise it takes (every constant is proved in
``docs/methods/private-transfer.md``), and `mechanism` joins the two into a release.
"""

from __future__ import annotations

from tacit.privacy.objective.calibration import (
    gamma_scale,
    gaussian_scales,
    jacobian_cost,
    pure_cost,
    smallest_strength,
)
from tacit.privacy.objective.mechanism import ObjectivePerturbation, Problem, noise_norm
from tacit.privacy.objective.minimiser import minimise

__all__ = [
    "ObjectivePerturbation",
    "Problem",
    "gamma_scale",
    "gaussian_scales",
    "jacobian_cost",
    "minimise",
    "noise_norm",
    "pure_cost",
    "smallest_strength",
]
