"""Memory of a long run: 100 000 linear tasks, Poisson cohorts of about 1 000, 200 rounds.

``python benchmarks/neural_memory.py`` learns personal linear models, kept from round to round, and
notes the resident memory after every round. Prints it, with the largest growth over the second half
of the rounds, and writes ``benchmarks/results/neural_memory.json``. ``--tasks``, ``--cohort`` and
``--rounds`` for other runs.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np

import tacit

RESULTS = Path(__file__).parent / "results" / "neural_memory.json"
ROWS, FEATURES = 10, 10


def resident() -> float:
    """Return the megabytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--cohort", type=int, default=1_000, help="expected members of a round")
    parser.add_argument("--rounds", type=int, default=200)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(args.tasks), ROWS)
    X = rng.standard_normal((len(task), FEATURES)).astype(np.float32)
    shared = rng.standard_normal(FEATURES)
    y = X @ shared + 0.5 * rng.standard_normal(len(task))
    seen: list[float] = []
    begun = time.time()
    model = tacit.NeuralMeanRegularizedRegressor(
        1.0,
        n_rounds=args.rounds,
        cohort=args.cohort / args.tasks,
        fine_tune=None,
        progress=lambda release, releases: seen.append(resident()),  # noqa: ARG005
    ).fit(X, y, tasks=task)
    seconds = time.time() - begun
    half = seen[len(seen) // 2 :]
    found = {
        "settings": vars(args),
        "megabytes": seen,
        "growth_second_half": max(half) - half[0],
        "seconds": seconds,
        "epsilon": model.privacy_.epsilon,
        "error_of_centre": float(np.linalg.norm(model.shared_model_[:FEATURES] - shared)),
    }
    for number in range(0, len(seen), max(1, len(seen) // 10)):
        print(f"round {number + 1:4d}  {seen[number]:8.1f} MB")
    print(f"round {len(seen):4d}  {seen[-1]:8.1f} MB")
    print(f"grown in the second half by {found['growth_second_half']:.1f} MB; {seconds:.0f} s")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
