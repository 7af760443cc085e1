"""Accuracy of private personal models, private FedAvg and learning alone, on MNIST by writer.

``python benchmarks/neural_accuracy.py`` splits the images of each of the 836 writers in halves,
learns multinomial logistic models on the pixels added up in 7 × 7 squares (a public map with
orthonormal rows; ``--pixels`` takes all 784) and prints the mean accuracy over writers for every ε
and method; ``--seeds`` for other splits, ``--rounds``, ``--epsilons`` and ``--cohort`` for other
runs, ``--model cnn`` for the network. Rows go to ``benchmarks/results/neural_accuracy.json`` (or
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


def images(*, pixels: bool) -> tuple[Any, Any, Any]:
    """Return rows, digits and writers; pixels lie in [0, 1]."""
    data = datasets.load_mnist()
    X = (data.X.astype(np.float32) / np.float32(255)).reshape(-1, 28, 28)
    if not pixels:
        X = X.reshape(-1, 7, 4, 7, 4).sum(axis=(2, 4)) / np.float32(4)
    return X.reshape(len(X), -1), data.y.astype(int), np.unique(data.tasks, return_inverse=True)[1]


def halves(task: Any, seed: int) -> Any:
    """Return which rows are for training: half of every writer's, at random."""
    order = np.lexsort((np.random.default_rng(seed).random(len(task)), task))
    place = np.empty(len(task), dtype=int)
    place[order] = np.arange(len(task)) - np.searchsorted(task[order], task[order])
    return place < np.bincount(task)[task] // 2


def accuracy(model: Any, X: Any, y: Any, task: Any) -> float:
    """Return the mean accuracy over writers."""
    hit = model.predict(X, tasks=task) == y
    return float((np.bincount(task, hit) / np.bincount(task)).mean())


def rows(args: argparse.Namespace) -> Any:
    """Yield one result a seed, ε and method."""
    X, y, task = images(pixels=args.pixels or args.model != "logistic")
    classes = tuple(range(10))
    shared = {"model": args.model, "classes": classes, "learning_rate": args.learning_rate}
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
