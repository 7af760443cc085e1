"""``tacit join``: a party that comes after the fit gets its model from the releases alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli._options import Encoding, Format, RunPath, Separator
from tacit.cli._output import Json, Quiet, begin, current
from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.cli.table.features import Intake
    from tacit.cli.table.prepare import Prepared
    from tacit.cli.table.read import Table

__all__ = ["join", "own_rows"]


def join(
    run: RunPath,
    data: Annotated[Path, typer.Argument(metavar="DATA", help="File with the new party's rows.")],
    name: Annotated[str, typer.Option(help="Name of the new party (task).")],
    out: Annotated[Path, typer.Option(help="Folder to write: the new party's own files.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the run in OUT.")] = False,
    format: Format = None,  # noqa: A002 - the word users know
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Learn the model of a party that was not there, from its rows and the run's releases.

    Nothing is sent, released or spent, nothing is fitted again, and RUN stays as it is; any party's
    exported folder will do as well as the run folder itself.

    Example: tacit join run/ elm-court.csv --name "Elm Court" --out elm-court/
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.fit import text_encoding
    from tacit.cli.run.folder import RunFolder, load_run, table_csv, write_intake
    from tacit.cli.run.report_page import write_page
    from tacit.cli.table.read import read_table

    model, intake, _, manifest = load_run(run)
    if name in {str(known) for known in model.task_names_}:
        raise InvalidInput(f"--name {name!r}: the run has such a party; choose another name")
    if out.exists() and out.samefile(run):
        raise InvalidInput(f"--out {out}: is the run folder itself; choose another folder")
    table = read_table(data, format=format, separator=separator, encoding=text_encoding(encoding))
    rows = _prepared(own_rows(table, intake.task, name), intake, model, manifest["kind"])
    with RunFolder(out, force=force) as folder:
        names = model.__dict__.pop("feature_names_in_")  # the columns were matched by name already
        with current().step("fitting at home"), current().warnings_as_lines():
            model.fit_task(rows.X, rows.y, name=name)
        model.feature_names_in_ = names
        model.save(folder.stage, task=name)
        method = manifest["method"]
        write_intake(folder.stage, intake, rows.fill, (name,), manifest["kind"], method)
        folder.write("statement.json", model.privacy_.to_json() + "\n")
        folder.write("history.csv", table_csv(model.history_))
        write_page(model, folder.stage / "report.html", party=name)
        folder.commit()
    output.show(f"{name}'s own files: {out}; nothing was spent")
    output.result({"party": name, "out": str(out), "n_rows": len(rows.codes)})


def own_rows(table: Table, column: str, name: str) -> Table:
    """Return the party's rows: all of a file without the task column, else those of its name."""
    from tacit.cli.table.columns import labels
    from tacit.cli.table.read import Table

    if column not in table.columns:
        cells = {**table.columns, column: [name] * table.n_rows}
        return Table(table.source, cells, table.n_rows, table.first_row)
    chosen = [row for row, label in enumerate(labels(table, column)) if label == name]
    if not chosen:
        raise InvalidInput(
            f"--name {name!r}: {table.source} has no rows of that task; check the column "
            f"{column!r}, or leave it out if all rows are the party's"
        )
    cells = {key: [values[row] for row in chosen] for key, values in table.columns.items()}
    return Table(table.source, cells, len(chosen), table.first_row)


def _prepared(table: Table, intake: Intake, model: Any, kind: str) -> Prepared:
    """Read the rows as the run did; labels are matched with the model's classes."""
    from tacit.cli.table.prepare import prepare

    if kind == "regression":
        return prepare(table, intake, kind=kind)
    classes = tuple(model.classes_.tolist() if model.classes is None else model.classes)
    return prepare(table, intake, kind=kind, classes=classes)
