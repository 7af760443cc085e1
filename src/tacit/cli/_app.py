"""The ``tacit`` command and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit._version import __version__
from tacit.cli import (
    audit,
    compare,
    datasets,
    demo,
    export,
    federate,
    fit,
    join,
    ledger,
    methods,
    plan,
    predict,
    report,
    reproduce,
    transfer,
    verify,
)
from tacit.cli._exits import EPILOG, GuardedGroup

__all__ = ["app"]

app = typer.Typer(
    name="tacit",
    cls=GuardedGroup,
    help="Private multi-task learning: learn together, keep your own model, spend a stated budget.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo")(demo.demo)
app.command("fit")(fit.fit)
app.command("join")(join.join)
app.add_typer(transfer.transfer, name="transfer")
app.command("compare")(compare.compare)
app.command("predict")(predict.predict)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("plan")(plan.plan)
app.command("audit")(audit.audit)
app.command("verify")(verify.verify)
app.command("sign")(verify.sign)
app.add_typer(ledger.ledger, name="ledger")
app.add_typer(datasets.datasets, name="datasets")
app.add_typer(federate.federate, name="federate")
app.command("methods")(methods.methods)
app.command("reproduce")(reproduce.reproduce)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


@app.callback(epilog=EPILOG)
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Private multi-task learning: learn together, keep your own model, spend a stated budget."""
