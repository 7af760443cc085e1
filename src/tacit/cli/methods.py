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
    import tacit
    from tacit.cli.run import methods as _methods
    from tacit.privacy.plan import BYTES_PER_NUMBER as NUMBER

    table = Table(Column("method", no_wrap=True), "for", "protects", "up", "down", "targets")
    listed = []
    for name, kinds in _methods.methods().items():
        planned = tacit.plan(name, tasks, features, n_rows=tasks)  # pooling: a row of each
        up, down = planned.bytes_up // NUMBER, planned.bytes_down // NUMBER
        listed.append(
            {
                "method": name,
                "for": _methods.purpose(name),
                "unit": planned.protected,
                "numbers_up": up,
                "numbers_down": down,
                "targets": sorted(kinds),
                "parameters": _methods.parameters_of(next(iter(kinds.values()))),
            }
        )
        sent = f"{up} a row" if up and not planned.releases else f"{up}"
        uses = "both" if len(kinds) == 2 else next(iter(kinds))
        table.add_row(name, _methods.purpose(name), planned.protected, sent, f"{down}", uses)
    output.show(table)
    output.show(
        f"up, down: numbers a task sends and receives in all, for {features} features and {tasks} "
        "tasks and each method's own number of rounds; tacit plan has the rest."
    )
    output.result({"methods": listed})
