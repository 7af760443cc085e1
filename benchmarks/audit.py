"""The audit figure: claimed ε against the attack's lower bound, for every mechanism by name.

    python benchmarks/audit.py [--trials N] [--figure PATH]
    python benchmarks/audit.py tightness [--seconds S]      # the table of every estimator

Sound mechanisms lie below the diagonal, and close to it where the attack is strong; the published
ones that leak lie above, as far as that many draws can show (24 000 Wishart matrices cannot show
more than ε = 7.3). A bound of zero is drawn at the lower edge.

Writes benchmarks/results/audit.csv, audit.json and audit.png (or the figure to PATH).
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from pathlib import Path
from typing import Any

import audit_tightness
from tacit.audit import audit_mechanism

RESULTS = Path(__file__).parent / "results"
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
# Name, dimension, label. The two-sided Wishart is told apart best in few dimensions.
SPECIMENS = (
    ("laplace", 10, "Laplace"),
    ("gaussian", 10, "Gaussian (δ = 1e-5)"),
    ("symmetric-gaussian", 5, "symmetric Gaussian (δ = 1e-5)"),
    ("gamma-vector", 2, "gamma vector, d = 2"),
    ("two-sided-wishart", 2, "two-sided Wishart, d = 2"),
    ("poisson-gaussian", 10, "Poisson Gaussian, q = 0.1 (δ = 1e-5)"),
    ("wishart-published", 5, "Wishart, as published"),
    ("algorithm5-noise-published", 10, "Algorithm 5 noise, as published"),
)


def measure(n_trials: int | None) -> list[dict[str, Any]]:
    rows = []
    for name, d, label in SPECIMENS:
        for epsilon in EPSILONS:
            began = time.perf_counter()
            result = audit_mechanism(
                name, epsilon=epsilon, n_features=d, n_trials=n_trials, random_state=0
            )
            seconds = time.perf_counter() - began
            rows.append({"label": label, "n_features": d, **result.to_dict(), "seconds": seconds})
            print(f"{seconds:6.1f} s  {result}", flush=True)
    return rows


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.2, 5.0))
    span = (EPSILONS[0] / 2, EPSILONS[-1] * 2)
    axes.plot(span, span, color="0.3", lw=1, label="claim")
    axes.fill_between(span, span, 40, color="tab:red", alpha=0.06, lw=0)
    axes.text(0.07, 11, "refuted", color="tab:red", fontsize=9)
    for number, (_, _, label) in enumerate(SPECIMENS):
        own = [row for row in rows if row["label"] == label]
        x = [row["claimed_epsilon"] for row in own]
        y = [max(row["epsilon_lower"], 1.2e-2) for row in own]
        leaks = "published" in label
        axes.plot(
            x,
            y,
            marker="D" if leaks else "os^Pvh"[number],
            ms=5,
            lw=1.2,
            ls="--" if leaks else "-",
            label=label,
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=span,
        ylim=(1e-2, 30),
        xlabel="claimed ε",
        ylabel="lower bound on ε by attack (99.9 % confidence)",
        title="What is claimed, and what an attack proves",
    )
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    axes.grid(alpha=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=("figure", "tightness"), default="figure")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--seconds", type=float, default=60.0, help="of processor time a row")
    parser.add_argument("--only", nargs="*", help="estimators; the rest of the table stays")
    parser.add_argument("--figure", type=Path, default=RESULTS / "audit.png")
    chosen = parser.parse_args()
    if chosen.what == "tightness":
        audit_tightness.run(chosen.seconds, chosen.only)
        return
    rows = measure(chosen.trials)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "audit.json").write_text(json.dumps(rows, indent=1))
    with (RESULTS / "audit.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    draw(rows, chosen.figure)


if __name__ == "__main__":
    main()
