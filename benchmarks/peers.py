"""Libraries of the field on the same data and split: School, 30 % of every task for training.

    python benchmarks/peers.py [--environments .venv-peers] [--runs 3] [--peers diffprivlib …]
    python benchmarks/peers.py --tune [--peers opacus …]

Peers that install from PyPI run in environments which this script makes, one for each; one that
cannot be installed is listed with the reason. Settings of a peer are the best of its grid on the
*test* rows of two other draws, which flatters it a little, and are kept in peers_sides/tuned.json
with whether a grid's edge was hit; ours are those of the estimators. What is protected differs and
stands in the table: numbers of different units are not comparable. Ours hold for a unit that is
replaced; peers account for one added or removed, and get twice that noise, which is the same
promise, unless ``--neighbours add-or-remove`` asks for their own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit.datasets import load_school
from tacit.tasks import TaskSet

SIDES = Path(__file__).parent / "peers_sides"
TUNED = SIDES / "tuned.json"
TUNING_DRAWS = (1000, 1001)
EPSILONS = (1.0, 10.0)
NEIGHBOURS = {"replace-one": 2.0, "add-or-remove": 1.0}  # noise for a unit added or removed, times
# What pip is asked for, in order.
PEERS: dict[str, list[list[str]]] = {
    # diffprivlib 0.6 imports names that scikit-learn 1.8 no longer has.
    "diffprivlib": [["diffprivlib", "scikit-learn<1.8"]],
    # Its releases ask for Python 3.10 and pin a PyTorch; what is used of it runs with later ones.
    "fl4health": [
        [
            "torch",
            "flwr>=1.18,<1.19",
            "opacus",
            "torchmetrics",
            "dp-accounting<0.5",
            "scikit-learn",
        ],
        ["dm-tree", "pandas<3", "scipy", "tqdm", "wandb"],
        ["--no-deps", "--ignore-requires-python", "fl4health"],
    ],
    "flwr": [["flwr", "scipy"]],
    "jax_privacy": [["jax-privacy"]],
    # Its last release imports Cython while it is built, and does not say so.
    "mutar": [
        ["cython", "setuptools", "wheel", "numpy", "scipy", "scikit-learn"],
        ["--no-build-isolation", "mutar"],
    ],
    "nvflare": [["nvflare"]],
    "opacus": [["torch", "opacus"]],
    "pfl": [["pfl"]],
}
SAME = {"fl4health": "flwr", "opacus": "jax_privacy", "pfl": "flwr"}  # whose settings they have
OURS = {
    "SharedPrior": "a whole task",
    "LowRank": "a whole task",
    "SharedMoments": "a row",
}
Values = dict[tuple[str, str, str], list[float]]  # by library and method, what it protects, ε


def split(run: int) -> tuple[TaskSet, TaskSet]:
    tasks = load_school().taskset()
    rows = tasks.replace(X=np.asarray(tasks.X, dtype=np.float64)).normalised_rows(1.0)
    return rows.split(0.7, random_state=run)


def nmse(answers: np.ndarray, test: TaskSet) -> float:
    y = np.asarray(test.y)
    return float(np.mean((answers - y) ** 2) / np.var(y))


def ours(run: int) -> dict[tuple[str, str, str], float]:
    train, test = split(run)
    rows, asked = train.task_of_row, test.task_of_row
    found = {}
    for name, unit in OURS.items():
        for epsilon in EPSILONS:
            options = {"target_bound": 70.0} if name == "SharedMoments" else {}
            model = getattr(tacit, f"{name}Regressor")(epsilon, random_state=run, **options)
            model.fit(train.X, train.y, tasks=rows)
            found[f"tacit {name}", unit, f"{epsilon:g}"] = nmse(
                model.predict(test.X, tasks=asked), test
            )
    alone = tacit.SingleTaskRegressor().fit(train.X, train.y, tasks=rows)
    found["tacit SingleTask", "everybody: nothing is shared", "none"] = nmse(
        alone.predict(test.X, tasks=asked), test
    )
    return found


def python_of(environment: Path, peer: str) -> Path | str:
    """Return the interpreter that has the peer, or why there is none."""
    python = environment / "bin" / "python"
    if not python.exists():
        venv.create(environment, with_pip=True)
    for asked in [] if _imports(python, peer) else PEERS[peer]:
        command = [python, "-m", "pip", "install", "--quiet", *asked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines() if "Error" in line]
            return f"not installable: {lines[-1] if lines else 'see pip'}"
    return python if _imports(python, peer) else "installed, but cannot be imported"


def _imports(python: Path, peer: str) -> bool:
    asked = [python, "-c", f"import {peer}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def asked_of(
    peer: str, python: Path, mode: str, runs: tuple[int, ...], factor: float = 2.0
) -> dict[str, Any]:
    """Return what a peer's side answers about the splits of these runs."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{run}.npz" for run in runs]
        for run, path in zip(runs, paths, strict=True):
            train, test = split(run)
            np.savez(
                path,
                X=train.X,
                y=train.y,
                task=train.task_of_row,
                test_X=test.X,
                test_y=test.y,
                test_task=test.task_of_row,
                seed=run,
                factor=factor,
            )
        done = subprocess.run(
            [python, SIDES / f"{peer}_side.py", mode, json.dumps(EPSILONS), *paths],
            input=json.dumps(_choices(peer)),
            stdout=subprocess.PIPE,
            stderr=None if mode == "tune" else subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
    if done.returncode:
        raise SystemExit(f"{peer}: its side ended with {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def _tuned() -> dict[str, Any]:
    return json.loads(TUNED.read_text(encoding="utf-8")) if TUNED.exists() else {}


def _choices(peer: str) -> dict[str, Any]:
    kept = _tuned()
    return kept.get(SAME.get(peer, peer), {}) | kept.get(peer, {})


def tune(peer: str, python: Path) -> None:
    """Keep a peer's best settings, and say where a grid's edge was hit."""
    methods = asked_of(peer, python, "tune", TUNING_DRAWS)["methods"]
    kept = _tuned() | {peer: {name: found["levels"] for name, found in methods.items()}}
    TUNED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def theirs(peer: str, python: Path, runs: tuple[int, ...], factor: float) -> Values:
    body = asked_of(peer, python, "run", runs, factor)
    print(f"{peer}: {body['seconds']} s", file=sys.stderr)
    return {
        (f"{peer} {body['version']}, {name}", method["protects"], level): values
        for name, method in body["methods"].items()
        for level, values in method["levels"].items()
    }


def table(found: Values) -> str:
    """Return a line a method, with a column for each ε."""
    levels = [f"{epsilon:g}" for epsilon in EPSILONS] + ["none"]
    lines = [
        "| library and method | protects | ε = 1 | ε = 10 | no ε |",
        "|---|---|---|---|---|",
    ]
    for name, unit in dict.fromkeys(key[:2] for key in found):
        cells = [
            f"{np.mean(values):.3f} ± {np.std(values):.3f}" if values else ""
            for values in (found.get((name, unit, level)) for level in levels)
        ]
        lines.append(f"| {name} | {unit} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environments", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", nargs="*", choices=sorted(PEERS), default=sorted(PEERS))
    parser.add_argument("--neighbours", choices=sorted(NEIGHBOURS), default="replace-one")
    parser.add_argument("--tune", action="store_true", help="choose settings anew, and keep them")
    options = parser.parse_args()
    pythons = {peer: python_of(options.environments / peer, peer) for peer in options.peers}
    ready = {peer: python for peer, python in pythons.items() if not isinstance(python, str)}
    if options.tune:
        for peer, python in ready.items():
            tune(peer, python)
        return
    found: Values = {}
    runs = tuple(range(options.runs))
    for run in runs:
        for key, value in ours(run).items():
            found.setdefault(key, []).append(value)
    for peer, python in ready.items():
        found |= theirs(peer, python, runs, NEIGHBOURS[options.neighbours])
    print(table(found))
    for peer, python in pythons.items():
        if isinstance(python, str):
            print(f"{peer}: {python}")


if __name__ == "__main__":
    sys.exit(main())
