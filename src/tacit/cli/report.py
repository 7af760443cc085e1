"""``tacit report``: the page of a run, for its coordinator or for one party."""

from __future__ import annotations

import errno
import functools
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli._options import Encoding, Format, Party, RunPath, Separator
from tacit.cli._output import Json, Quiet, begin, current
from tacit.errors import InvalidInput

__all__ = ["report"]


def report(
    run: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; default: RUN/report.html.")
    ] = None,
    party: Party = None,
    data: Annotated[
        Path | None, typer.Option(help="Rows with known target, kept out of the fit, to score.")
    ] = None,
    trained_on: Annotated[
        Path | None,
        typer.Option(
            help="Rows that the run was fitted on: what --data compares with learns from them; "
            "by default from folds of --data itself."
        ),
    ] = None,
    audit: Annotated[
        bool, typer.Option("--audit", help="Attack the run's mechanisms; show what was found.")
    ] = False,
    format: Format = None,  # noqa: A002 - the word users know
    separator: Separator = None,
    encoding: Encoding = "utf-8",
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a run's report: one HTML page that opens offline.

    Without --party the page holds nothing beyond the releases, unless --data adds rows to score:
    then the run is compared on them with single-task and pooled learning.
    With --party it is that party's own page (default file: report-PARTY.html beside RUN).

    Example: tacit report run/ --party "Alder Vale" --out alder-vale.html
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.run.folder import LEDGER, ledger_of_run, load_run
    from tacit.cli.run.report_page import write_page
    from tacit.cli.table.prepare import matching_task

    model, intake, fill, manifest = load_run(run)
    shown: dict[str, Any] = {}
    tables: dict[Path, Any] = {}
    if party is not None:
        shown["party"] = matching_task(party, model.task_names_)
    if trained_on is not None and data is None:
        raise InvalidInput("--trained-on: is for a comparison on --data; give both, or neither")

    def rows(file: Path) -> dict[str, Any]:
        from tacit.cli.fit import text_encoding
        from tacit.cli.table.read import read_table

        with output.step(f"reading {file}"):
            tables[file] = read_table(
                file, format=format, separator=separator, encoding=text_encoding(encoding)
            )
            return _scored(tables[file], model, intake, fill, manifest, party)

    if data is not None:
        shown |= rows(data)
        shown["seen"] = _seen(run, data, tables[data], intake.task)
    if trained_on is not None:
        shown["fitted_on"] = tuple(rows(trained_on).values())
    if audit:
        shown["audit"] = _attacked(model)
    file = out or (run / "report.html" if party is None else _beside(run, party))
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(file))
    write_page(model, file, ledger=ledger_of_run(run) or run / LEDGER, **shown)
    output.show(f"report: {file}")
    output.result({"report": str(file), "party": party})


def _seen(run: Path, data: Path, table: Any, task: str) -> bool:
    """Whether the run may know the rows: its own file, or rows that its ledger guards."""
    from tacit.cli.guard.choice import Asked, guarded_by
    from tacit.cli.run.folder import data_of_run, ledger_of_run

    column = task if task in table.columns else None
    asked = Asked(data, functools.partial(iter, (table.columns,)), column)
    fitted, ledger = data_of_run(run), ledger_of_run(run)
    same_file = fitted is not None and fitted.resolve() == data.resolve()
    guards = [path.resolve() for path in guarded_by(asked)]
    if not same_file and (ledger is None or ledger.resolve() not in guards):
        return False
    current().warn(
        f"--data {data}: the run may have learned from these rows, and the page says that this is "
        "no test; hand in rows that were kept out of the fit, or fit with --test-size"
    )
    return True


def _beside(run: Path, party: str) -> Path:
    """Return a file outside the coordinator's folder, so that the folder is not handed on."""
    name = "".join(letter if letter.isalnum() else "-" for letter in party)
    return run.absolute().parent / f"report-{name}.html"


def _scored(
    table: Any, model: Any, intake: Any, fill: Any, manifest: dict[str, Any], party: str | None
) -> dict[str, Any]:
    from tacit.cli.predict import filled, rows_of
    from tacit.cli.table.target import known_classes, read_target

    table, names = rows_of(table, intake, model, party)
    X = filled(table, intake, fill, names, model)
    if not hasattr(model, "classes_"):
        y, _ = read_target(table, intake.target, manifest["kind"])
    elif model.classes is not None:
        y, _ = read_target(table, intake.target, manifest["kind"], model.classes)
    else:
        y = known_classes(table, intake.target, model.classes_.tolist())
    return {"X": X, "y": y, "tasks": names}


def _attacked(model: Any) -> list[Any]:
    from tacit.audit import AUDITABLE, audit_mechanism

    statement = model.privacy_
    names = [name for name in statement.mechanisms if name in AUDITABLE and statement.private]
    found = []
    with current().step("attacking the mechanisms") as advance:
        for number, name in enumerate(names):
            advance(number, len(names))
            found.append(audit_mechanism(name, epsilon=statement.epsilon, delta=statement.delta))
    return found
