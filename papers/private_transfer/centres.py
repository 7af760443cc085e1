"""Many centres, in place of RUIJIN's: hospitals and specialties, one of them the source.

`heart_disease`: four hospitals. `diabetes130`: specialties, the largest is the source. Scales are
clinical constants (hospitals) or come from encounters without a specialty, which play the public
data (diabetes); importances are set by hand from general clinical knowledge, or from those public
encounters.
"""

from __future__ import annotations

import functools

import numpy as np
from sklearn.linear_model import LogisticRegression

from tacit._types import AnyArray, Array
from tacit.datasets import load_diabetes130, load_heart_disease

from .settings import Transfer

__all__ = ["transfer_between"]

Centres = tuple[Array, AnyArray, AnyArray, Array]

# Centre, spread and importance of each measurement, from general clinical knowledge.
HEART = {
    "age": (55, 10, 2),
    "sex": (0.6, 0.5, 2),
    "trestbps": (130, 20, 1),
    "chol": (230, 60, 1),
    "fbs": (0.15, 0.4, 1),
    "thalach": (140, 25, 3),
    "exang": (0.4, 0.5, 4),
    "oldpeak": (1, 1.2, 4),
    "ca": (0.7, 1, 2),
}
HEART_CODES = {
    "cp": ((1, 2, 3, 4), 3),
    "restecg": ((0, 1, 2), 0.5),
    "slope": ((1, 2, 3), 1),
    "thal": ((3, 6, 7), 2),
}


@functools.cache
def hospitals() -> Centres:
    """Return scaled rows (missing = 0, the public centre), outcome, hospital and importances."""
    data = load_heart_disease()
    columns, weights = [], []
    for position, name in enumerate(data.feature_names):
        values = np.asarray(data.X[:, position], dtype=np.float64)
        if name == "chol":
            values = np.where(values == 0, np.nan, values)
        if name in HEART:
            centre, spread, weight = HEART[name]
            columns.append(np.nan_to_num((values - centre) / spread))
            weights.append(weight)
        else:
            codes, weight = HEART_CODES[name]
            columns.extend((values == code) - 1 / len(codes) * ~np.isnan(values) for code in codes)
            weights.extend([weight] * len(codes))
    importance = np.asarray(weights, dtype=np.float64)
    return np.stack(columns, axis=1), data.y, data.tasks, importance / importance.sum()


@functools.cache
def specialties() -> Centres:
    """Return scaled first encounters, early readmission, specialty and public importances."""
    data = load_diabetes130()
    kept = data.extras["first_encounter"] & ~data.extras["expired_or_hospice"]
    X, y, tasks = np.asarray(data.X[kept], dtype=np.float64), data.y[kept], data.tasks[kept]
    public = np.asarray(tasks) == "Unspecified"
    X = (X - X[public].mean(axis=0)) / np.maximum(X[public].std(axis=0), 0.05)
    X = np.clip(X, -4, 4)
    slope = LogisticRegression(C=0.01, max_iter=500).fit(X[public], y[public]).coef_[0]
    importance = np.abs(slope) + 1e-3
    return X[~public], y[~public], np.asarray(tasks)[~public], importance / importance.sum()


@functools.lru_cache(maxsize=4)
def transfer_between(data: str, source: str, target: str, seed: int) -> Transfer:
    """Return the source's rows whole and the target's rows cut 80/20."""
    X, y, tasks, importance = hospitals() if data == "heart_disease" else specialties()
    theirs, mine = np.flatnonzero(tasks == source), np.flatnonzero(tasks == target)
    mine = np.random.default_rng(seed).permutation(mine)
    cut = int(0.8 * len(mine))
    return Transfer(
        (X[theirs], y[theirs]),
        (X[mine[:cut]], y[mine[:cut]]),
        (X[mine[cut:]], y[mine[cut:]]),
        importance,
    )
