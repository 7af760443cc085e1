"""The tightness table: for every private estimator the claim, and what an attack proves.

    python benchmarks/audit.py tightness [--seconds S] [--only NAME …]

The attacker chooses the data: the worst of several pairs of a canary and one other task (or of six
rows), and knows where every release would be without noise under either neighbour. It adds up the
projections on these shifts over all rounds; half of the fits choose a threshold, the other half
bounds ε at 99.9 % confidence. Every estimator gets as many fits as its seconds allow.

Writes benchmarks/results/tightness.json, and the table between its markers in docs/mechanisms.md.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit.audit.attacks import estimators, is_private
from tacit.audit.attacks.runs import example_tasks
from tacit.audit.estimator import fit_on
from tacit.audit.tightness import audit_at_worst
from tacit.privacy import Unit

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "mechanisms.md"
BEGIN, END = "<!-- tightness: begin -->", "<!-- tightness: end -->"
# What so few fits can still show: a Gaussian's whole curve is tested, a pure ε by one event.
CLAIMS = {"auto": 8.0, 0.0: 3.0}
FEWEST, FEW, MOST = 150, 500, 6000

NEEDED = {
    "objective-perturbation": "rows at which the claim's worst case is attained: the minimiser of "
    "few rows is pulled to its centre, so their gradients move b by less than the bound",
    "two-sided-wishart": "the density ratio of two-sided Wishart noise, which has no closed form; "
    "a distinguisher learned from this many fits misses its tail",
    "gamma-vector": "more fits: the best event is a far tail along the canary's direction",
    "laplace": "a pair that is worst in every release at once, and more fits for its tail",
}
# Shift over noise of the chosen pairs is within a few per cent of the claim's μ.
OTHERWISE = "more fits: the pair is at the bound, what is lost is the confidence interval"


def candidates_for(estimator: Any) -> list[Any]:
    rows = "rows" in estimator.get_params()
    sizes = (1,) if rows else (2, 24, 200)
    # The fewest tasks of which anything is asked: below, such a method spends nothing.
    n_tasks = next((m for m in sizes if estimator.plan(m, 2, n_rows=6 * m).releases), sizes[-1])
    return [example_tasks(estimator, n_tasks=n_tasks, n_features=d, n_rows=6) for d in (2, 5)]


def measure_one(kind: type[Any], delta: Any, seconds: float) -> dict[str, Any]:
    estimator = kind(epsilon=CLAIMS[delta], delta=delta)
    candidates = candidates_for(estimator)
    fit_on(estimator, candidates[0], 0)
    began = time.process_time()  # so that what else the machine does changes nothing
    for seed in range(5):
        probe = fit_on(estimator, candidates[0], seed)
    per_fit = (time.process_time() - began) / 5
    n_trials = int(np.clip(seconds / (2 * per_fit), FEWEST, MOST))
    result = audit_at_worst(estimator, candidates, n_trials=n_trials)
    statement = probe.privacy_
    return {
        **result.to_dict(),
        "unit": Unit(statement.unit).value,
        "mechanisms": list(statement.mechanisms),
        "n_releases": statement.n_releases,
        "seconds": time.process_time() - began,
    }


def needed(row: dict[str, Any]) -> str:
    if row["tightness"] >= 0.5:
        return ""
    if row["n_releases"] > 1:
        return "a pair at the bound in every release at once (this one moves few), and more fits"
    if row["n_trials"] < FEW and row["unit"] == "task":
        return f"more fits than {row['n_trials']} (`--seconds`)"
    known = [NEEDED[name] for name in row["mechanisms"] if name in NEEDED]
    return known[0] if known else OTHERWISE


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| Estimator | Claim | At least | Share | Fits a side | Attack | What a better one needs |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        releases = f"{row['n_releases']} × " if row["n_releases"] > 1 else ""
        attack = f"{row['pair']}; {releases}{', '.join(row['mechanisms'])}"
        lines.append(
            f"| `{row['target']}` | ε = {row['claimed_epsilon']:g}, δ = {row['delta']:.0e} | "
            f"ε ≥ {row['epsilon_lower']:.2f} | {row['tightness']:.2f} | {row['n_trials']} | "
            f"{attack} | {needed(row)} |".replace("δ = 0e+00", "δ = 0")
        )
    return "\n".join(lines)


def write(rows: list[dict[str, Any]]) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "tightness.json").write_text(json.dumps(rows, indent=1))
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table(rows)}\n{END}{after}")


def run(seconds: float, only: list[str] | None) -> None:
    rows = []
    for name, kind in estimators().items():
        if not is_private(kind) or (only and name not in only):
            continue
        for delta in CLAIMS:
            rows.append(measure_one(kind, delta, seconds))
            print(
                f"{rows[-1]['seconds']:6.1f} s  {name} δ={delta}: ε ≥ "
                f"{rows[-1]['epsilon_lower']:.2f} of {rows[-1]['claimed_epsilon']:g} "
                f"({rows[-1]['tightness']:.2f}; {rows[-1]['pair']}; {rows[-1]['event']})",
                flush=True,
            )
    if not only:
        write(rows)
