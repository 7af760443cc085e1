"""``tacit ledger``: what was spent, by whom, on which data."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tacit.cli._options import number_or_auto
from tacit.cli._output import Json, Quiet, begin
from tacit.cli._write import write_whole
from tacit.errors import InvalidInput, LedgerError

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

__all__ = ["ledger"]

ledger = typer.Typer(help="Read, check and make budget ledgers.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(metavar="LEDGER", help="ledger.db, or a run folder.")]


def _open(path: Path) -> Ledger:
    from tacit.privacy.ledger import Ledger

    file = path / "ledger.db" if path.is_dir() else path
    if not file.exists():
        raise LedgerError(
            f"{file}: no such ledger; runs that are not accounted (single-task, pooled, or "
            "--epsilon inf) have none"
        )
    return Ledger(file)


def _contents(opened: Ledger) -> dict[str, Any]:
    return {
        "path": opened.path,
        "epsilon": opened.epsilon,
        "delta": opened.delta,
        "head": opened.head,
        "lines": [
            {
                "data": line.data,
                "unit": str(line.unit),
                "adjacency": str(line.adjacency),
                "rule": line.rule,
                "spent_epsilon": line.spent.epsilon,
                "spent_delta": line.spent.delta,
                "left_epsilon": line.left.epsilon,
                "left_delta": line.left.delta,
                "n_runs": line.n_reservations,
                "n_releases": line.n_charges,
                "n_row_runs": line.n_row_runs,
            }
            for line in opened.lines()
        ],
    }


@ledger.command("show")
def show(path: File, quiet: Quiet = False, json: Json = False) -> None:
    """Show what was spent and what is left."""
    output = begin(quiet=quiet, as_json=json)
    with _open(path) as opened:
        found = _contents(opened)
    output.show(f"{found['path']}: total ε = {found['epsilon']:.4g}, δ = {found['delta']:.3g}")
    table = Table("data", "unit", "adjacency", "runs", "releases", "spent", "left")
    for line in found["lines"]:
        table.add_row(
            line["data"],
            line["unit"],
            line["adjacency"],
            str(line["n_runs"]),
            str(line["n_releases"]),
            f"ε = {line['spent_epsilon']:.4g}, δ = {line['spent_delta']:.2g}",
            f"ε = {line['left_epsilon']:.4g}, δ = {line['left_delta']:.2g}",
        )
    output.show(table if found["lines"] else "nothing was spent")
    for line in found["lines"]:
        if line["n_row_runs"]:
            output.show(
                f"{line['data']}: {line['n_row_runs']} run(s) protect single rows only and promise "
                "a task as a whole nothing; they are on the row line"
            )
    output.result(found)


@ledger.command("verify")
def verify(
    path: File,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier that must be in the chain.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Check every entry's hash; exit code 4 if the file was edited, cut off or replaced."""
    output = begin(quiet=quiet, as_json=json)
    with _open(path) as opened:
        n_entries = opened.verify(head)
        found = {"path": opened.path, "n_entries": n_entries, "head": opened.head}
    output.show(f"{found['path']}: {n_entries} entries, all in order; head {found['head']}")
    output.result(found)


@ledger.command("export")
def export(
    path: File,
    out: Annotated[Path | None, typer.Option(help="File to write; default: print.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write totals, spends and what is left as JSON; the chain is verified first."""
    output = begin(quiet=quiet)
    with _open(path) as opened:
        n_entries = opened.verify()
        found = {"n_entries": n_entries, **_contents(opened)}
    text = json_text.dumps(
        {k: v if v != float("inf") else "inf" for k, v in found.items()}, indent=2
    )
    if out is None:
        typer.echo(text)
    else:
        write_whole(out, text + "\n")
        output.show(f"written: {out}")


@ledger.command("create")
def create(
    path: Annotated[Path, typer.Argument(metavar="LEDGER", help="File to make.")],
    epsilon: Annotated[float, typer.Option(help="Total ε of all runs on the data.")],
    delta: Annotated[str, typer.Option(help="Total δ of all runs.")] = "0",
    quiet: Quiet = False,
) -> None:
    """Make a ledger with a total budget, for runs that name it with --ledger."""
    output = begin(quiet=quiet)
    from tacit.privacy.ledger import Ledger

    if path.exists():
        raise InvalidInput(f"{path}: exists already; a ledger is never overwritten, choose another")
    total = number_or_auto("--delta", delta)
    if total == "auto":
        raise InvalidInput("--delta auto: a ledger needs a number, for example 1e-5, or 0")
    with Ledger(path, epsilon, total) as made:
        output.show(f"{path}: total ε = {made.epsilon:.4g}, δ = {made.delta:.3g}")
