"""How many tasks learning together needs at which ε: error as a share of single-task error.

``python benchmarks/how_many_tasks.py`` prints one table for each kind of relation between tasks
and writes ``benchmarks/results/how_many_tasks.json``; ``--sizes`` chooses the numbers of tasks. A
cell is the mean over ``--repeats`` draws of data and noise, from ``--first`` on, of (test error) /
(test error of each task alone), on 10 features and 10 training rows a task: 1.00 means that the
release was not told from noise and every task kept its own model. The oracle knows the true prior
(mean and covariance of the tasks' models, and the noise): what no method can better; in brackets
stands by which factor a method's error is above its. The last
column is the best of the methods without privacy on the same draws. ``--hospitals`` measures
the tutorial's table instead: 1 − R² on the embedded hospitals, features scaled by public constants,
mean over ``--repeats`` splits.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import tacit
from tacit.datasets import Synthetic, load_hospitals, make_low_rank

SIZES = (20, 50, 100, 200, 500, 1000)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
OPEN = float("inf")
METHODS: dict[str, Callable[..., Any]] = {
    "shared-prior": tacit.SharedPriorRegressor,
    "low-rank": tacit.LowRankRegressor,
    "mean-regularized": tacit.MeanRegularizedRegressor,
}
# Groups of alike tasks: 1 is a common model, 4 are models in a subspace without a common mean.
RELATIONS = {"one common model": 1, "four shared directions": 4}

HOSPITAL_CENTRE = np.array([68.0, 0.5, 2.0, 135.0, 95.0, 128.0, 38.0, 1.5])
HOSPITAL_SPREAD = np.array([12.0, 0.5, 1.5, 20.0, 25.0, 17.0, 5.0, 1.2])


def draw(n_tasks: int, n_groups: int, seed: int) -> Synthetic:
    """Return tasks with 10 rows to learn from and 30 to test on."""
    size = -(-n_tasks // n_groups)
    return make_low_rank(
        n_tasks, 10, 10, n_test_rows=30, group_size=size, similarity=0.9, random_state=seed
    )


def error(model: Any, data: Synthetic) -> float:
    """Return the mean squared test error of ``model`` fitted on the training rows."""
    model.fit(data.train.X, data.train.y, tasks=data.train.task_of_row)
    predicted = model.predict(data.test.X, tasks=data.test.task_of_row)
    return float(np.mean((predicted - np.asarray(data.test.y)) ** 2))


def oracle(data: Synthetic) -> float:
    """Return the test error of posterior means under the true models' own mean and covariance."""
    train, test, m = data.train, data.test, len(data.W)
    mean, covariance = data.W.mean(axis=0), np.cov(data.W.T)
    X = np.asarray(train.X).reshape(m, -1, train.n_features)
    y = np.asarray(train.y).reshape(m, -1, 1)
    within = X @ covariance @ X.transpose(0, 2, 1) + np.eye(X.shape[1])
    moved = X.transpose(0, 2, 1) @ np.linalg.solve(within, y - X @ mean[:, None])
    models = mean + moved[..., 0] @ covariance
    predicted = np.einsum("nd,nd->n", test.X, models[test.task_of_row])
    return float(np.mean((predicted - np.asarray(test.y)) ** 2))


def measure(
    n_groups: int, sizes: list[int], epsilons: list[float], seeds: range
) -> list[dict[str, Any]]:
    """Return one record for every number of tasks and method."""
    records = []
    for n_tasks in sizes:
        draws = [draw(n_tasks, n_groups, seed) for seed in seeds]
        alone = np.array([error(tacit.SingleTaskRegressor(), data) for data in draws])

        def ratio(errors: list[float], alone: Any = alone) -> float:
            return float(np.mean(np.array(errors) / alone))

        best = ratio([oracle(data) for data in draws])
        without = {
            name: ratio([error(estimator(epsilon=OPEN), data) for data in draws])
            for name, estimator in METHODS.items()
        }
        for name, estimator in METHODS.items():
            ratios = {
                f"{epsilon:g}": ratio([error(estimator(epsilon=epsilon), data) for data in draws])
                for epsilon in epsilons
            }
            ratios |= {"oracle": best, "open best": min(without.values())}
            records.append({"n_tasks": n_tasks, "method": name, "error_ratio": ratios})
    return records


def hospitals(console: Console, repeats: int) -> None:
    """Print the errors at twenty hospitals, as the tutorial scales and splits them."""
    rows = load_hospitals().taskset()
    rows = rows.replace(X=(np.asarray(rows.X) - HOSPITAL_CENTRE) / HOSPITAL_SPREAD)
    models: dict[str, Callable[[], Any]] = {
        "alone": tacit.SingleTaskRegressor,
        **{
            f"ε = {epsilon:g}": partial(tacit.SharedPriorRegressor, epsilon)
            for epsilon in (1.0, 4.0, 8.0, 16.0, float("inf"))
        },
        "pooled": tacit.PooledRegressor,
    }
    errors: dict[str, list[float]] = {name: [] for name in models}
    for seed in range(repeats):
        train, test = rows.split(0.5, random_state=seed)
        for name, make in models.items():
            model = make().fit(train.X, train.y, tasks=train.task_of_row)
            errors[name].append(1 - model.score(test.X, test.y, tasks=test.task_of_row))
    table = Table(*errors, title=f"twenty hospitals, {repeats} splits")
    table.add_row(*(f"{np.mean(found):.3f}" for found in errors.values()))
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--hospitals", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="seed of the first draw")
    arguments = parser.parse_args()
    if arguments.hospitals:
        hospitals(Console(), arguments.repeats)
        return
    seeds = range(arguments.first, arguments.first + arguments.repeats)
    console, results = Console(), {}
    for relation, n_groups in RELATIONS.items():
        results[relation] = measure(n_groups, arguments.sizes, arguments.epsilons, seeds)
        table = Table(
            "tasks",
            "method",
            *(f"ε = {epsilon:g}" for epsilon in arguments.epsilons),
            "oracle",
            "open best",
        )
        table.title = relation
        for record in results[relation]:
            found = record["error_ratio"]
            cells = (f"{ratio:.2f} ({ratio / found['oracle']:.2f})" for ratio in found.values())
            table.add_row(str(record["n_tasks"]), record["method"], *cells)
        console.print(table)
    target = Path(__file__).parent / "results" / "how_many_tasks.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
