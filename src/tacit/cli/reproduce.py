"""``tacit reproduce``: a paper's figure, run again next to its published values."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Annotated, Any

import typer

from tacit.cli._exits import CHECK_FAILED
from tacit.cli._output import Quiet, begin
from tacit.errors import DataNotFound

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[
        str | None, typer.Argument(help="For example model-protected/fig6; default: list them.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions.")] = False,
    quiet: Quiet = False,
) -> None:
    """Run a paper's figure again; exit code 5 if a value is out of its tolerance.

    The figures' settings and expected values stand in papers/ of the source tree, so this needs a
    checkout.
    """
    output = begin(quiet=quiet)
    if importlib.util.find_spec("tacit.reproduce") is None:
        raise DataNotFound(
            "reproduce: this installation has no figures to run again; they are part of the "
            "source tree: clone it and run the command there"
        )
    runner: Any = importlib.import_module("tacit.reproduce")
    if figure is None:
        for name in runner.figures():
            output.show(str(name))
        return
    if not runner.run(figure, quick=quick):
        output.warn(f"{figure}: a value is out of tolerance")
        raise typer.Exit(CHECK_FAILED)
