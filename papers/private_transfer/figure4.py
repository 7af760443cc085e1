"""Figure 4: test AUC against the number of groups K at ε = 1, MNIST 0 against 8 → 0 against 9."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from settings import arguments, compare, draw, projected, summary, write

from tacit.datasets import load_mnist

GROUPS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)


def main() -> None:
    options = arguments(__doc__ or "")
    mnist = load_mnist()
    data = projected(mnist.X, mnist.y, public=range(1, 8))
    rows = []
    for n_groups in GROUPS:
        runs = [
            compare(draw(data, (0, 8), (0, 9), seed), 1.0, seed, n_groups=n_groups)
            for seed in options.seeds
        ]
        found = summary(runs)
        for name in ("FS(W)", "FS(R)"):
            rows.append((n_groups, name, f"{found[name][0]:.4f}", f"{found[name][1]:.4f}"))
            print(f"K={n_groups} {name} {found[name][0]:.4f} ± {found[name][1]:.4f}")
    write(options.out / "figure4.csv", ("n_groups", "method", "auc", "sd"), rows)
    figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for name, marker in (("FS(W)", "o"), ("FS(R)", "s")):
        mine = [row for row in rows if row[1] == name]
        axes.errorbar(
            [row[0] for row in mine],
            [float(row[2]) for row in mine],
            [float(row[3]) for row in mine],
            marker=marker,
            capsize=2,
            label=name,
        )
    axes.set(xlabel="number of groups K", ylabel="test AUC at ε = 1")
    axes.legend()
    figure.savefig(options.out / "figure4.png", dpi=150)


if __name__ == "__main__":
    main()
