"""``tacit plan``: noise and cost before spending anything."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from tacit.cli._options import Delta, number_or_auto, settings_of
from tacit.cli._output import Json, Quiet, begin
from tacit.cli.run.methods import DEFAULT

__all__ = ["plan"]


def plan(
    tasks: Annotated[int, typer.Option(help="Number of parties.")],
    features: Annotated[int, typer.Option(help="Number of features.")],
    method: Annotated[
        str | None, typer.Option(help="See: tacit methods. Default: what --protect asks for.")
    ] = None,
    protect: Annotated[
        str | None,
        typer.Option(help="party (all its rows and its model) or row: choose a method for it."),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Privacy budget (default 1).")] = None,
    delta: Delta = None,
    mechanism: Annotated[str | None, typer.Option(help="Kind of noise.")] = None,
    rounds: Annotated[str | None, typer.Option(help="Number of releases, or auto.")] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows of all parties, where rows are protected or pooled.")
    ] = None,
    clip: Annotated[str | None, typer.Option(help="Public radius of a message, or auto.")] = None,
    outputs: Annotated[int, typer.Option(help="Models per task: 1, or the classes.")] = 1,
    unknown_task: Annotated[
        str | None, typer.Option(help="error, or shared: a model for tasks not seen, too.")
    ] = None,
    set: Annotated[  # noqa: A002 - the option is --set
        list[str] | None, typer.Option(help="name=value: any other parameter of the method.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Print the noise, the bytes, memory and time of a run, from public numbers only.

    Last come what stands in the way of a run of this size, and the smallest ε at which anything
    that is released could stand out of its noise.

    Whole parties or single rows? How many parties, how many rows? With --protect and --rows the
    first method is planned whose releases can stand out of their noise.

    Example: tacit plan --tasks 139 --features 27 --method low-rank --epsilon 1 --rounds 10
    Example: tacit plan --tasks 20 --features 8 --protect row --rows 600
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.run.build import build
    from tacit.methods import advise
    from tacit.privacy.plan import least_epsilon

    given = {
        "epsilon": epsilon,
        "delta": number_or_auto("--delta", delta),
        "mechanism": mechanism,
        "clip": number_or_auto("--clip", clip),
        "n_rounds": number_or_auto("--rounds", rounds, int),
        "unknown_task": unknown_task,
    }
    settings = settings_of(set or ())
    if protect is not None and method is None:
        advice = advise(
            tasks,
            features,
            protect=protect,
            n_rows=rows,
            epsilon=1.0 if epsilon is None else epsilon,
        )
        method, settings = advice.method, {**advice.settings, **settings}
        output.show(f"{method}: {advice.reason}", "")
    method = method or DEFAULT
    kind = "regression" if outputs == 1 else "multiclass"
    estimator = build(method, kind, given, settings)
    made = estimator.plan(tasks, features, n_outputs=outputs, n_rows=rows)
    output.show(made.table())
    told = {"breaks_first": made.breaks_first}
    # Sampled rounds are calibrated by loss distributions, which at extreme budgets takes minutes.
    sampled = any(release.expected_cohort is not None for release in made.releases)
    if hasattr(estimator, "epsilon") and not sampled:
        least = least_epsilon(
            lambda trial: estimator.set_params(epsilon=trial).plan(
                tasks, features, n_outputs=outputs, n_rows=rows
            )
        )
        enough = "none up to 10,000" if least is None else f"about {least:.2g}"
        output.show(f"smallest ε at which sharing can help: {enough}")
        told["least_epsilon"] = least
    output.result({**dataclasses.asdict(made), **told})
