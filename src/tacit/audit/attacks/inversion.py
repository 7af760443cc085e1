"""Solving for the noise of objective perturbation.

What is released is the minimiser w of Σ log(1 + e^z) − yz + bᵀw + (α/2)‖w − c‖². Whoever holds a
candidate data set knows everything in the optimality condition but the noise,

    b(w) = −Σ (σ(z) − y) x − α(w − c),

and can look whether b(w) is a number that the sampler could have drawn. If noise is drawn on a grid
and w is published to its last bit, b(w) is on the grid for the true data and nowhere for any other:
privacy is lost in full whatever the claim (`docs/methods/private-transfer.md`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.special import expit

from tacit._types import Array
from tacit.privacy.bounds import RowNormalise

__all__ = ["inversion_findings", "off_grid", "solved_noise"]

# A public strength above any that a private fit needs to raise it to, so that α is what was asked.
_STRENGTH = 1e4
_ROWS, _FEATURES = 4, 8
# Steps from the noise's own size down, one of which is a sampler's grid.
_STEPS = np.arange(8, 32)
_ON_GRID = 1e-3


def solved_noise(w: Array, rows: Array, labels: Array, strength: float, centre: Array) -> Array:
    """Return the only noise that makes ``w`` the minimiser on these rows."""
    return -((expit(rows @ w) - labels) @ rows) - strength * (w - centre)


def off_grid(noise: Array) -> float:
    """Return how far noise is from the nearest of all grids 2**k, in its steps: at most 1/2.

    The largest entry's distance, on the grid that fits best; random reals of dimension d come
    below t with probability at most 24·(2t)^d.
    """
    size = np.exp2(np.ceil(np.log2(np.abs(noise).max())))
    units = noise[:, None] / (size * np.exp2(-_STEPS.astype(float)))
    return float(np.abs(units - np.rint(units)).max(axis=0).min())


def _data(rng: np.random.Generator) -> tuple[Array, Array]:
    X = rng.standard_normal((_ROWS, _FEATURES))
    return X, np.arange(_ROWS) % 2.0


def _parts(estimator: Any) -> list[list[int]]:
    """Return the columns of every group of features that gets a model of its own."""
    if not hasattr(estimator, "n_groups"):
        return [list(range(_FEATURES))]
    return [list(part) for part in np.array_split(np.arange(_FEATURES), estimator.n_groups)]


def _subsets(estimator: Any, *, source: bool) -> Iterator[list[int]]:
    """Yield the rows that a model may have been learned from: all, or an unknown half."""
    if source or not hasattr(estimator, "n_groups"):
        yield list(range(_ROWS))
    else:
        yield from (list(half) for half in itertools.combinations(range(_ROWS), _ROWS // 2))


def _models(estimator: Any, X: Array, y: Array, seed: int, *, source: bool) -> list[Array]:
    """Return what one call publishes, a vector for every group."""
    from sklearn.base import clone

    one = clone(estimator).set_params(random_state=seed)
    if source:
        return [np.asarray(model)[0] for model in one.fit_source(X, y).models]
    one.fit(X, y)
    return [np.asarray(one.coef_)[0][part] for part in _parts(one)]


def _distance(
    estimator: Any, model: Array, columns: list[int], X: Array, y: Array, *, source: bool
) -> float:
    """Return how far the noise behind one published model is from a grid, given the data."""
    rows = RowNormalise(float(estimator.row_norm))(X[:, columns])
    return min(
        off_grid(solved_noise(model, rows[use], y[use], _STRENGTH, np.zeros(len(columns))))
        for use in _subsets(estimator, source=source)
    )


def inversion_findings(estimator: Any, *, n_fits: int = 10) -> list[str]:
    """Publish models on one of two neighbours and tell which from the noise alone.

    ``alpha`` is public, so asking for a large one tells the attacker what was used.
    """
    from sklearn.base import clone

    estimator = clone(estimator).set_params(alpha=_STRENGTH, fit_intercept=False, rows="normalise")
    if "n_groups" in estimator.get_params():
        estimator.set_params(n_groups=2)
    rng = np.random.default_rng(0)
    X, y = _data(rng)
    other = X.copy()
    other[0] = rng.standard_normal(_FEATURES)
    findings = []
    for source in (False, True) if hasattr(estimator, "fit_source") else (False,):
        on, off = [], []
        for seed in range(n_fits):
            models = _models(estimator, X, y, seed, source=source)
            for model, columns in zip(models, _parts(estimator), strict=True):
                on.append(_distance(estimator, model, columns, X, y, source=source))
                off.append(_distance(estimator, model, columns, other, y, source=source))
        told = sum(a < _ON_GRID < b for a, b in zip(on, off, strict=True))
        if told > len(on) // 5:  # by chance never; half of the halves lack the row that differs
            findings.append(
                f"{'fit_source' if source else 'fit'}: the noise solved for from the model is on "
                f"its grid for the true rows only, {told} of {len(on)} times"
            )
    return findings
