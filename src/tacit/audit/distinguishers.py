"""Statistics of a release that tell two data sets apart.

A distinguisher learns from draws of both data sets (or ignores them) and returns a *score*: one
number per release. Which score, which threshold and which side make the event is chosen in
:mod:`tacit.audit.selection`. To add one, write a class with ``name`` and ``fit``.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._types import Array

__all__ = [
    "Distance",
    "Distinguisher",
    "LikelihoodRatio",
    "Linear",
    "LinearDiscriminant",
    "Quadratic",
    "Score",
    "Support",
    "TrainedClassifier",
]

Score = Callable[[Array], Array]

_MAX_TRAINING = 20_000
_MAX_RAW_FEATURES = 120


class Distinguisher(typing.Protocol):
    """A family of scores."""

    @property
    def name(self) -> str:
        """What the score is, in words that fit before 'at least 0.5'."""
        ...

    def fit(self, first: Array, second: Array) -> Score:
        """Return a score for releases, learnt from draws under both data sets (draw on axis 0)."""
        ...


def _flat(releases: Array) -> Array:
    return releases.reshape(len(releases), -1)


@dataclass(frozen=True)
class LikelihoodRatio:
    """The logarithm of the density ratio, for mechanisms whose density is known.

    By the Neyman–Pearson lemma no statistic separates the two data sets better.
    """

    log_ratio: Score
    name: str = "log likelihood ratio"

    def fit(self, first: Array, second: Array) -> Score:  # noqa: ARG002 - nothing to learn
        """Return the ratio itself."""
        return self.log_ratio


@dataclass(frozen=True)
class Linear:
    """The release along the line between the two aggregates."""

    first: Array
    second: Array
    name: str = "projection on the difference of the aggregates"

    def fit(self, first: Array, second: Array) -> Score:  # noqa: ARG002 - nothing to learn
        """Return the projection; its direction is known before any draw."""
        direction = (self.second - self.first).ravel()
        return lambda releases: _flat(releases) @ direction


@dataclass(frozen=True)
class Distance:
    """How far the release lies from one of the aggregates: finds noise whose scale leaks."""

    aggregate: Array
    name: str = "distance from the first aggregate"

    def fit(self, first: Array, second: Array) -> Score:  # noqa: ARG002 - nothing to learn
        """Return the Euclidean (Frobenius) distance."""
        return lambda releases: np.linalg.norm(_flat(releases - self.aggregate), axis=1)


@dataclass(frozen=True)
class Support:
    """The smallest eigenvalue of S − aggregate: negative outside a one-sided noise's support."""

    aggregate: Array
    name: str = "smallest eigenvalue of the release minus the second aggregate"

    def fit(self, first: Array, second: Array) -> Score:  # noqa: ARG002 - nothing to learn
        """Return the smallest eigenvalue; its sign is the support test."""
        return lambda releases: np.linalg.eigvalsh(releases - self.aggregate)[:, 0]


@dataclass(frozen=True)
class LinearDiscriminant:
    """The whitened mean difference (Fisher), with Ledoit–Wolf shrinkage; directions are learnt."""

    name: str = "linear discriminant"

    def fit(self, first: Array, second: Array) -> Score:
        """Learn the direction from the draws."""
        from sklearn.covariance import ledoit_wolf

        a, b = _flat(first), _flat(second)
        centred = np.concatenate([a - a.mean(axis=0), b - b.mean(axis=0)])
        spread = centred.std(axis=0)
        spread[spread == 0] = 1.0
        covariance = ledoit_wolf(centred / spread)[0]
        gap = (b.mean(axis=0) - a.mean(axis=0)) / spread
        direction = np.linalg.lstsq(covariance, gap, rcond=None)[0] / spread
        return lambda releases: _flat(releases) @ direction


@dataclass(frozen=True)
class Quadratic:
    """Log ratio of two Gaussians fitted to a few summaries: sees changes of mean and of spread."""

    features: Score
    name: str = "quadratic discriminant"

    def fit(self, first: Array, second: Array) -> Score:
        """Fit a mean and a covariance under each data set."""
        fitted = [_fit_gaussian(self.features(draws)) for draws in (first, second)]

        def score(releases: Array) -> Array:
            features = self.features(releases)
            return _log_density(features, *fitted[1]) - _log_density(features, *fitted[0])

        return score


def _fit_gaussian(features: Array) -> tuple[Array, Array]:
    covariance = np.atleast_2d(np.cov(features, rowvar=False))
    ridge = 1e-6 * np.trace(covariance) / len(covariance) + 1e-300
    return features.mean(axis=0), np.linalg.cholesky(covariance + ridge * np.eye(len(covariance)))


def _log_density(features: Array, mean: Array, root: Array) -> Array:
    whitened = np.linalg.solve(root, (features - mean).T)
    return -0.5 * np.sum(whitened**2, axis=0) - np.sum(np.log(np.diag(root)))


@dataclass(frozen=True)
class TrainedClassifier:
    """Boosted trees on the release and its summaries: the general distinguisher."""

    features: Score
    name: str = "trained classifier"
    seed: int = 0

    def fit(self, first: Array, second: Array) -> Score:
        """Train on at most 20 000 draws a side; the score is the log odds of the second."""
        from sklearn.ensemble import HistGradientBoostingClassifier
        from threadpoolctl import threadpool_limits

        sides = [self.features(draws[:_MAX_TRAINING]) for draws in (first, second)]
        labels = np.repeat([0, 1], [len(side) for side in sides])
        model: Any = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=15, early_stopping=False, random_state=self.seed
        )
        # One thread: on a busy machine OpenMP threads that wait for each other cost a hundredfold.
        with threadpool_limits(limits=1, user_api="openmp"):
            model.fit(np.concatenate(sides), labels)

        def score(releases: Array) -> Array:
            with threadpool_limits(limits=1, user_api="openmp"):
                return model.decision_function(self.features(releases))

        return score


def summaries(first: Array, second: Array) -> Score:
    """Return a function from releases to a few telling numbers each, given both aggregates.

    Projection on the difference, distances from both aggregates, and, for symmetric matrices, the
    extreme eigenvalues of the release minus each aggregate. The last releases' summaries are kept,
    since several distinguishers ask for the same ones.
    """
    direction = (second - first).ravel()
    matrix = first.ndim == 2 and first.shape[0] == first.shape[1]

    last: list[Array] = []

    def features(releases: Array) -> Array:
        if not last or last[0] is not releases:
            last[:] = releases, summarise(releases)
        return last[1]

    def summarise(releases: Array) -> Array:
        columns: list[Array] = [_flat(releases) @ direction]
        for aggregate in (first, second):
            columns.append(np.linalg.norm(_flat(releases - aggregate), axis=1))
            if matrix:
                eigenvalues = np.linalg.eigvalsh(releases - aggregate)
                columns.extend([eigenvalues[:, 0], eigenvalues[:, -1]])
        return np.stack(columns, axis=1)

    return features


def with_entries(features: Score) -> Score:
    """Return ``features`` with the raw entries of the release appended, where they are few."""

    def extended(releases: Array) -> Array:
        flat = _flat(releases)
        if flat.shape[1] > _MAX_RAW_FEATURES:
            return features(releases)
        return np.concatenate([features(releases), flat], axis=1)

    return extended
