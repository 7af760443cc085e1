"""``tacit compare``: methods and budgets on one's own rows, before anything is promised."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacit.cli._data_options import prepared_rows, takes_data_options
from tacit.cli._output import Json, Quiet, begin
from tacit.errors import InvalidInput

__all__ = ["compare"]


def _numbers(option: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidInput(f"{option} {text!r}: write numbers with commas, 0.5,1,2") from None


@takes_data_options
def compare(
    methods: Annotated[
        str, typer.Option(help="Methods to compare, a,b,c; see: tacit methods.")
    ] = "shared-prior,mean-regularized",
    epsilons: Annotated[str, typer.Option(help="Budgets of one fit, a,b,c.")] = "0.5,1,2,4,8",
    splits: Annotated[int, typer.Option(help="Repeated splits within tasks.")] = 5,
    test_size: Annotated[float, typer.Option(help="Share of every task's rows to test on.")] = 0.3,
    scoring: Annotated[
        str | None,
        typer.Option(help="r2, neg_mean_absolute_error, accuracy, roc_auc, neg_log_loss, …"),
    ] = None,
    public: Annotated[
        bool,
        typer.Option("--public", help="The rows are public, or all your own: nothing is charged."),
    ] = False,
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger that pays for the look at private rows.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="CSV file of every split's score.")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture to write: .png, .svg or .pdf (needs matplotlib).")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
    **rows: Any,
) -> None:
    """Compare methods at several budgets with learning alone, pooled, and without noise.

    Every private fit counts: the look states what all of them cost together, or charges --ledger.
    On rows that are public or your own, say --public.

    Example: tacit compare exam.csv --task school --target score --methods shared-prior --public
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.comparison import compare as compared

    listed = [part.strip() for part in methods.split(",") if part.strip()]
    budgets = _numbers("--epsilons", epsilons)
    if ledger is not None and not ledger.exists():
        raise InvalidInput(
            f"--ledger {ledger}: no such ledger; make one with a total budget: tacit ledger create "
            f"{ledger} --epsilon 30 --delta 1e-5"
        )
    prepared = prepared_rows(rows, listed[0] if listed else "")
    with output.step("comparing") as advance, output.warnings_as_lines():
        found = compared(
            prepared.X,
            prepared.y,
            tasks=prepared.tasks,
            methods=listed,
            epsilons=budgets,
            kind="regression" if prepared.kind == "regression" else "classification",
            scoring=scoring,
            n_repeats=splits,
            test_size=test_size,
            public=public,
            ledger=ledger,
            progress=advance,
            settings={"classes": prepared.declared},
        )
        if out is not None:
            found.to_csv(out)
        if plot is not None:
            found.plot(plot)
    table = Table("method", "ε of one fit", f"{found.measure}", "± over splits")
    for entry in found.entries:
        budget = "no noise" if entry.epsilon == float("inf") else f"{entry.epsilon:g}"
        shown = "nothing shared" if entry.epsilon == 0 else budget
        table.add_row(entry.method, shown, f"{entry.mean:.4f}", f"{entry.spread:.4f}")
    output.show(table, found.cost)
    for file in (out, plot):
        if file is not None:
            output.show(f"written: {file}")
    output.result(
        {
            "measure": found.measure,
            "entries": [
                {"method": e.method, "epsilon": e.epsilon, "mean": e.mean, "spread": e.spread}
                for e in found.entries
            ],
            "cost": None
            if found.privacy is None
            else {"epsilon": found.privacy.epsilon, "delta": found.privacy.delta},
            "cost_in_words": found.cost,
        }
    )
