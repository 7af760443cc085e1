"""``tacit compare``: methods and budgets on one's own rows, before anything is promised."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from tacit.cli._data_options import prepared_rows, takes_data_options
from tacit.cli._output import Json, Quiet, begin, current
from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.cli.guard.choice import Asked
    from tacit.privacy.ledger import Ledger

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
        Path | None,
        typer.Option(
            help="Ledger that pays for the look; default: TACIT_LEDGER, else the one that guards "
            "these rows."
        ),
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

    Every private fit counts: the look charges the ledger that guards the rows for all of them
    together, and is refused before anything is computed if there is none or it cannot pay. On rows
    that are public or your own, say --public.

    Example: tacit compare exam.csv --task school --target score --methods shared-prior --public
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.guard.choice import Asked
    from tacit.cli.run.build import refuse_means_of_rows
    from tacit.cli.run.methods import estimator_class
    from tacit.comparison import compare as compared

    listed = [part.strip() for part in methods.split(",") if part.strip()]
    budgets = _numbers("--epsilons", epsilons)
    _check_files(out, plot)
    prepared, table = prepared_rows(rows, listed[0] if listed else "")
    look: dict[str, Any] = {
        "tasks": prepared.tasks,
        "methods": listed,
        "epsilons": budgets,
        "kind": "regression" if prepared.kind == "regression" else "classification",
        "n_repeats": splits,
        "settings": {"classes": prepared.declared},
    }
    for method in () if public else listed:
        refuse_means_of_rows(prepared, estimator_class(method, prepared.kind)())
    pieces = functools.partial(iter, (table.columns,))
    asked = Asked(rows["data"], pieces, rows["task"], ledger)
    with (
        _public(asked) if public else _paying(asked, prepared, look) as payer,
        output.step("comparing") as advance,
        output.warnings_as_lines(),
    ):
        found = compared(
            prepared.X,
            prepared.y,
            **look,
            scoring=scoring,
            test_size=test_size,
            public=public,
            ledger=payer,
            progress=advance,
        )
        if out is not None:
            found.to_csv(out)
        if plot is not None:
            found.plot(plot)
    shown_table = Table("method", "ε of one fit", f"{found.measure}", "± over splits")
    for entry in found.entries:
        budget = "no noise" if entry.epsilon == float("inf") else f"{entry.epsilon:g}"
        shown = "nothing shared" if entry.epsilon == 0 else budget
        shown_table.add_row(entry.method, shown, f"{entry.mean:.4f}", f"{entry.spread:.4f}")
    output.show(shown_table, found.cost)
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


def _check_files(out: Path | None, plot: Path | None) -> None:
    """Refuse files that could not be written, before the look is paid for."""
    from tacit._comparison_plot import check_plot

    for option, file in (("--out", out), ("--plot", plot)):
        if file is not None and (file.is_dir() or not file.absolute().parent.is_dir()):
            raise InvalidInput(f"{option} {file}: name a file in a folder that is there")
    if plot is not None:
        check_plot(plot)


@contextlib.contextmanager
def _public(asked: Asked) -> Iterator[None]:
    """Charge nothing, and say so where a ledger guards the rows."""
    from tacit.cli.guard.choice import guarded_by

    if asked.named is not None:
        raise InvalidInput("--ledger: public rows are not charged; leave out --ledger, or --public")
    for guard in guarded_by(asked)[:1]:
        current().warn(
            f"{guard} guards these rows, so somebody called them private; --public charges it "
            "nothing for this look"
        )
    yield None


@contextlib.contextmanager
def _paying(asked: Asked, prepared: Any, look: dict[str, Any]) -> Iterator[Ledger]:
    """Open the ledger that guards the rows; without one the look is refused.

    None is made here, as ``tacit fit`` does: a look costs several times what a fit does, and a
    ledger with that total would have nothing left for the fit that was to follow.
    """
    from tacit.cli.guard.choice import Guard, peek
    from tacit.comparison import look_cost

    if peek(asked) is None:
        cost = look_cost(prepared.X, prepared.y, **look)
        raise InvalidInput(
            f"{asked.data}: no ledger guards these rows, and all private fits of this look cost "
            f"ε = {cost.epsilon:.3g}, δ = {cost.delta:.2g} together. If the rows are public, or "
            "your own, say --public. If not, make a ledger with a total for this and what follows "
            f"(tacit ledger create {asked.beside} --epsilon … --delta …), or take fewer "
            "--epsilons, --methods and --splits"
        )
    with Guard(asked, (0.0, 0.0)) as guard:
        yield guard.ledger
