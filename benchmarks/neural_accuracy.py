"""Accuracy of private personal models, private FedAvg and learning alone, by writer.

``python benchmarks/neural_accuracy.py`` splits MNIST's images of each of 836 writers in halves,
learns multinomial logistic models on the pixels added up in 7 × 7 squares (a public map with
orthonormal rows; ``--pixels`` takes all 784) and prints the mean accuracy over writers for every ε
and method; ``--seeds`` for other splits, ``--rounds``, ``--epsilons`` and ``--cohort`` for other
runs, ``--data femnist`` for 206 writers of 62 characters, ``--model cnn`` for the network (with
``--writers`` and ``--epochs``: five ways to end are tried, and every writer keeps 1.7 million
numbers). Rows go to ``benchmarks/results/neural_accuracy.json`` (or
``--out``).

Learning alone is the better of two: `SingleTaskClassifier` (one against the rest, its ridge chosen
by leave-one-out) and the same softmax model trained by each writer alone. Constants of the methods
were chosen on the split of seed 100; seeds 0 to 4 judge.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import tacit
from tacit import datasets

METHODS = {
    "personal": ("NeuralMeanRegularizedClassifier", {}),
    "fedavg": ("PrivateFedAvgClassifier", {"fine_tune": None}),
    "fedavg+auto": ("PrivateFedAvgClassifier", {"fine_tune": "auto"}),
    "fedavg+vanilla": ("PrivateFedAvgClassifier", {"fine_tune": "vanilla"}),
}
CHOICES = [*METHODS, "single-task", "alone"]
RESULTS = Path(__file__).parent / "results" / "neural_accuracy.json"


DATA = {"mnist": (datasets.load_mnist, 10), "femnist": (datasets.load_femnist, 62)}


def images(name: str, *, pixels: bool, writers: int | None) -> tuple[Any, Any, Any]:
    """Return rows, characters and writers; pixels lie in [0, 1], 1 is ink."""
    data = DATA[name][0]()
    ink = 255 - data.X if name == "femnist" else data.X
    X = (ink.astype(np.float32) / np.float32(255)).reshape(-1, 28, 28)
    if not pixels:
        X = X.reshape(-1, 7, 4, 7, 4).sum(axis=(2, 4)) / np.float32(4)
    task = np.unique(data.tasks, return_inverse=True)[1]
    kept = task < (writers or np.inf)
    return X.reshape(len(X), -1)[kept], data.y.astype(int)[kept], task[kept]


def halves(task: Any, seed: int) -> Any:
    """Return which rows are for training: half of every writer's, at random."""
    order = np.lexsort((np.random.default_rng(seed).random(len(task)), task))
    place = np.empty(len(task), dtype=int)
    place[order] = np.arange(len(task)) - np.searchsorted(task[order], task[order])
    return place < np.bincount(task)[task] // 2


def accuracy(model: Any, X: Any, y: Any, task: Any) -> float:
    """Return the mean accuracy over writers."""
    hit, counts = np.bincount(task, model.predict(X, tasks=task) == y), np.bincount(task)
    return float((hit[counts > 0] / counts[counts > 0]).mean())


def rows(args: argparse.Namespace) -> Any:
    """Yield one result a seed, ε and method."""
    pixels = args.pixels or args.model != "logistic"
    X, y, task = images(args.data, pixels=pixels, writers=args.writers)
    classes = tuple(range(DATA[args.data][1]))
    shared = {"model": args.model, "classes": classes, "learning_rate": args.learning_rate}
    shared |= {"fine_tune_epochs": args.epochs}
    for seed in args.seeds:
        train = halves(task, seed)
        fit = (X[train], y[train]), {"tasks": task[train]}
        test = X[~train], y[~train], task[~train]
        if "single-task" in args.methods:
            begun = time.time()
            alone = tacit.SingleTaskClassifier(classes=classes).fit(*fit[0], **fit[1])
            yield seed, None, "alone: single-task", accuracy(alone, *test), time.time() - begun
        for epsilon in args.epsilons:
            for name, (kind, options) in METHODS.items():
                if name not in args.methods:
                    continue
                begun = time.time()
                model = getattr(tacit, kind)(
                    epsilon,
                    n_rounds=args.rounds,
                    cohort=args.cohort,
                    clip=args.clip,
                    **shared,
                    **options,
                ).fit(*fit[0], **fit[1])
                yield seed, epsilon, name, accuracy(model, *test), time.time() - begun
        if "alone" not in args.methods:
            continue
        begun = time.time()
        model = tacit.neural.NeuralMeanRegularizedClassifier(
            1e-3, n_rounds=1, fine_tune="auto", **shared
        ).fit(*fit[0], **fit[1])
        yield seed, None, "alone: softmax (ε = 0.001)", accuracy(model, *test), time.time() - begun


def cohort(text: str) -> Any:
    """Return "everyone", a rate or a size."""
    return text if text == "everyone" else float(text) if "." in text else int(text)


def rate(text: str) -> Any:
    """Return "auto" or a step."""
    return text if text == "auto" else float(text)


def main() -> None:
    """Run, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.2, 0.8, 4.0, math.inf])
    parser.add_argument("--methods", nargs="+", default=CHOICES, choices=CHOICES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--cohort", type=cohort, default="everyone")
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--learning-rate", type=rate, default="auto")
    parser.add_argument("--model", default="logistic")
    parser.add_argument("--data", default="mnist", choices=DATA)
    parser.add_argument("--writers", type=int, help="the first so many")
    parser.add_argument("--epochs", type=int, default=20, help="of a network, after the rounds")
    parser.add_argument("--pixels", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    done = []
    for seed, epsilon, method, score, seconds in rows(args):
        done.append(
            {
                "seed": seed,
                "epsilon": epsilon,
                "method": method,
                "accuracy": score,
                "seconds": seconds,
            }
        )
        print(
            f"{seed}  ε = {epsilon!s:>5}  {method:<28} {100 * score:6.2f} %  {seconds:6.1f} s",
            flush=True,
        )
    args.out.parent.mkdir(exist_ok=True)
    args.out.write_text(json.dumps({"settings": vars(args), "rows": done}, indent=1, default=str))


if __name__ == "__main__":
    main()
