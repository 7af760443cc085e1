"""What every side does: read splits, tune a peer's settings or run them, print nMSE as JSON.

    python X_side.py tune '[1, 10]' split-1000.npz split-1001.npz
    python X_side.py run '[1, 10]' split-0.npz split-1.npz < choices.json

Runs in the peer's environment, so it needs nothing but NumPy. Targets are brought to [−1, 1] by
their public range, 0 to 70, and answers are cut to it.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Choice = dict[str, Any]
GAIN = 0.998  # a step on the grid must help by this factor
HALF = 35.0  # of the public range
DELTA = 1e-5


class Split:
    """Training and test rows with their tasks; targets in [−1, 1]."""

    def __init__(self, path: str) -> None:
        data = np.load(path)
        self.X, self.task, self.seed = data["X"], data["task"], int(data["seed"])
        self.factor = float(data["factor"])  # of noise that was made for a unit added or removed
        self.y = data["y"] / HALF - 1
        self.test_X, self.test_task, self.test_y = data["test_X"], data["test_task"], data["test_y"]
        self.names = np.unique(self.task)

    def nmse(self, answers: np.ndarray) -> float:
        """Return the normalised error of answers in [−1, 1]; infinite if they are not finite."""
        with np.errstate(all="ignore"):
            errors = (np.clip(HALF * (answers + 1), 0.0, 2 * HALF) - self.test_y) ** 2
            found = float(errors.mean() / self.test_y.var())
        return found if math.isfinite(found) else math.inf

    def predict(self, weights: np.ndarray) -> np.ndarray:
        """Return the answers of a linear model for all, or of one a task; the level comes last."""
        rows = np.hstack([self.test_X, np.ones((len(self.test_y), 1))])
        if weights.ndim == 1:
            return rows @ weights
        return np.einsum("nd,nd->n", rows, weights[np.searchsorted(self.names, self.test_task)])

    def homes(self) -> list[Home]:
        """Return every task's rows with a column for the level, scaled to norm 1 again."""
        found = []
        for name in self.names:
            mine = self.task == name
            rows = np.hstack([self.X[mine], np.ones((int(mine.sum()), 1))]) / math.sqrt(2)
            found.append(Home(rows, self.y[mine]))
        return found


class Home:
    """A task's rows; any number of its gradient steps of length 1 at once, in its eigenbasis."""

    def __init__(self, X: np.ndarray, y: np.ndarray) -> None:
        self.values, self.basis = np.linalg.eigh(X.T @ X / len(y))
        self.pull = self.basis.T @ (X.T @ y / len(y))

    def stepped(
        self, weights: np.ndarray, steps: int, towards: np.ndarray | float = 0.0, pull: float = 0.0
    ) -> np.ndarray:
        """Return the weights after so many steps, with a penalty of pull/2 times the distance²."""
        values = self.values + pull
        drawn = self.pull + pull * (self.basis.T @ np.broadcast_to(towards, weights.shape))
        kept = (1 - values) ** steps
        gone = np.where(values > 1e-12, (1 - kept) / np.maximum(values, 1e-12), steps)
        return self.basis @ (kept * (self.basis.T @ weights) + gone * drawn)


def ended(split: Split, homes: Sequence[Home], weights: np.ndarray, ending: int) -> np.ndarray:
    """Return answers of shared weights after so many last steps at every home."""
    return split.predict(np.stack([h.stepped(weights, ending) for h in homes]) / math.sqrt(2))


@dataclass(frozen=True)
class Method:
    """A way to use a peer: answers of a split at an ε (none if it is not private), and its grid.

    Without a grid it has the settings that another peer's method of the same name was given.
    """

    fit: Callable[..., np.ndarray]
    protects: str
    grid: Mapping[str, Sequence[Any]] | None = None
    private: bool = True
    reach: int = 1  # how many parameters change in a step on the grid: 2 where a fit is cheap

    def levels(self, epsilons: Sequence[float]) -> list[float | None]:
        """Return the ε at which it is run."""
        return list(epsilons) if self.private else [None]

    def errors(self, splits: Sequence[Split], epsilon: float | None, choice: Choice) -> list[float]:
        """Return the error on each split."""
        return [split.nmse(self.fit(split, epsilon, **choice)) for split in splits]

    def tuned(self, splits: Sequence[Split], epsilon: float | None) -> dict[str, Any]:
        """Return the choice at which no step on the grid helps."""
        tried: dict[tuple[Any, ...], float] = {}
        grid = self.grid or {}

        def at(choice: Choice) -> float:
            key = tuple(choice.values())
            if key not in tried:
                tried[key] = float(np.mean(self.errors(splits, epsilon, choice)))
            return tried[key]

        best = {name: values[len(values) // 2] for name, values in grid.items()}
        while better := next(
            (c for c in beside(grid, best, self.reach) if at(c) < GAIN * at(best)), None
        ):
            best = better
        return {
            "best": best,
            "error": round(at(best), 4),
            "tried": len(tried),
            "edges": [name for name, value in best.items() if is_edge(grid[name], value)],
        }


def beside(grid: Mapping[str, Sequence[Any]], choice: Choice, reach: int) -> Iterator[Choice]:
    """Yield what is one step away, along one parameter or along as many as it may."""
    moves = itertools.product((-1, 0, 1), repeat=len(grid))
    for move in sorted(moves, key=lambda by: sum(map(abs, by))):
        places = [grid[name].index(choice[name]) + by for name, by in zip(grid, move, strict=True)]
        inside = all(0 <= at < len(v) for at, v in zip(places, grid.values(), strict=True))
        if inside and 0 < sum(map(abs, move)) <= reach:
            yield {name: grid[name][at] for name, at in zip(grid, places, strict=True)}


def is_edge(values: Sequence[Any], value: Any) -> bool:
    """Say whether there could be more beyond; nothing is below 0 or below one round."""
    least = value == values[0] and value not in (0, 1)
    return len(values) > 1 and (least or value == values[-1])


def main(version: str, methods: Mapping[str, Method]) -> None:
    """Do what the command line asks, and print it."""
    mode, epsilons, begun = sys.argv[1], json.loads(sys.argv[2]), time.process_time()
    splits = [Split(path) for path in sys.argv[3:]]
    chosen = json.load(sys.stdin) if mode == "run" else {}
    found: dict[str, Any] = {}
    for name, method in methods.items():
        levels = {}
        if mode == "tune" and method.grid is None:
            continue
        for epsilon in method.levels(epsilons):
            level = "none" if epsilon is None else f"{epsilon:g}"
            if mode == "tune":
                levels[level] = method.tuned(splits, epsilon)
                print(name, level, levels[level], file=sys.stderr, flush=True)
            else:
                levels[level] = method.errors(splits, epsilon, chosen[name][level]["best"])
        found[name] = {"protects": method.protects, "levels": levels}
    seconds = time.process_time() - begun
    print(json.dumps({"version": version, "seconds": round(seconds, 1), "methods": found}))
