"""Log density ratios of releases under two neighbours, where the density is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from tacit._types import Array
from tacit.audit.attacks.inversion import solved_noise
from tacit.audit.distinguishers import Score
from tacit.privacy.mechanisms import GammaVector, Gaussian, Laplace, Mechanism, SymmetricGaussian
from tacit.privacy.objective import ObjectivePerturbation, Problem
from tacit.privacy.published import Algorithm5NoisePublished
from tacit.transfer.stacking import StackedPerturbation

__all__ = ["log_ratio", "log_ratios"]


def log_ratios(mechanism: Mechanism, first: Array, second: Array) -> Score | None:
    """Return the log density ratio (up to a monotone map) of releases, draw on axis 0.

    ``first`` and ``second`` are what either neighbour gives to the mechanism; None where the
    density has no closed form.
    """
    first, second = first.ravel(), second.ravel()
    if isinstance(mechanism, Laplace):

        def ratio(releases: Array) -> Array:
            flat = releases.reshape(len(releases), -1)
            gap = np.abs(flat - first).sum(axis=1) - np.abs(flat - second).sum(axis=1)
            return gap / mechanism.scale

    elif isinstance(mechanism, GammaVector | Algorithm5NoisePublished):

        def ratio(releases: Array) -> Array:
            flat = releases.reshape(len(releases), -1)
            away = [np.linalg.norm(flat - side, axis=1) for side in (first, second)]
            return (away[0] - away[1]) / mechanism.scale

    elif isinstance(mechanism, Gaussian | SymmetricGaussian):
        # Linear in the release; for a Poisson cohort a monotone function of this.
        def ratio(releases: Array) -> Array:
            return _along(releases, first, second) / mechanism.scale**2

    else:
        return None
    return ratio


def log_ratio(mechanism: Mechanism, first: Any, second: Any, release: Array) -> float:
    """Return the log density ratio of one release.

    Where the density has no closed form, what comes close: an attack with it is valid but not the
    strongest. Two-sided Wishart noise N has the density ∫ etr(−(N + 2B)/2c) dB over all B ⪰ 0 with
    N + B ⪰ 0; the least trace that B can have there leaves etr(−|N|/2c).
    """
    if isinstance(mechanism, ObjectivePerturbation):
        return _of_minimiser(mechanism, second, release) - _of_minimiser(mechanism, first, release)
    if isinstance(mechanism, StackedPerturbation):
        base, n_base = mechanism.levels[0], sum(len(one.centre) for one in first)
        return log_ratio(base, first, second, release[:n_base])
    score = log_ratios(mechanism, first, second)
    if score is None:
        away = [float(np.abs(np.linalg.eigvalsh(release - side)).sum()) for side in (first, second)]
        return (away[0] - away[1]) / (2 * mechanism.scale)
    return float(score(release[None])[0])


def _along(releases: Array, first: Array, second: Array) -> Array:
    flat = releases.reshape(len(releases), -1)
    along: Array = (flat - 0.5 * (first + second)) @ (second - first)
    return along


def _of_minimiser(
    mechanism: ObjectivePerturbation, problems: Sequence[Problem], release: Array
) -> float:
    """Return the log density of published minimisers, up to what both neighbours share.

    By change of variables from the noise b(w) that makes w the minimiser, whose derivative is the
    objective's Hessian; the little noise on the output is neglected.
    """
    used = mechanism.at([len(problem.rows) for problem in problems])
    cuts = np.cumsum([len(problem.centre) for problem in problems])[:-1]
    total = 0.0
    for problem, w, strength, scale in zip(
        problems, np.split(release, cuts), used.effective_strengths, used.scales, strict=True
    ):
        noise = solved_noise(w, problem.rows, problem.labels, strength, problem.centre)
        size = float(np.linalg.norm(noise)) / scale
        slopes = expit(problem.rows @ w)
        hessian = (problem.rows.T * (slopes * (1 - slopes))) @ problem.rows
        hessian[np.diag_indices_from(hessian)] += strength
        total += float(np.linalg.slogdet(hessian)[1])
        total -= size if mechanism.delta == 0 else 0.5 * size**2
    return total
