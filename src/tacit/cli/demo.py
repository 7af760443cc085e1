"""``tacit demo``: twenty invented hospitals, from rows to a stated privacy budget."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

__all__ = ["demo"]


def demo(
    epsilon: Annotated[float, typer.Option(help="Privacy budget of the private fit.")] = 1.0,
) -> None:
    """Learn length of stay at twenty hospitals: alone, pooled, together in private."""
    import numpy as np

    import tacit
    from tacit.datasets import load_hospitals

    console = Console()
    tasks = load_hospitals().taskset()
    train, test = tasks.split(0.5, random_state=0)
    models = {
        "single-task": tacit.SingleTaskRegressor(),
        "pooled (no privacy)": tacit.PooledRegressor(),
        f"shared prior, ε = {epsilon:g}": tacit.SharedPriorRegressor(epsilon=epsilon),
        "mean-regularised (no privacy)": tacit.MeanRegularizedRegressor(epsilon=float("inf")),
    }
    table = Table("method", "error (nMSE)", "protected")
    for name, model in models.items():
        model.fit(train.X, train.y, tasks=train.task_of_row)
        predicted = model.predict(test.X, tasks=test.task_of_row)
        error = float(np.mean((predicted - test.y) ** 2) / np.var(np.asarray(test.y)))
        statement = model.privacy_
        protected = f"ε ≤ {statement.epsilon:.3g}" if statement.private else "nobody"
        table.add_row(name, f"{error:.3f}", protected)
    console.print(table)
    console.print(models[f"shared prior, ε = {epsilon:g}"].privacy_.explain())
