"""Whole fits and single rounds of this tree against an earlier commit, in one run.

    python benchmarks/compare.py REV [--turns 7] [--only NAME …]      # make bench-compare REV=…

Two processes, one for each tree, take turns at every case; processor seconds are compared, the
shortest of the turns, so that other work on the machine shows as little as possible. A ratio below
1 says that this tree is faster. What an estimator does by default may have changed since; a case
therefore names the form that both have.

Writes benchmarks/results/compare.json.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
N_TASKS, N_FEATURES = 1000, 30
ALL: dict[str, Any] = {"random_state": 0}
# Case: estimator and parameters.
FITS: dict[str, tuple[str, dict[str, Any]]] = {
    "single-task regressor": ("SingleTaskRegressor", {}),
    "single-task classifier": ("SingleTaskClassifier", {}),
    "pooled regressor": ("PooledRegressor", {}),
    "pooled classifier": ("PooledClassifier", {}),
    "shared prior regressor, one conversation": ("SharedPriorRegressor", {"clip": 2.0, **ALL}),
    "shared prior classifier, one conversation": ("SharedPriorClassifier", {"clip": 2.0, **ALL}),
    "mean-regularised regressor, clipped": ("MeanRegularizedRegressor", {"clip": 2.0, **ALL}),
    "mean-regularised classifier, clipped": ("MeanRegularizedClassifier", {"clip": 2.0, **ALL}),
    "low rank regressor, one release": ("LowRankRegressor", {"n_rounds": 1, **ALL}),
    "low rank classifier, one release": ("LowRankClassifier", {"n_rounds": 1, **ALL}),
    "group sparse regressor, one release": ("GroupSparseRegressor", {"n_rounds": 1, **ALL}),
    "group sparse classifier, one release": ("GroupSparseClassifier", {"n_rounds": 1, **ALL}),
    "averaged regressor": ("AveragedRegressor", ALL),
    "averaged classifier": ("AveragedClassifier", ALL),
    "private logistic regression": ("PrivateLogisticRegression", {"epsilon": 1.0, **ALL}),
}
ROUNDS = {"step, squared": "squared", "step, logistic": "logistic"}
ROUNDS |= {"round, squared": "squared", "round, logistic": "logistic"}


def cases() -> dict[str, Callable[[], Any]]:
    """Return what this process's tree can do of everything above."""
    import numpy as np

    import tacit

    rng = np.random.default_rng(0)
    counts = rng.integers(10, 61, N_TASKS)
    task = np.repeat(np.arange(N_TASKS), counts)
    X = rng.uniform(-1, 1, (len(task), N_FEATURES))
    W = rng.standard_normal((N_TASKS, 3)) @ rng.standard_normal((3, N_FEATURES))
    y = np.einsum("nd,nd->n", X, W[task]) + rng.standard_normal(len(task))
    labels = (y > 0).astype(int)

    def fitting(name: str, options: dict[str, Any]) -> Callable[[], Any]:
        target = y if name.endswith("Regressor") else labels
        given = {} if name.startswith("PrivateLogistic") else {"tasks": task}
        if name.startswith("PrivateLogistic"):
            options = {**options, "rows": "clip"}
        return lambda: getattr(tacit, name)(**options).fit(X, target, **given)

    found = {case: fitting(*known) for case, known in FITS.items()}
    sys.path.insert(0, str(Path(os.environ["TACIT_TREE"]) / "benchmarks"))
    import linear

    for case, name in ROUNDS.items():
        tasks = linear.make_tasks(20_000, "float64")
        models = 0.1 * rng.standard_normal((20_000, linear.D))
        noise = np.eye(linear.D)
        objective = linear.Objective(tasks, linear.loss_by_name(name))
        if case.startswith("step"):
            found[case] = lambda o=objective, w=models: o.step(w, 0.01)
        else:
            found[case] = lambda o=objective, w=models, z=noise: linear.private_round(o, w, z)
    return found


def serve() -> None:
    """Answer every case's name on the input with its processor seconds, or with an error."""
    known = cases()
    for line in sys.stdin:
        try:
            began = time.process_time()
            known[line.strip()]()
            said: dict[str, Any] = {"seconds": time.process_time() - began}
        except Exception as error:  # a form that this tree does not have
            said = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(said), flush=True)


class Tree:
    """A process that runs the cases of one tree."""

    def __init__(self, root: Path) -> None:
        environment = {"PYTHONPATH": str(root / "src"), "TACIT_TREE": str(root)}
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", __file__, "serve"],
            env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, case: str) -> dict[str, Any]:
        """Return the seconds of one run, or what stood in the way."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(case + "\n")
        self._process.stdin.flush()
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


def compared(before: Tree, now: Tree, case: str, turns: int) -> dict[str, Any]:
    """Return the shortest seconds of both trees, and their ratio."""
    best: dict[str, float] = {"before": float("inf"), "now": float("inf")}
    for turn in range(turns + 1):  # the first one compiles
        for name, tree in (("before", before), ("now", now)):
            said = tree.run(case)
            if "error" in said:
                return {"case": case, "error": f"{name}: {said['error']}"}
            if turn:
                best[name] = min(best[name], said["seconds"])
    return {"case": case, **best, "ratio": best["now"] / best["before"]}


def main() -> None:
    """Unpack the earlier commit beside this tree and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rev")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", nargs="*")
    arguments = parser.parse_args()
    if arguments.rev == "serve":
        serve()
        return
    packed = subprocess.run(
        ["git", "archive", arguments.rev], cwd=ROOT, check=True, capture_output=True
    )
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
        before, now = Tree(Path(folder)), Tree(ROOT)
        for case in [*FITS, *ROUNDS]:
            if not arguments.only or case in arguments.only:
                rows.append(compared(before, now, case, arguments.turns))
                row = rows[-1]
                text = row.get("error") or (
                    f"{row['before']:8.4f} s → {row['now']:8.4f} s   {row['ratio']:5.2f}"
                )
                print(f"{case:45} {text}", flush=True)
    results = ROOT / "benchmarks" / "results"
    results.mkdir(exist_ok=True)
    found = {"rev": arguments.rev, "rows": rows}
    (results / "compare.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
