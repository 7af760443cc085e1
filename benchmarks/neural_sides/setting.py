"""What every side of the neural benchmark shares: the data, the numbers and the gate of a round."""

from __future__ import annotations

import json
import sys
import time

BEGAN = time.perf_counter()

import numpy as np  # noqa: E402

CLIENTS, COHORT, IMAGES, BATCH, CLASSES = 200, 50, 40, 10, 62
RATE, CLIP, NOISE = 0.05, 1.0, 1.0
MODEL = sys.argv[1]  # "cnn" or "logistic"


def data() -> tuple[np.ndarray, np.ndarray]:
    """Return images (clients, images, 784) and classes (clients, images)."""
    rng = np.random.default_rng(0)
    X = rng.random((CLIENTS, IMAGES, 784), dtype=np.float32)
    return X, rng.integers(0, CLASSES, (CLIENTS, IMAGES))


def cohorts(seed: int = 1):
    """Yield cohorts without end."""
    rng = np.random.default_rng(seed)
    while True:
        yield rng.choice(CLIENTS, COHORT, replace=False)


class Gate:
    """Called before every round: says how long the last one took and waits for the word to go on.

    The first round's time counts from the start of the process.
    """

    def __init__(self) -> None:
        self.started: float | None = None

    def __call__(self) -> bool:
        """Return whether another round is wanted."""
        now = time.perf_counter()
        if self.started is None:
            self.started = BEGAN
            return True
        print("@@", json.dumps(now - self.started), flush=True)
        wanted = sys.stdin.readline().strip() == "go"
        self.started = time.perf_counter()
        return wanted
