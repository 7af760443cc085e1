"""``tacit reproduce``: a paper's figure, run again next to what is expected of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli._exits import CHECK_FAILED
from tacit.cli._output import Json, Quiet, begin

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[
        str | None,
        typer.Argument(
            metavar="FIGURE", help="For example model-protected/fig6; default: list them."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few runs instead of all.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("out"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run a paper's figure again; exit code 5 if an expectation is not met.

    The figures' settings and expectations stand in papers/ of the source tree, so this needs a
    checkout (or TACIT_PAPERS).
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit import reproduce as figures

    if figure is None:
        names = list(figures.available())
        output.show(*names)
        output.result({"figures": names})
        return
    checks = figures.reproduce(figure, quick=quick, out=out, progress=not (quiet or json))
    for check in checks:
        output.show(f"{'met' if check.passed else 'NOT MET'}: {check.text}")
    output.result(
        {
            "figure": figure,
            "checks": [{"text": check.text, "met": check.passed} for check in checks],
        }
    )
    if not all(check.passed for check in checks):
        raise typer.Exit(CHECK_FAILED)
