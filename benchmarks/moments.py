"""Released moments against single-task learning: does sharing rows pay, and is nobody harmed?

``python benchmarks/moments.py --data school --seeds 12`` prints a table of paired differences to
single-task learning, by ε and who adds the noise, ± 2 standard errors, each beside its bar: 80 % of
what a trial of the idea had gained, for ε ≥ 1. A cell is *held* if mean + 2 standard errors reaches
the bar, and does *harm* if single-task is better by more than .003 + 2 standard errors. 30 % of
every site's rows train, δ = 1e-5, replace-one.

``--hostile`` lets the largest site of every set send huge, flipped, constant or no numbers at all
in place of its releases (noise at sites), or speak with rows that are as long and as misleading as
the bounds let them be (noise added once), and prints what that does to the *other* sites, relative
to single-task learning, ± 2 standard errors.

Every split is one line of ``benchmarks/results/moments.jsonl``: a run that was cut (``--minutes``)
goes on where it stopped. Delete the file after a change of the method.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit import (
    SharedMomentsClassifier,
    SharedMomentsRegressor,
    SingleTaskClassifier,
    SingleTaskRegressor,
)
from tacit.engines import Batches, Local

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]

EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-5
RESULTS = Path(__file__).parent / "results/moments.jsonl"

# What the trial reached: differences from single-task learning, untrusted and trusted, by ε.
TRIAL: dict[str, dict[float, tuple[float, float]]] = {
    "school": {
        0.3: (-0.004, -0.065),
        1.0: (-0.033, -0.083),
        3.0: (-0.075, -0.087),
        10.0: (-0.094, -0.091),
    },
    "diabetes130": {
        0.3: (0.016, 0.028),
        1.0: (0.031, 0.039),
        3.0: (0.040, 0.045),
        10.0: (0.050, 0.052),
    },
    "heart_disease": {
        0.3: (-0.012, -0.007),
        1.0: (0.006, 0.017),
        3.0: (0.022, 0.024),
        10.0: (0.027, 0.027),
    },
    "vehicle": {
        0.3: (-0.023, 0.013),
        1.0: (0.028, 0.046),
        3.0: (0.037, 0.050),
        10.0: (0.047, 0.064),
    },
    "chem97": {
        0.3: (0.002, 0.002),
        1.0: (-0.017, -0.017),
        3.0: (-0.020, -0.020),
        10.0: (-0.021, -0.021),
    },
}


def _school(z: Any) -> Rows:
    X, y = z["X"].astype(float), z["y"].astype(float)
    X[:, 3:5] = (X[:, 3:5] - 50) / 50
    return X / np.sqrt(8), (y - 35.5) / 34.5, z["task"]


def _chem97(z: Any) -> Rows:
    X = z["X"].astype(float)
    X = np.column_stack([X[:, 0] * 2 - 1, X[:, 1] / 6, (X[:, 2] - 4) / 4])
    return X / np.sqrt(3), (z["y"].astype(float) - 5) / 5, z["task"]


def _vehicle(z: Any) -> Rows:
    return z["X"].astype(float) / 10, z["y"], z["task"]


def _one_hot(values: np.ndarray, known: tuple[int, ...], *, other: bool) -> np.ndarray:
    columns = [values == one for one in known] + ([~np.isin(values, known)] if other else [])
    return np.column_stack(columns).astype(float)


def _in_range(values: np.ndarray, low: float, high: float, missing: float) -> np.ndarray:
    values = np.where(np.isnan(values), missing, values)
    return np.clip((values - (low + high) / 2) / ((high - low) / 2), -1, 1)


def _heart(z: Any) -> Rows:
    c = z["X"].astype(float)
    c[:, 4] = np.where(c[:, 4] == 0, np.nan, c[:, 4])
    columns = [
        _in_range(c[:, 0], 20, 90, 55),
        c[:, 1] * 2 - 1,
        _one_hot(c[:, 2], (1, 2, 3, 4), other=False),
        _in_range(c[:, 3], 80, 200, 135),
        _in_range(c[:, 4], 100, 400, 240),
        np.isnan(c[:, 4]),
        _one_hot(c[:, 5], (0, 1), other=True),
        _one_hot(c[:, 6], (0, 1, 2), other=False),
        _in_range(c[:, 7], 60, 210, 135),
        _one_hot(c[:, 8], (0, 1), other=True),
        _in_range(c[:, 9], -3, 6, 1),
        _one_hot(c[:, 10], (1, 2, 3), other=True),
        _in_range(c[:, 11], 0, 3, 1),
        np.isnan(c[:, 11]),
        _one_hot(c[:, 12], (3, 6, 7), other=True),
    ]
    return np.column_stack(columns).astype(float) / 3, z["y"], z["task"]


def _diabetes(z: Any) -> Rows:
    kept = z["first_encounter"] & ~z["expired_or_hospice"]
    X = z["X"][kept].astype(float)
    X[:, 0] = (X[:, 0] - 50) / 50
    for column, largest in (
        (7, 14),
        (8, 100),
        (9, 6),
        (10, 50),
        (11, 4),
        (12, 4),
        (13, 4),
        (14, 9),
    ):
        X[:, column] = np.minimum(X[:, column], largest) / largest
    return np.clip(X, -1, 1) / np.sqrt(11), z["y"][kept], z["task"][kept]


SETS: dict[str, tuple[str, Callable[[Any], Rows], bool]] = {
    "school": ("school", _school, False),
    "diabetes130": ("diabetes130", _diabetes, True),
    "heart_disease": ("heart_disease", _heart, True),
    "vehicle": ("vehicle_ditto_train", _vehicle, True),
    "chem97": ("chem97", _chem97, False),
}


def split(task: np.ndarray, seed: int) -> np.ndarray:
    """Return which rows train: 30 % of every site's, three at least."""
    rng, train = np.random.default_rng(999 + seed), np.zeros(len(task), dtype=bool)
    for site in np.unique(task):
        rows = np.flatnonzero(task == site)
        rng.shuffle(rows)
        train[rows[: max(3, round(0.3 * len(rows)))]] = True
    return train


def _area(y: np.ndarray, score: np.ndarray) -> float:
    from scipy.stats import rankdata

    ranks, positive = rankdata(score), y > 0
    n, m = int(positive.sum()), int((~positive).sum())
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m)) if n and m else np.nan


def scored(model: Any, X: np.ndarray, y: np.ndarray, task: np.ndarray) -> float:
    """Return nMSE over all rows, or the mean of the sites' areas under the ROC curve."""
    if hasattr(model, "decision_function"):
        score = model.decision_function(X, tasks=task)
        areas = [_area(y[task == site], score[task == site]) for site in np.unique(task)]
        return float(np.nanmean(areas))
    return float(np.mean((model.predict(X, tasks=task) - y) ** 2) / y.var())


def data_of(name: str, seed: int) -> tuple[Rows, Rows]:
    """Return training and test rows of one split, of sites with three of each at least."""
    file, read, _ = SETS[name]
    folder = Path(os.environ.get("TACIT_DATA", "data"))
    X, y, task = read(np.load(folder / f"{file}.npz", allow_pickle=False))
    train = split(task, seed)
    sites = [
        s for s in np.unique(task) if min((m & (task == s)).sum() for m in (train, ~train)) > 2
    ]
    known = np.isin(task, sites)
    first, second = train & known, ~train & known
    return (X[first], y[first], task[first]), (X[second], y[second], task[second])


def alone(classes: bool) -> Any:
    """Return the single-task baseline."""
    return SingleTaskClassifier(classes=(0, 1)) if classes else SingleTaskRegressor()


def differences(
    name: str, seed: int, epsilons: tuple[float, ...]
) -> tuple[float, dict[Any, float]]:
    """Return single-task's score and the differences by (aggregation, ε)."""
    (X, y, task), test = data_of(name, seed)
    classes = SETS[name][2]
    base, found = scored(alone(classes).fit(X, y, tasks=task), *test), {}
    for aggregation in ("untrusted", "trusted"):
        for number, epsilon in enumerate(epsilons):
            model = shared(classes, epsilon, aggregation, 1000 * seed + number)
            found[aggregation, epsilon] = scored(model.fit(X, y, tasks=task), *test) - base
    return base, found


def shared(classes: bool, epsilon: float, aggregation: str, state: int, **more: Any) -> Any:
    """Return the method with its defaults."""
    options: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": DELTA,
        "aggregation": aggregation,
        "row_norm": 1.0,
        "random_state": state,
        **more,
    }
    if classes:
        return SharedMomentsClassifier(classes=(0, 1), **options)
    return SharedMomentsRegressor(**options)


HOSTILE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "huge": lambda said: np.full_like(said, 1e9),
    "flipped": lambda said: -said,
    "not a number": lambda said: np.full_like(said, np.nan),
    "constant": lambda said: np.full_like(said, 30.0),
}


@dataclass(frozen=True)
class OneHostile(Local):
    """The local engine with one site that sends what it likes."""

    site: int = 0
    kind: str = "huge"

    def parties(self, protocol: Any, tasks: Any, *, entropy: Any) -> Batches:
        """Return the homes, one of them tampered with."""
        change, site = HOSTILE[self.kind], self.site

        class Homes(Batches):
            def ask(self, *asked: Any) -> Any:
                for said in super().ask(*asked):
                    tampered = said.copy()
                    tampered[site] = change(said[site])
                    yield tampered

        return Homes(protocol, tasks, entropy=entropy)


def hostile(names: list[str], seeds: range) -> None:
    """Print what one hostile site does to the others, by set, who adds the noise, and ε."""
    for name in names:
        classes, found = SETS[name][2], {}
        for seed in seeds:
            (X, y, task), test = data_of(name, seed)
            names_of, counts = np.unique(task, return_counts=True)
            worst = int(np.argmax(counts))
            honest = test[2] != names_of[worst]
            judged = tuple(part[honest] for part in test)
            base = scored(alone(classes).fit(X, y, tasks=task), *judged)
            poison_X, poison_y = X.copy(), y.copy()
            bad = task == names_of[worst]
            norms = np.linalg.norm(X[bad], axis=1, keepdims=True)
            poison_X[bad] /= np.maximum(norms, 1e-9)
            poison_y[bad] = 1 - y[bad] if classes else -np.sign(y[bad])
            for epsilon in EPSILONS[2:]:
                for kind in HOSTILE:
                    engine = OneHostile(site=worst, kind=kind)
                    model = shared(classes, epsilon, "untrusted", seed, engine=engine)
                    value = scored(model.fit(X, y, tasks=task), *judged) / base
                    found.setdefault((kind, "at sites", epsilon), []).append(value)
                model = shared(classes, epsilon, "trusted", seed)
                value = scored(model.fit(poison_X, poison_y, tasks=task), *judged) / base
                found.setdefault(("flipped rows", "once", epsilon), []).append(value)
        for (kind, where, epsilon), values in found.items():
            worse = np.mean(values) - 1 if not classes else 1 - np.mean(values)
            error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
            verdict = "held" if worse <= 0.02 else "WORSE THAN 2 %"
            shown = f"{worse:+.2%} ± {2 * error:.2%}"
            print(f"{name}, {kind}, noise {where}, ε = {epsilon:g}: {shown} {verdict}", flush=True)


def run(path: Path, name: str, seeds: range, until: float) -> None:
    """Make the splits that are missing, one line each, until it is time."""
    done = {(line["set"], line["seed"]) for line in lines(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        if (name, seed) not in done and time.monotonic() < until:
            base, found = differences(name, seed, EPSILONS)
            cells = [[*key, value] for key, value in found.items()]
            with path.open("a") as file:
                line = {"set": name, "seed": seed, "alone": base, "differences": cells}
                file.write(json.dumps(line) + "\n")


def lines(path: Path) -> list[Any]:
    """Return what was measured so far."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def cell(values: np.ndarray, sign: int, goal: float | None) -> str:
    """Return mean, two standard errors, the bar and the verdict."""
    mean = values.mean()
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else np.inf
    shown = "not sent" if not values.any() else f"{mean:+.3f} ± {2 * error:.3f}"
    if sign * mean < -0.003 - 2 * error:
        return f"{shown}: harm"
    if goal is None:
        return shown
    held = sign * mean + 2 * error >= 0.8 * sign * goal
    return f"{shown} ({0.8 * goal:+.3f}: {'held' if held else 'below'})"


def table(path: Path, names: list[str]) -> None:
    """Print everything as Markdown."""
    print(f"| set, seeds, alone | noise | {' | '.join(f'ε = {e:g}' for e in EPSILONS)} |")
    print("|---" * (2 + len(EPSILONS)) + "|")
    for name in names:
        runs = [line for line in lines(path) if line["set"] == name]
        if not runs:
            continue
        classes = SETS[name][2]
        alone = np.mean([line["alone"] for line in runs])
        head = f"{name}, {len(runs)}, {'AUC' if classes else 'nMSE'} {alone:.3f}"
        for column, aggregation in enumerate(("untrusted", "trusted")):
            cells = []
            for epsilon in EPSILONS:
                values = [
                    value
                    for line in runs
                    for who, e, value in line["differences"]
                    if (who, e) == (aggregation, epsilon)
                ]
                goal = TRIAL[name][epsilon][column] if epsilon >= 1 else None
                cells.append(cell(np.array(values), 1 if classes else -1, goal))
            where = ("at sites", "once")[column]
            print(f"| {head} | {where} | {' | '.join(cells)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=np.inf)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--hostile", action="store_true")
    asked = parser.parse_args()
    if asked.hostile:
        hostile(asked.data, range(asked.first, asked.first + asked.seeds))
        raise SystemExit
    until = time.monotonic() + 60 * asked.minutes
    for one in asked.data:
        run(asked.out, one, range(asked.first, asked.first + asked.seeds), until)
    table(asked.out, asked.data)
