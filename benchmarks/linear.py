"""Time of one round over all tasks, as a multiple of one pass over X in memory.

``python benchmarks/linear.py`` prints a table of ratios and writes them to
``benchmarks/results/linear.json``; ``--quick`` leaves out the largest set.

A round is the gradient of every task's mean loss and the step (one fused pass), a Gaussian
release of the models' second moment (d × d), and the projection of all models by the shared map
that follows from it. The yardstick is ``X.sum()`` on the same array. Every time is the best of
several runs, so that other work on the machine shows as little as possible.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge

from tacit.losses import Loss, loss_by_name
from tacit.numerics import Objective, logistic_paths, ridge_paths
from tacit.numerics.shared_map import apply_map, second_moment, symmetric_spectrum
from tacit.numerics.threads import n_threads, one_blas_thread
from tacit.tasks import TaskSet

D = 50
SIZES = (2_000, 20_000, 100_000)
LOOP_TASKS = 4_000  # tasks the slow comparisons are run on; times are scaled to all tasks
SKLEARN_TASKS = 200
FIT_TASKS = 2_000


def make_tasks(m: int, dtype: str, seed: int = 0) -> TaskSet:
    """Return m tasks of 10 to 60 rows with 0/1 targets, which both losses accept."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(10, 61, m)
    X = rng.standard_normal((int(counts.sum()), D), dtype=np.dtype(dtype))
    y = (X[:, 0] + rng.standard_normal(len(X)) > 0).astype(dtype)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    return TaskSet(X, y, offsets, tuple(range(m)), np.arange(len(X)))


def best_time(action: Callable[[], Any], seconds: float, at_least: int = 5) -> float:
    """Return the shortest of the runs that fit into ``seconds``."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < at_least or time.perf_counter() < end:
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)


def best_times(actions: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Return the shortest run of each action, taken in turns so that all see the same load."""
    best = dict.fromkeys(actions, float("inf"))
    end = time.perf_counter() + seconds * len(actions)
    turns = 0
    while turns < 5 or time.perf_counter() < end:
        turns += 1
        for name, action in actions.items():
            begin = time.perf_counter()
            action()
            best[name] = min(best[name], time.perf_counter() - begin)
    return best


def private_round(objective: Objective, W: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Return the models after gradient, step, release and projection."""
    stepped = objective.step(W, 0.01)
    values, vectors = symmetric_spectrum(second_moment(stepped) + noise)
    kept = 1 - 0.01 / np.sqrt(np.maximum(values, 1e-3))
    return apply_map(stepped, (vectors * np.maximum(kept, 0)) @ vectors.T)


def loop_round(tasks: TaskSet, W: np.ndarray, loss: Loss, count: int) -> None:
    """Take a gradient step for the first ``count`` tasks, one after the other in numpy."""
    for i in range(count):
        rows = slice(tasks.offsets[i], tasks.offsets[i + 1])
        X, y = tasks.X[rows], tasks.y[rows]
        W[i] -= 0.01 / len(y) * (X.T @ loss.derivative(X @ W[i], y))


def measure_rounds(m: int, dtype: str, seconds: float) -> list[dict[str, Any]]:
    """Compare a round with a memory pass and with a loop over tasks."""
    tasks = make_tasks(m, dtype)
    W = 0.1 * np.random.default_rng(1).standard_normal((m, D)).astype(dtype)
    noise = np.random.default_rng(2).standard_normal((D, D)).astype(dtype)
    noise = (noise + noise.T) / 2
    counted = min(m, LOOP_TASKS)
    rows = []
    for name in ("squared", "logistic"):
        loss = loss_by_name(name)
        objective = Objective(tasks, loss)
        objective.step(W, 0.01)  # compile or load the kernel outside the timing
        best = best_times(
            {
                "memory": tasks.X.sum,
                "step": lambda o=objective: o.step(W, 0.01),
                "round": lambda o=objective: private_round(o, W, noise),
            },
            seconds,
        )
        memory, step, full = best["memory"], best["step"], best["round"]
        models = W.copy()
        with one_blas_thread():  # which suits small products best
            loop = best_time(lambda w=models, k=loss: loop_round(tasks, w, k, counted), 0, 5)
        rows.append(
            {
                "n_tasks": m,
                "dtype": dtype,
                "loss": name,
                "step / memory pass": step / memory,
                "round / memory pass": full / memory,
                "task loop / step": loop * m / counted / step,
            }
        )
    return rows


def measure_fits(seconds: float) -> list[dict[str, Any]]:
    """Compare whole fits with scikit-learn fitted task by task (a subsample, scaled)."""
    tasks = make_tasks(FIT_TASKS, "float64")
    both = [
        i
        for i in range(FIT_TASKS)
        if len(set(tasks.y[tasks.offsets[i] : tasks.offsets[i + 1]].tolist())) == 2
    ][:SKLEARN_TASKS]

    def one_by_one(model: Any) -> None:
        for i in both:
            rows = slice(tasks.offsets[i], tasks.offsets[i + 1])
            model.fit(tasks.X[rows], tasks.y[rows])

    pairs = {
        "ridge": (lambda: ridge_paths(tasks, 1.0, intercept=True), Ridge()),
        "logistic": (lambda: logistic_paths(tasks, 1.0, intercept=True), LogisticRegression()),
    }
    rows = []
    for name, (ours, model) in pairs.items():
        own = best_time(ours, seconds, 3) / FIT_TASKS
        with one_blas_thread():
            theirs = best_time(lambda fitted=model: one_by_one(fitted), seconds, 3) / len(both)
        rows.append({"fit": name, "scikit-learn task by task / tacit": theirs / own})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    names = list(rows[0])
    print("  ".join(f"{name:>18}" for name in names))
    for row in rows:
        cells = (f"{v:.2f}" if isinstance(v, float) else str(v) for v in row.values())
        widths = (max(18, len(name)) for name in names)
        print("  ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out 100 000 tasks")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each measurement")
    default = Path(__file__).parent / "results" / "linear.json"
    parser.add_argument("--out", type=Path, default=default)
    chosen = parser.parse_args()
    sizes = SIZES[:-1] if chosen.quick else SIZES
    print(f"{n_threads()} threads, d = {D}, 10–60 rows a task; ratios of best times")
    print(f"task loop timed on at most {LOOP_TASKS} tasks and scaled to all of them\n")
    rounds = [
        row
        for m in sizes
        for dtype in ("float64", "float32")
        for row in measure_rounds(m, dtype, chosen.seconds)
    ]
    show(rounds)
    print(f"whole fits at one strength, with intercept and leave-one-out, {FIT_TASKS} tasks;")
    print(f"scikit-learn timed on {SKLEARN_TASKS} tasks and scaled\n")
    fits = measure_fits(chosen.seconds)
    show(fits)
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "threads": n_threads(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    report = {"machine": machine, "n_features": D, "rounds": rounds, "fits": fits}
    chosen.out.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
