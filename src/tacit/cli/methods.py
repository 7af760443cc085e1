"""``tacit methods``: what each method is for, its unit, its message sizes."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.table import Column, Table

from tacit.cli._output import Json, Quiet, begin

__all__ = ["methods"]


def methods(
    features: Annotated[int, typer.Option(help="Features, for the message sizes.")] = 20,
    tasks: Annotated[int, typer.Option(help="Tasks, for the message sizes.")] = 100,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """List the methods: what each is for, whom it protects, what a task sends and receives."""
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.plan import sizes
    from tacit.cli.run import methods as _methods

    table = Table(Column("method", no_wrap=True), "for", "unit", "up", "down", "targets")
    listed = []
    for name, kinds in _methods.methods().items():
        unit = {"single-task": "task (nothing leaves)", "pooled": "nobody"}.get(name, "task")
        numbers = list(sizes(name, tasks, features).values()) or [None, None]
        if name == "pooled":
            numbers = [None, features]
        listed.append(
            {
                "method": name,
                "for": _methods.purpose(name),
                "unit": unit,
                "numbers_up": numbers[0],
                "numbers_down": numbers[1],
                "targets": sorted(kinds),
                "parameters": _methods.parameters_of(next(iter(kinds.values()))),
            }
        )
        cells = ["its rows" if name == "pooled" else "?" if n is None else f"{n}" for n in numbers]
        if name == "pooled":
            cells[1] = str(features)
        uses = "both" if len(kinds) == 2 else next(iter(kinds))
        table.add_row(name, _methods.purpose(name), unit, *cells, uses)
    output.show(table)
    output.show(
        f"up, down: numbers a task sends and receives in a round, for {features} features and "
        f"{tasks} tasks; tacit plan has the rest."
    )
    output.result({"methods": listed})
