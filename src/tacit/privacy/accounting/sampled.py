"""The privacy loss distribution of a Poisson-sampled Gaussian, all losses at once.

dp-accounting asks for the hockey-stick divergence at every point of its grid by a scalar function,
tens of thousands of times. This is the same connect-the-dots distribution (Doroshenko et al. 2022),
from the same divergences, in a handful of array operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr

from tacit._types import Array

__all__ = ["divergences", "poisson_gaussian"]

_FAR = 40.0  # e^−40 is below a float's resolution of 1


def poisson_gaussian(noise: float, rate: float, interval: float) -> Any:
    """Return the pessimistic distribution on a grid of width ``interval``.

    Parameters
    ----------
    noise
        Standard deviation ÷ sensitivity.
    rate
        Probability to join, below 1.

    Guarantee: dominates both orders of neighbours, N(0, σ²) against (1 − q)N(0, σ²) + qN(1, σ²)
    and back, under add-or-remove or zero-out: the dots lie on the exact curve, the lines between
    them and the infinite loss beyond the grid above it.
    """
    from dp_accounting.pld.pld_pmf import DensePLDPmf
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss

    parts = []
    for adjacency in (AdjacencyType.REMOVE, AdjacencyType.ADD):
        removed = adjacency is AdjacencyType.REMOVE
        loss = GaussianPrivacyLoss(noise, sampling_prob=rate, adjacency_type=adjacency)
        ends = loss.connect_dots_bounds()
        first = math.floor(ends.epsilon_lower / interval)
        last = max(math.ceil(ends.epsilon_upper / interval), first + 1)
        deltas = divergences(np.arange(first, last + 1) * interval, noise, rate, removed=removed)
        # The curve falls; where rounding lets it rise, the earlier dot is put up.
        deltas = np.maximum.accumulate(deltas[::-1])[::-1]
        masses = _connected(deltas, interval)
        parts.append(DensePLDPmf(interval, first, masses, float(deltas[-1]), True))
    return PrivacyLossDistribution(*parts)


def _connected(deltas: Array, interval: float) -> Array:
    """Return the masses of losses on a grid whose curve joins the dots δ(ε) by lines in e^ε."""
    falls = np.diff(deltas)
    masses = np.empty_like(deltas)
    masses[0] = 1 - deltas[0] + falls[0] / math.expm1(interval)
    masses[1:-1] = (falls[1:] - falls[:-1] * math.exp(interval)) / math.expm1(interval)
    masses[-1] = falls[-1] / math.expm1(-interval)
    return np.maximum(masses, 0.0)


def divergences(losses: Array, noise: float, rate: float, *, removed: bool) -> Array:
    """Return δ(ε) of one order of neighbours at every ε of ``losses``.

    With the unit ``removed`` it compares the mixture with N(0, σ²), else N(0, σ²) with the
    mixture. The loss falls in x, so δ(ε) = P(X ≤ x) − e^ε P(Y ≤ x) at the x whose loss is ε, which
    is that of the plain Gaussian at loss log(1 + (e^ε − 1)/q), or minus that of −ε.
    """
    plain = _unsampled(losses if removed else -losses, rate)
    plain = plain if removed else -plain
    x = (-0.5 if removed else 0.5) - plain * noise**2
    shifted = (x + 1 if removed else x - 1) / noise
    alone = x / noise
    if removed:
        upper = (1 - rate) * ndtr(alone) + rate * ndtr(shifted)
        lower = log_ndtr(alone)
    else:
        upper = ndtr(alone)
        lower = np.logaddexp(
            math.log1p(-rate) + log_ndtr(alone), math.log(rate) + log_ndtr(shifted)
        )
    with np.errstate(invalid="ignore", over="ignore"):
        found = upper - np.exp(losses + lower)
    # Beyond log(1 − q) (or its negative) no x has that loss: the whole of X lies on one side.
    beyond = -np.expm1(np.minimum(losses, 0.0)) if removed else np.zeros_like(losses)
    limit: Array = np.clip(np.where(np.isfinite(plain), found, beyond), 0.0, 1.0)
    return limit


def _unsampled(losses: Array, rate: float) -> Array:
    """Return log(1 + (e^ε − 1)/q), −∞ where there is no such number."""
    near = np.expm1(np.minimum(losses, _FAR)) / rate
    # Far out e^ε is all there is: log(e^ε/q · (1 − (1 − q)e^−ε)).
    with np.errstate(divide="ignore", invalid="ignore"):
        close = np.where(near > -1, np.log1p(np.maximum(near, -1.0)), -np.inf)
    far: Array = np.where(losses > _FAR, losses - math.log(rate), close)
    return far
