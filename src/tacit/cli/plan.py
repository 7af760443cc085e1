"""``tacit plan``: noise and cost before spending anything."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from tacit.cli._options import Delta, number_or_auto
from tacit.cli._output import Json, Quiet, begin
from tacit.cli.run.methods import DEFAULT
from tacit.errors import InvalidInput

__all__ = ["plan", "sizes"]


def plan(
    tasks: Annotated[int, typer.Option(help="Number of parties.")],
    features: Annotated[int, typer.Option(help="Number of features.")],
    method: Annotated[str, typer.Option(help="See: tacit methods.")] = DEFAULT,
    epsilon: Annotated[float, typer.Option(help="Privacy budget.")] = 1.0,
    delta: Delta = None,
    rounds: Annotated[int, typer.Option(help="Releases that share the budget.")] = 1,
    rows: Annotated[
        int | None, typer.Option(help="Rows of one party; for pooled and transfer.")
    ] = None,
    clip: Annotated[float, typer.Option(help="Radius of a message; 1 for directions.")] = 1.0,
    outputs: Annotated[int, typer.Option(help="Models per task: 1, or the classes.")] = 1,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print the noise, the bytes and the memory of a run, from public numbers only.

    Example: tacit plan --tasks 139 --features 27 --method low-rank --epsilon 1 --rounds 10
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.privacy.plan import plan as make_plan

    made = make_plan(
        method,
        tasks,
        features,
        rows,
        epsilon,
        "auto" if delta is None else number_or_auto("--delta", delta),
        rounds,
        clip=clip,
        n_outputs=outputs,
    )
    output.show(made.table())
    output.result(dataclasses.asdict(made))


def sizes(method: str, n_tasks: int, n_features: int, n_outputs: int = 1) -> dict[str, Any]:
    """Return the numbers a task sends up and gets down in a round; empty if not known."""
    from tacit.privacy.plan import plan as make_plan

    try:
        made = make_plan(
            method, n_tasks, n_features, n_rows=1, n_outputs=n_outputs, bytes_per_number=1
        )
    except InvalidInput:
        return {}
    return {"numbers up a task and round": made.bytes_up, "numbers down": made.bytes_down}
