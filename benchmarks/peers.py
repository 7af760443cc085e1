"""Libraries of the field on the same data and split: School, 30 % of every task for training.

    python benchmarks/peers.py [--environment .venv-peers] [--runs 5] [--peers diffprivlib]

Peers that install from PyPI run in an environment which this script makes; one that cannot be
installed is listed with the reason. What is protected differs (whole tasks for tacit's methods,
single rows for the others) and stands in the table: numbers of different units are not comparable.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import numpy as np

import tacit
from tacit.datasets import load_school
from tacit.tasks import TaskSet

SIDES = Path(__file__).parent / "peers_sides"
EPSILONS = (1.0, 10.0)
PEERS = {
    "diffprivlib": "one row, pure ε",
    "opacus": "one row",
    "flwr": "one whole task, by a trusted server",
    "mutar": "nobody",
}
# What pip is asked for, in order.
REQUIREMENTS = {
    # diffprivlib 0.6 imports names that scikit-learn 1.8 no longer has.
    "diffprivlib": [["diffprivlib", "scikit-learn<1.8"]],
    "opacus": [["torch", "opacus"]],
    "flwr": [["flwr", "scipy"]],
    # Its last release imports Cython while it is built, and does not say so.
    "mutar": [
        ["cython", "setuptools", "wheel", "numpy", "scipy", "scikit-learn"],
        ["--no-build-isolation", "mutar"],
    ],
}
OURS = {
    "SharedPrior": "one whole task",
    "LowRank": "one whole task",
    "SharedMoments": "one row",
}


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
            found[f"tacit {name}", unit, f"ε = {epsilon:g}"] = nmse(
                model.predict(test.X, tasks=asked), test
            )
    alone = tacit.SingleTaskRegressor().fit(train.X, train.y, tasks=rows)
    found["tacit SingleTask", "everybody: nothing is shared", ""] = nmse(
        alone.predict(test.X, tasks=asked), test
    )
    return found


def python_of(environment: Path, peer: str) -> Path | str:
    """Return the interpreter that has the peer, or why there is none."""
    if not environment.exists():
        venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    for asked in [] if _imports(python, peer) else REQUIREMENTS[peer]:
        command = [python, "-m", "pip", "install", "--quiet", *asked]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            lines = [line.strip() for line in done.stderr.splitlines() if "Error" in line]
            return f"not installable: {lines[-1] if lines else 'see pip'}"
    return python if _imports(python, peer) else "installed, but cannot be imported"


def _imports(python: Path, peer: str) -> bool:
    asked = [python, "-c", f"import {peer}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def theirs(peer: str, python: Path, run: int) -> dict[tuple[str, str, str], float]:
    train, test = split(run)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "split.npz"
        np.savez(
            path,
            X=train.X,
            y=train.y,
            task=train.task_of_row,
            test_X=test.X,
            test_y=test.y,
            test_task=test.task_of_row,
        )
        command = [python, SIDES / f"{peer}_side.py", path, json.dumps(EPSILONS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    body = json.loads(done.stdout)
    return {
        (f"{peer} {body['version']}", PEERS[peer], setting): value
        for setting, value in body["nmse"].items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--environment", type=Path, default=Path(".venv-peers"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--peers", nargs="*", choices=sorted(PEERS), default=sorted(PEERS))
    options = parser.parse_args()
    found: dict[tuple[str, str, str], list[float]] = {}
    pythons = {peer: python_of(options.environment, peer) for peer in options.peers}
    for run in range(options.runs):
        results = ours(run)
        for peer, python in pythons.items():
            if not isinstance(python, str):
                results |= theirs(peer, python, run)
        for key, value in results.items():
            found.setdefault(key, []).append(value)
    print("| library | protects | setting | nMSE |\n|---|---|---|---|")
    for (name, unit, setting), values in found.items():
        print(f"| {name} | {unit} | {setting} | {np.mean(values):.3f} ± {np.std(values):.3f} |")
    for peer, python in pythons.items():
        if isinstance(python, str):
            print(f"| {peer} | {PEERS[peer]} | {python} | – |")


if __name__ == "__main__":
    sys.exit(main())
