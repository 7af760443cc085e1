"""Table 1: MNIST 0 against 8 → 0 against 9, test AUC of five methods at five budgets."""

from __future__ import annotations

import json
from pathlib import Path

from settings import EPSILONS, arguments, compare, draw, projected, summary, write

from tacit.datasets import load_mnist

DELTAS = (0.0, 1e-5)


def main() -> None:
    options = arguments(__doc__ or "")
    published = json.loads((Path(__file__).parent / "expected.json").read_text())["table1"]
    mnist = load_mnist()
    data = projected(mnist.X, mnist.y, public=range(1, 8))
    rows = []
    for delta in DELTAS:
        for position, epsilon in enumerate(EPSILONS):
            runs = [
                compare(draw(data, (0, 8), (0, 9), seed), epsilon, seed, delta=delta)
                for seed in options.seeds
            ]
            for name, (mean, deviation) in summary(runs).items():
                paper = published["published"][name][position]
                rows.append((delta, epsilon, name, f"{mean:.4f}", f"{deviation:.4f}", paper))
                print(
                    f"δ={delta:g} ε={epsilon:g} {name:8} {mean:.4f} ± {deviation:.4f} paper {paper}"
                )
    write(options.out / "table1.csv", ("delta", "epsilon", "method", "auc", "sd", "paper"), rows)


if __name__ == "__main__":
    main()
