"""How the library's defaults were set: on Fashion-MNIST pairs only, by a grid of public rules.

    python -m papers.private_transfer.defaults [--repetitions 3]

The rule of the ridge strength is α = R²(1 + a·β + b·β²/n), β = E‖b‖/R the noise in units of a row.
It looks at no row. Writes results/defaults.csv.
"""

from __future__ import annotations

import argparse
import csv
import itertools
from pathlib import Path

import numpy as np

from tacit.datasets import load_fashion_mnist
from tacit.transfer import learning as transfer

from .settings import auc, draw, fit, projected

PAIRS = (((0, 8), (6, 8)), ((7, 9), (7, 8)), ((6, 8), (6, 9)), ((0, 7), (0, 9)))
LINEAR, QUADRATIC = (0.1, 0.3), (1.0, 4.0, 8.0)
BUDGETS = (0.5, 2.0, 8.0)
METHODS = ("FS(W)", "FS(R)", "SimComb", "SourceD", "Direct")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    fashion = load_fashion_mnist()
    data = projected(fashion.X, fashion.y, public=range(1, 6))
    draws = [(draw(data, *pair, s), s) for pair in PAIRS for s in range(options.repetitions)]
    rows: list[tuple[object, ...]] = [("linear", "quadratic", "epsilon", "method", "auc")]
    for linear, quadratic in itertools.product(LINEAR, QUADRATIC):
        transfer._LINEAR, transfer._QUADRATIC = linear, quadratic
        for epsilon, method in itertools.product(BUDGETS, METHODS):
            found = [auc(fit(method, drawn, epsilon, seed), drawn.test) for drawn, seed in draws]
            rows.append((linear, quadratic, epsilon, method, f"{np.mean(found):.4f}"))
            print(*rows[-1])
    path = Path(__file__).parent / "results" / "defaults.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


if __name__ == "__main__":
    main()
