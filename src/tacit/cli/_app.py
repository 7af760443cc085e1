"""The ``tacit`` command and its subcommands."""

from __future__ import annotations

import typer

from tacit.cli import demo

__all__ = ["app"]

app = typer.Typer(
    name="tacit",
    help="Private multi-task learning: learn together, keep your own model, spend a stated budget.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("demo")(demo.demo)


@app.callback()
def _root() -> None:
    """Private multi-task learning."""
