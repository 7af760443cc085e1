"""Tune the printed methods fairly: the best of a stated grid, on draws that judge nothing.

    python -m papers.model_protected.tune --method printed-lr --data low-rank

For every privacy level the search walks the grid from parameter to parameter, from the last level's
choice, as long as a step makes the error on the *test* rows of the tuning draws smaller: generous,
and not private. A choice at the grid's edge is reported; the grid is then too small (one round is
no edge, there is nothing below it). Choices go to ``tuned.json``, which the figures read.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

import numpy as np

from .experiments import TUNED, load, score, train

DRAWS = (1000, 1001)
GAIN = 0.995  # a step must help by this factor


# The privacy levels of the figures, by kind of data and of method.
LEVELS = {
    ("synthetic", "printed"): (0.1, 1.0, 10.0),
    ("synthetic", "dp"): (0.1, 1.0, 10.0, 100.0, 1000.0),
    ("real", "printed"): (0.1, 1.0, 10.0),
    ("real", "dp"): (0.1, 1.0, 10.0, 100.0, 1000.0),
}


def _ladder(low: float, high: float, per_decade: int) -> tuple[float, ...]:
    count = round(math.log10(high / low) * per_decade) + 1
    return tuple(float(f"{value:.3g}") for value in np.geomspace(low, high, count))


ROUNDS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200)
PRINTED = {
    "clip": _ladder(1e-2, 1e6, 4),
    "alpha": _ladder(1e-4, 1e4, 4),
    "n_rounds": ROUNDS,
    "accelerated": (False, True),
}
GRIDS: dict[str, dict[str, tuple[Any, ...]]] = {
    "printed-lr": PRINTED,
    "printed-gs": PRINTED,
    "dp-mtrl": {
        "own": _ladder(1e-8, 1e8, 2),
        "related": _ladder(1e-8, 1e8, 2),
        "n_rounds": ROUNDS[:6],
    },
    "dp-aggr": {"strength": _ladder(1e-8, 1e8, 2)},
}
_WISHART = {"mechanism": "wishart-published", "update": "proximal"}
METHODS: dict[str, dict[str, Any]] = {
    "printed-lr": {"estimator": "LowRank", "parameters": _WISHART},
    "printed-gs": {"estimator": "GroupSparse", "parameters": _WISHART},
    "dp-mtrl": {"baseline": "dp-mtrl"},
    "dp-aggr": {"baseline": "dp-aggr"},
}
STARTS: dict[str, dict[str, Any]] = {
    "printed-lr": {"clip": 100.0, "alpha": 1.0, "n_rounds": 10, "accelerated": True},
    "printed-gs": {"clip": 100.0, "alpha": 1.0, "n_rounds": 10, "accelerated": True},
    "dp-mtrl": {"own": 1.0, "related": 1.0, "n_rounds": 1},
    "dp-aggr": {"strength": 1.0},
}
METRICS = {"landmine": "auc", "yeast": "auc"}


def error(method: str, data: str, epsilon: float, choice: dict[str, Any]) -> float:
    """Return the mean error on the tuning draws; infinite if a fit breaks down."""
    metric = METRICS.get(data, "nmse")
    kind = "Regressor" if metric == "nmse" else "Classifier"
    settings = METHODS[method]
    settings = settings | {"parameters": settings.get("parameters", {}) | choice}
    values = []
    for draw in DRAWS:
        rows, test = load(data, draw)
        with np.errstate(all="ignore"):
            model = train(settings, rows, epsilon, data=data, kind=kind, seed=draw)
            found = score(model, test, metric)
        values.append(1 - found if metric == "auc" else found)
    mean = float(np.mean(values))
    return mean if math.isfinite(mean) else math.inf


class Search:
    """A walk on the grid at one privacy level; every point is tried once."""

    def __init__(self, method: str, data: str, epsilon: float, start: dict[str, Any]) -> None:
        self.method, self.data, self.epsilon = method, data, epsilon
        self.grid = GRIDS[method]
        self.choice = dict(start)
        self.tried: dict[tuple[Any, ...], float] = {}

    def at(self, choice: dict[str, Any]) -> float:
        """Return the error of a choice."""
        key = tuple(choice[name] for name in self.grid)
        if key not in self.tried:
            self.tried[key] = error(self.method, self.data, self.epsilon, choice)
        return self.tried[key]

    def _step(self, name: str, by: int) -> bool:
        """Go along one parameter for as long as it helps."""
        values, moved = self.grid[name], False
        while True:
            place = min(range(len(values)), key=lambda i: abs(values[i] - self.choice[name])) + by
            if not 0 <= place < len(values):
                return moved
            other = self.choice | {name: values[place]}
            if not self.at(other) < GAIN * self.at(self.choice):
                return moved
            self.choice, moved = other, True

    def walk(self) -> dict[str, Any]:
        """Return the best choice, its error, and the parameters that ended at the grid's edge."""
        # From the neighbour's choice, or from the same point everywhere, whichever is better.
        self.choice = min((self.choice, STARTS[self.method]), key=self.at)
        moved = True
        while moved:
            moves = [self._step(name, by) for name in self.grid for by in (-1, 1)]
            moved = any(moves)
        edges = [
            name
            for name, values in self.grid.items()
            if name not in ("n_rounds", "accelerated")
            and self.choice[name] in (values[0], values[-1])
        ]
        return {
            "best": self.choice,
            "error": float(f"{self.at(self.choice):.4g}"),
            "tried": len(self.tried),
            "edges": edges,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=sorted(METHODS), required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after; go on later")
    options = parser.parse_args()
    known = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
    chosen = known.get(options.method, {}).get(options.data, {})
    start, begun = STARTS[options.method], time.monotonic()
    source = "synthetic" if options.data in ("low-rank", "group-sparse") else "real"
    for epsilon in sorted(LEVELS[source, options.method.split("-")[0]], reverse=True):
        level = f"{epsilon:g}"
        if level not in chosen and time.monotonic() - begun < options.seconds:
            chosen[level] = Search(options.method, options.data, epsilon, start).walk()
            print(options.method, options.data, epsilon, chosen[level], flush=True)
            known = json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}
            known.setdefault(options.method, {})[options.data] = chosen
            TUNED.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        start = chosen.get(level, {"best": start})["best"]


if __name__ == "__main__":
    main()
