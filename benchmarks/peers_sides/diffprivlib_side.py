"""diffprivlib's private linear regression on the split, in an environment of its own.

Pure ε. Alone: a model a task, parallel composition. Pooled: one model of all rows. Bounds are
public: rows have norm 1, so entries lie in [−1, 1]. It has no settings to tune.
"""

from __future__ import annotations

import warnings

import diffprivlib
import numpy as np
from diffprivlib.models import LinearRegression
from side import Method, Split, main

warnings.simplefilter("ignore")


def fitted(X: np.ndarray, y: np.ndarray, epsilon: float, seed: int) -> LinearRegression:
    bounds = {"bounds_X": (-1.0, 1.0), "bounds_y": (-1.0, 1.0)}
    return LinearRegression(epsilon=epsilon, random_state=seed, **bounds).fit(X, y)


def pooled(split: Split, epsilon: float) -> np.ndarray:
    return fitted(split.X, split.y, epsilon, split.seed).predict(split.test_X)


def alone(split: Split, epsilon: float) -> np.ndarray:
    answers = np.zeros(len(split.test_y))
    for place, name in enumerate(split.names):
        mine, asked = split.task == name, split.test_task == name
        model = fitted(split.X[mine], split.y[mine], epsilon, 1000 * split.seed + place)
        answers[asked] = model.predict(split.test_X[asked])
    return answers


if __name__ == "__main__":
    main(
        diffprivlib.__version__,
        {
            "LinearRegression, all rows": Method(pooled, "a row", {}),
            "LinearRegression, each task": Method(alone, "a row", {}),
        },
    )
