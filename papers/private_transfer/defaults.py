"""How the library's defaults were set: on Fashion-MNIST pairs only, by a grid of public rules.

The rule of the ridge strength is α = R²(1 + a·β + b·β²/n), β = E‖b‖/R the noise in units of a row.
It looks at no row.
"""

from __future__ import annotations

import itertools

import numpy as np
from settings import arguments, compare, draw, projected, write

from tacit.datasets import load_fashion_mnist
from tacit.transfer import learning as transfer

PAIRS = (((0, 8), (6, 8)), ((7, 9), (7, 8)), ((6, 8), (6, 9)), ((0, 7), (0, 9)))
LINEAR, QUADRATIC = (0.1, 0.3), (1.0, 4.0, 8.0)
BUDGETS = (0.5, 2.0, 8.0)


def main() -> None:
    options = arguments(__doc__ or "")
    fashion = load_fashion_mnist()
    data = projected(fashion.X, fashion.y, public=range(1, 6))
    repetitions = max(1, options.repetitions // 3)
    rows = []
    for linear, quadratic in itertools.product(LINEAR, QUADRATIC):
        transfer._LINEAR, transfer._QUADRATIC = linear, quadratic
        for epsilon in BUDGETS:
            runs = [
                compare(draw(data, *pair, seed), epsilon, seed)
                for pair in PAIRS
                for seed in range(repetitions)
            ]
            means = {name: float(np.mean([run[name] for run in runs])) for name in runs[0]}
            rows.extend((linear, quadratic, epsilon, n, f"{m:.4f}") for n, m in means.items())
            print(linear, quadratic, epsilon, {n: round(m, 4) for n, m in means.items()})
    write(options.out / "defaults.csv", ("linear", "quadratic", "epsilon", "method", "auc"), rows)


if __name__ == "__main__":
    main()
