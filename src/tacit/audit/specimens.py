"""Mechanisms on the bench: calibrated by name, with worst-case neighbours and known densities.

Every mechanism audited by name is built for a unit clip, K = 1. To audit a further one by name,
say in `_CALIBRATIONS` how it is calibrated; what its neighbours look like follows from the
sensitivity it declares.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit._check import one_of
from tacit._types import Array
from tacit.audit.attack import Contest
from tacit.audit.densities import log_ratios
from tacit.audit.distinguishers import (
    Distance,
    Distinguisher,
    LikelihoodRatio,
    Linear,
    Quadratic,
    Support,
    TrainedClassifier,
    summaries,
    with_entries,
)
from tacit.audit.replay import declared_sensitivity
from tacit.errors import InvalidInput, PrivacyWarning
from tacit.privacy.mechanisms import (
    GammaVector,
    Gaussian,
    Laplace,
    Mechanism,
    PoissonGaussian,
    SymmetricGaussian,
    TwoSidedWishart,
    mechanism,
)
from tacit.privacy.noise.entropy import Entropy, bernoulli
from tacit.privacy.published import (
    Algorithm5NoisePublished,
    SimulatedSensitivityPublished,
    WishartPublished,
)
from tacit.privacy.unit import Norm

__all__ = ["AUDITABLE", "SAMPLING_RATE", "Pair", "calibrated", "contest", "is_matrix", "pairs"]

SAMPLING_RATE = 0.1
"""The sampling rate of a sampled mechanism audited by name."""

Pair = tuple[Array, Array]

_CHUNK_ENTRIES = 2_000_000
_MATRICES = (SymmetricGaussian, TwoSidedWishart, WishartPublished)
# Their noise is independent by entry, by matrix, or by row of a stack: one release of n stacked
# copies of a value is n releases of the value.
_STACKABLE = (
    Gaussian,
    Laplace,
    *_MATRICES,
    Algorithm5NoisePublished,
    SimulatedSensitivityPublished,
)
_ROWS = 20  # of a data set whose sensitivity is simulated


def _gaussian_noise(epsilon: float, delta: float) -> float:
    from tacit.privacy.accounting import calibrate

    return calibrate(epsilon, delta)


def _sampled_noise(epsilon: float, delta: float) -> float:
    from dp_accounting import dp_event

    from tacit.privacy.accounting import calibrate

    return calibrate(
        epsilon,
        delta,
        event=lambda noise: dp_event.PoissonSampledDpEvent(
            SAMPLING_RATE, dp_event.GaussianDpEvent(noise)
        ),
    )


# Parameters from (ε, δ), for messages clipped to norm 1: replace-one, except under Poisson sampling
# (add-or-remove).
_CALIBRATIONS: dict[str, Callable[[float, float], dict[str, Any]]] = {
    "gaussian": lambda epsilon, delta: {
        "sensitivity": 2.0,
        "noise_multiplier": _gaussian_noise(epsilon, delta),
    },
    "symmetric-gaussian": lambda epsilon, delta: {
        "sensitivity": math.sqrt(2),
        "noise_multiplier": _gaussian_noise(epsilon, delta),
    },
    "poisson-gaussian": lambda epsilon, delta: {
        "sensitivity": 1.0,
        "noise_multiplier": _sampled_noise(epsilon, delta),
        "sampling_rate": SAMPLING_RATE,
    },
    "fixed-size-gaussian": lambda epsilon, delta: {
        "sensitivity": 2.0,
        "noise_multiplier": _gaussian_noise(epsilon, delta),
        "n_units": 10,
        "cohort_size": 1,
    },
    "distributed-gaussian": lambda epsilon, delta: {
        "sensitivity": 2.0,
        "noise_multiplier": _gaussian_noise(epsilon, delta),
        "n_shares": 3,
        "min_honest": 3,
    },
    "distributed-symmetric-gaussian": lambda epsilon, delta: {
        "sensitivity": math.sqrt(2),
        "noise_multiplier": _gaussian_noise(epsilon, delta),
        "n_shares": 3,
        "min_honest": 3,
    },
    "laplace": lambda epsilon, _: {"sensitivity_l1": 2.0, "epsilon": epsilon},
    "gamma-vector": lambda epsilon, _: {"sensitivity_l2": 2.0, "epsilon": epsilon},
    "two-sided-wishart": lambda epsilon, _: {"sensitivity_trace": 2.0, "epsilon": epsilon},
    "wishart-published": lambda epsilon, _: {"radius": 1.0, "epsilon": epsilon},
    "algorithm5-noise-published": lambda epsilon, _: {"sensitivity": 2.0, "epsilon": epsilon},
    "simulated-sensitivity-laplace-published": lambda epsilon, _: {"epsilon": epsilon},
}

AUDITABLE = tuple(_CALIBRATIONS)
"""Names that `tacit.audit.audit_mechanism` knows how to calibrate."""


def calibrated(name: str, epsilon: float, delta: float) -> Mechanism:
    """Return the mechanism of that name, calibrated for (ε, δ) and messages of norm at most 1."""
    one_of("mechanism", name, AUDITABLE)
    with warnings.catch_warnings():
        # Asked for in order to be refuted: nobody's data are released.
        warnings.simplefilter("ignore", PrivacyWarning)
        return mechanism(name, **_CALIBRATIONS[name](epsilon, delta))


def is_matrix(target: Mechanism) -> bool:
    """Return whether the mechanism releases symmetric matrices."""
    return isinstance(target, _MATRICES)


def pairs(target: Mechanism, n_features: int) -> dict[str, Pair]:
    """Return the built-in worst-case aggregates of two neighbours, by description.

    The other tasks' contribution is the same under both and known to the adversary, so it is zero
    here.
    """
    if is_matrix(target):
        return _moment_pairs(target, n_features)
    if isinstance(target, SimulatedSensitivityPublished):
        return _row_pairs(n_features)
    norm, reach = declared_sensitivity(target)
    zero, first = np.zeros(n_features), np.zeros(n_features)
    first[0] = 1.0
    spread = np.full(n_features, 1.0 / n_features if norm is Norm.L1 else n_features**-0.5)
    if isinstance(target, PoissonGaussian):
        return {"an absent task against one at the clip": (zero, reach * first)}
    return {
        "two opposite tasks at the clip": (-0.5 * reach * first, 0.5 * reach * first),
        "two tasks at the clip, apart in every coordinate": (zero, reach * spread),
    }


def _moment_pairs(target: Mechanism, n_features: int) -> dict[str, Pair]:
    if isinstance(target, WishartPublished):
        square = target.radius**2
    else:
        norm, reach = declared_sensitivity(target)
        square = reach / (2.0 if norm is Norm.TRACE else math.sqrt(2))
    basis = np.eye(n_features)
    zero, first = np.zeros((n_features, n_features)), square * np.outer(basis[0], basis[0])
    found: dict[str, Pair] = {"a zero task against one at the clip": (zero, first)}
    if n_features > 1:
        second = square * np.outer(basis[1], basis[1])
        found["two orthogonal tasks at the clip"] = (second, first)
        # The same apart from a rotation, which changes off-diagonal entries only.
        sum_, gap = (basis[0] + basis[1]) / math.sqrt(2), (basis[0] - basis[1]) / math.sqrt(2)
        found["two orthogonal tasks at the clip, between the axes"] = (
            square * np.outer(gap, gap),
            square * np.outer(sum_, sum_),
        )
    return found


def _row_pairs(n_features: int) -> dict[str, Pair]:
    """Return data sets of one task that differ in one row: its gradient, and its loss last."""
    alike = np.zeros((_ROWS, n_features + 1))
    mixed = alike.copy()
    mixed[:, :-1] = np.where(np.arange(_ROWS) % 2, 0.5, -0.5)[:, None] * n_features**-0.5
    found: dict[str, Pair] = {}
    for description, rows, column, value in (
        ("rows alike against one that differs", alike, 0, 1.0),
        ("rows that differ against one further out", mixed, 0, 1.0),
        ("rows that differ against one of another loss", mixed, -1, 1.0),
    ):
        other = rows.copy()
        other[0, column] = value
        found[description] = (rows, other)
    return found


def _draws(target: Mechanism, pair: Pair, entropy: Entropy) -> Callable[[int, int], Array]:
    """Return a function that draws n releases of either neighbour at once."""
    single = pair[0].ndim == 1
    if isinstance(target, GammaVector) and single:
        many: Mechanism = dataclasses.replace(target, local=True)
    elif isinstance(target, _STACKABLE):
        many = target
    else:
        return lambda which, n: np.stack(
            [np.asarray(target.release(pair[which], entropy).value) for _ in range(n)]
        )

    def draw(which: int, n: int) -> Array:
        stack = np.broadcast_to(pair[which], (n, *pair[which].shape))
        if isinstance(target, PoissonGaussian):
            # The first neighbour lacks the task; in the second it joins by its own coin.
            joined = bernoulli(target.sampling_rate, n, entropy) & bool(which)
            shift = joined.reshape(-1, *[1] * pair[0].ndim) * (pair[1] - pair[0])
            stack = pair[0] + shift
        return np.asarray(many.release(stack, entropy).value)

    return draw


def contest(name: str, target: Mechanism, pair: Pair, entropy: Entropy) -> Contest:
    """Return the contest of telling ``pair`` apart, with every distinguisher that applies."""
    first, second = pair
    if first.shape != second.shape:
        raise InvalidInput(
            f"pair: shapes {first.shape} and {second.shape} differ; give two aggregates alike"
        )
    if isinstance(target, SimulatedSensitivityPublished):
        return _simulated_contest(name, target, pair, entropy)
    features = summaries(first, second)
    ratio = log_ratios(target, first, second)
    rivals: list[Distinguisher] = [] if ratio is None else [LikelihoodRatio(ratio)]
    if first.ndim == 2 and first.shape[0] == first.shape[1]:
        rivals.append(Support(second))
    rivals += [
        Linear(first, second),
        Distance(first),
        Quadratic(features),
        TrainedClassifier(with_entries(features)),
    ]
    chunk = max(_CHUNK_ENTRIES // first.size, 100)
    return Contest(name, _draws(target, pair, entropy), tuple(rivals), chunk)


def _simulated_contest(
    name: str, target: SimulatedSensitivityPublished, pair: Pair, entropy: Entropy
) -> Contest:
    """Return the contest of data sets (n, d + 1), whose noise has a size of their own."""
    centres = [rows.mean(axis=0) for rows in pair]
    # What has no noise is given a little, as rounding has.
    scales = [
        np.append(target.sensitivity(rows[:, :-1], entropy) * target.scale, 0.0) + 1e-9
        for rows in pair
    ]

    def ratio(releases: Array) -> Array:
        first, second = (
            -np.sum(np.abs(releases - centre) / scale + np.log(scale), axis=1)
            for centre, scale in zip(centres, scales, strict=True)
        )
        return np.asarray(second - first)

    rivals: tuple[Distinguisher, ...] = (LikelihoodRatio(ratio), Distance(centres[0]))
    chunk = max(_CHUNK_ENTRIES // pair[0].size, 100)
    return Contest(name, _draws(target, pair, entropy), rivals, chunk)
