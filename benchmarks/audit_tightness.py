"""The tightness table: for every private estimator the claim, and what an attack proves.

    python benchmarks/audit.py tightness [--seconds S] [--only NAME …]

The attacker chooses the data: the worst of several pairs of a canary and other tasks (or rows), and
knows what either neighbour would give to the noise in every round, given the releases so far. It
adds up the log density ratios; half of the conversations choose a threshold, the other half bounds
ε at 99.9 % confidence. Every estimator gets as many conversations as its seconds allow.

With --only, the other rows stay as they are.

Writes the table between its markers in docs/mechanisms.md, an estimator at a time.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from tacit.audit.attacks import estimators, is_private
from tacit.audit.attacks.runs import example_tasks
from tacit.audit.estimator import fit_on
from tacit.audit.tightness import audit_at_worst
from tacit.privacy import Unit
from tacit.tasks import TaskSet

PAGE = Path(__file__).parents[1] / "docs" / "mechanisms.md"
BEGIN, END = "<!-- tightness: begin -->", "<!-- tightness: end -->"
# What so few can still show: a Gaussian's whole curve is tested, a pure ε by one event.
CLAIMS = {"auto": 8.0, 0.0: 3.0}
FEWEST, MOST = 300, 40_000
ROWS = 6  # of every task: tasks of one size are quick to fit side by side
SURE = 300

NEEDED = {
    "objective-perturbation": "rows whose gradients are 2R apart, as the proof allows; a logistic "
    "model held short by its strength is never that sure on either side",
    "two-sided-wishart": "the density ratio of two-sided Wishart noise, which has no closed form; "
    "trace norms only come close",
    "gamma-vector": "more conversations: the best event is a far tail along the canary's direction",
    "laplace": "a pair that is worst in every coordinate at once, and more conversations",
}
OTHERWISE = "more conversations: the pair is at the bound, the confidence interval is what is lost"


def candidates_for(estimator: Any) -> list[Any]:
    rows = "rows" in estimator.get_params()
    sizes = (1,) if rows else (2, 24, 50, 100, 200)
    # The fewest tasks of which anything is asked: below, such a method spends nothing.
    n_tasks = next((m for m in sizes if estimator.plan(m, 2, n_rows=6 * m).releases), sizes[-1])
    found = [example_tasks(estimator, n_tasks=n_tasks, n_features=d, n_rows=ROWS) for d in (2, 5)]
    found = [one.take_rows(place_in_task(one) < ROWS) for one in found]
    return [*found, sure_of_itself()] if rows else found


def place_in_task(tasks: TaskSet) -> Any:
    return np.arange(tasks.n_rows) - tasks.offsets[tasks.task_of_row]


def sure_of_itself() -> TaskSet:
    """Return one task whose model is as long as a strength allows, along the first feature."""
    signs = np.where(np.arange(SURE) % 2, 1.0, -1.0)
    return TaskSet.from_arrays(signs[:, None] * [1.0, 1e-3], (signs > 0) + 0.0, np.zeros(SURE))


def measure_one(kind: type[Any], delta: Any, seconds: float) -> dict[str, Any]:
    estimator = kind(epsilon=CLAIMS[delta], delta=delta)
    candidates = candidates_for(estimator)
    statement = fit_on(estimator, candidates[0], 0).privacy_
    n_trials = FEWEST
    while True:
        began = time.process_time()  # so that what else the machine does changes nothing
        result = audit_at_worst(estimator, candidates, n_trials=n_trials, random_state=1)
        spent = time.process_time() - began
        if spent > seconds / 2 or n_trials == MOST:
            break
        n_trials = min(MOST, int(n_trials * min(10.0, seconds / spent)))
    return {
        **result.to_dict(),
        "unit": Unit(statement.unit).value,
        "mechanisms": list(statement.mechanisms),
        "n_releases": statement.n_releases,
        "seconds": spent,
    }


def needed(row: dict[str, Any]) -> str:
    if row["tightness"] >= 0.5:
        return ""
    if row["n_releases"] > 1:
        return (
            "a pair at the bound in every release at once (this one moves some), and more "
            f"conversations than {row['n_trials']} (`--seconds`)"
        )
    known = [NEEDED[name] for name in row["mechanisms"] if name in NEEDED]
    return known[0] if known else OTHERWISE


HEADER = (
    "| Estimator | Claim | At least | Share | Runs a side | Attack | What a better one needs |",
    "|---|---|---|---|---|---|---|",
)


def line(row: dict[str, Any]) -> str:
    releases = f"{row['n_releases']} × " if row["n_releases"] > 1 else ""
    attack = f"{row['pair']}; {releases}{', '.join(row['mechanisms'])}"
    return (
        f"| `{row['target']}` | ε = {row['claimed_epsilon']:g}, δ = {row['delta']:.0e} | "
        f"ε ≥ {row['epsilon_lower']:.2f} | {row['tightness']:.2f} | {row['n_trials']} | "
        f"{attack} | {needed(row)} |".replace("δ = 0e+00", "δ = 0")
    )


def write(rows: list[dict[str, Any]]) -> None:
    """Put the lines of one estimator into the page; the others' stay as they are."""
    before, rest = PAGE.read_text().split(BEGIN)
    known, after = rest.split(END)
    name = f"| `{rows[0]['target']}` |"
    others = [row for row in known.splitlines() if row.startswith("| `")]
    lines = [row for row in others if not row.startswith(name)] + [line(row) for row in rows]
    lines.sort(key=lambda row: row.split("|")[1])  # claims of one estimator in their order
    table = "\n".join([*HEADER, *lines])
    PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


def run(seconds: float, only: list[str] | None) -> None:
    for name, kind in estimators().items():
        if not is_private(kind) or (only and name not in only):
            continue
        rows = [measure_one(kind, delta, seconds) for delta in CLAIMS]
        write(rows)
        for row in rows:
            print(
                f"{row['seconds']:6.1f} s  {name} δ={row['delta']:.0e}: ε ≥ "
                f"{row['epsilon_lower']:.2f} of {row['claimed_epsilon']:g} "
                f"({row['tightness']:.2f}; {row['pair']}; {row['event']})",
                flush=True,
            )
