"""``tacit ledger``: what was spent, by whom, on which data."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tacit._files import write_whole
from tacit.cli._options import number_or_auto
from tacit.cli._output import Json, Quiet, begin
from tacit.errors import InvalidInput, LedgerError

if TYPE_CHECKING:
    from tacit.privacy.ledger import Ledger

__all__ = ["ledger", "ledger_of"]

ledger = typer.Typer(help="Read, check and make budget ledgers.", no_args_is_help=True)

File = Annotated[
    Path,
    typer.Argument(metavar="LEDGER", help="A ledger, a run folder, or the file with the data."),
]


def ledger_of(path: Path) -> Path:
    """Return the ledger of a run folder or of a data file, or the ledger itself."""
    from tacit.cli.guard.choice import BESIDE
    from tacit.cli.run.folder import LEDGER, ledger_of_run
    from tacit.cli.table.read import FORMATS

    file: Path | None = path
    if path.is_dir():
        file = ledger_of_run(path) or path / LEDGER
    elif path.suffix.lower() in FORMATS:
        file = path.with_name(path.name + BESIDE)
    if file is None or not file.exists():
        raise LedgerError(
            f"{file}: no such ledger; runs that are not accounted (single-task, pooled, or "
            "--epsilon inf) have none, and a ledger that was moved is named by its own path"
        )
    return file


def _open(path: Path) -> Ledger:
    from tacit.privacy.ledger import Ledger

    return Ledger(ledger_of(path))


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
        "runs": [
            {
                "run": run.number,
                "began": run.began,
                "ended": run.ended,
                "method": run.label,
                "data": run.data,
                "unit": str(run.unit),
                "epsilon": run.cost.epsilon,
                "delta": run.cost.delta,
                "n_releases": run.n_charges,
                "fingerprint": (run.seal or {}).get("data"),
                "sealed": run.seal is not None,
            }
            for run in opened.runs()
        ],
        "notes": list(opened.notes()),
    }


def _for_others(found: dict[str, Any]) -> dict[str, Any]:
    """Return the contents without names of data, which are equal as long as no row is another.

    Guarantee: two data sets on which the same runs were made cannot be told apart by the rest.
    """
    runs = [{key: run[key] for key in run if key != "fingerprint"} for run in found["runs"]]
    notes = [{key: note[key] for key in note if key != "guards"} for note in found["notes"]]
    return {**found, "runs": runs, "notes": notes}


@ledger.command("show")
def show(path: File, quiet: Quiet = False, json: Json = False) -> None:
    """Show every run, what was spent and what is left, and how it adds up."""
    output = begin(quiet=quiet, as_json=json)
    with _open(path) as opened:
        found = _contents(opened)
    output.show(f"{found['path']}: total ε = {found['epsilon']:.4g}, δ = {found['delta']:.3g}")
    if not found["lines"]:
        output.show("nothing was spent")
    else:
        output.show(_runs(found["runs"]), _lines(found["lines"]))
    for line in found["lines"]:
        output.show(_explained(line, found))
        if line["n_row_runs"]:
            output.show(
                f"{line['data']}: {line['n_row_runs']} run(s) protect single rows only and promise "
                "a task as a whole nothing; they are on the row line"
            )
    for note in found["notes"]:
        if note.get("besides"):
            others = ", ".join(f"{part['ledger'][:12]}…" for part in note["besides"])
            output.show(
                f"made besides another ledger of the same data ({others}), whose spends add to "
                f"these; the reason given: {note.get('reason') or 'none'}"
            )
    output.result(found)


def _runs(runs: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"run {run['run']}, {run['began'][:16].replace('T', ' ')} UTC: {run['method']}, "
        f"{run['n_releases']} release{'' if run['n_releases'] == 1 else 's'}, alone "
        f"ε = {run['epsilon']:.4g}, δ = {run['delta']:.2g} (unit {run['unit']}, data "
        f"{run['data']}{'' if run['ended'] else '; not ended, counted in full'})"
        for run in runs
    )


def _lines(lines: list[dict[str, Any]]) -> Table:
    table = Table("data", "unit", "adjacency", "runs", "releases", "spent", "left")
    for line in lines:
        table.add_row(
            line["data"],
            line["unit"],
            line["adjacency"],
            str(line["n_runs"]),
            str(line["n_releases"]),
            f"ε = {line['spent_epsilon']:.4g}, δ = {line['spent_delta']:.2g}",
            f"ε = {line['left_epsilon']:.4g}, δ = {line['left_delta']:.2g}",
        )
    return table


def _explained(line: dict[str, Any], found: dict[str, Any]) -> str:
    """Say why spent and left make up the total, though their ε need not add up to it."""
    from tacit.privacy._budget import NEXT_TO_NOTHING
    from tacit.privacy.accounting import gaussian_mu

    what = f"{line['data']}, {line['unit']}: "
    if line["left_epsilon"] < NEXT_TO_NOTHING * found["epsilon"]:
        return (
            f"{what}nothing is left for another fit. Models that are there go on answering (tacit "
            "predict), and later parties join (tacit join), at no cost; more is a decision of "
            "whoever answers for the data, recorded with tacit fit --new-ledger"
        )
    if line["rule"] != "gdp":
        how = "their ε and δ" if line["rule"] == "basic" else "Rényi divergences at one order"
        return f"{what}runs add up by {how}; one more fits if it asks for at most what is left"
    delta = found["delta"]
    total, spent, left = (
        gaussian_mu(epsilon, delta) if epsilon else 0.0
        for epsilon in (found["epsilon"], line["spent_epsilon"], line["left_epsilon"])
    )
    return (
        f"{what}Gaussian noise adds up by the squares of μ, its strength at δ = {delta:.2g}, and "
        f"not by ε: {spent:.4g}² + {left:.4g}² = {total:.4g}². So one more run of "
        f"ε = {line['left_epsilon']:.4g} fits, though ε = {line['spent_epsilon']:.4g} of "
        f"{found['epsilon']:.4g} is spent"
    )


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
    out: Annotated[
        Path | None, typer.Option(help=".json or .csv file to write; default: print JSON.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write runs, totals, spends and what is left: all as JSON, the runs alone as CSV.

    The chain is verified first. What is written may be shown to others.
    """
    output = begin(quiet=quiet)
    if out is not None and out.suffix.lower() not in (".json", ".csv"):
        raise InvalidInput(f"--out {out}: must end in .json or .csv")
    with _open(path) as opened:
        n_entries = opened.verify()
        found = {"n_entries": n_entries, **_for_others(_contents(opened))}
    if out is not None and out.suffix.lower() == ".csv":
        from tacit.cli.run.folder import table_csv

        text = table_csv(found["runs"])
    else:
        plain = {k: v if v != float("inf") else "inf" for k, v in found.items()}
        text = json_text.dumps(plain, indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_whole(out, text)
        output.show(f"written: {out}")


@ledger.command("create")
def create(
    path: Annotated[Path, typer.Argument(metavar="LEDGER", help="File to make.")],
    epsilon: Annotated[float, typer.Option(help="Total ε of all runs on the data.")],
    delta: Annotated[str, typer.Option(help="Total δ of all runs.")] = "0",
    quiet: Quiet = False,
) -> None:
    """Make a ledger with a total budget, for runs that name it with --ledger.

    A ledger called DATA.ledger.db beside its data is found without being named.
    """
    output = begin(quiet=quiet)
    from tacit.privacy.ledger import Ledger

    if path.exists():
        raise InvalidInput(f"{path}: exists already; a ledger is never overwritten, choose another")
    total = number_or_auto("--delta", delta)
    if total == "auto":
        raise InvalidInput("--delta auto: a ledger needs a number, for example 1e-5, or 0")
    with Ledger(path, epsilon, total) as made:
        output.show(f"{path}: total ε = {made.epsilon:.4g}, δ = {made.delta:.3g}")
