"""``tacit report`` and ``tacit export``: what may be handed to whom."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli._options import Encoding, Format, Party, RunPath, Separator
from tacit.cli._output import Json, Quiet, begin, current
from tacit.errors import InvalidInput

__all__ = ["export", "report"]


def report(
    run: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="HTML file to write; default: RUN/report.html.")
    ] = None,
    party: Party = None,
    data: Annotated[
        Path | None, typer.Option(help="Rows with known target, kept out of the fit, to score.")
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

    Without --party the page holds nothing beyond the releases, unless --data adds rows to score.
    With --party it is that party's own page (default file: report-PARTY.html beside RUN).

    Example: tacit report run/ --party "Alder Vale" --out alder-vale.html
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.run.folder import LEDGER, ledger_of_run, load_run
    from tacit.cli.run.report_page import write_page
    from tacit.cli.table.prepare import matching_task

    model, intake, fill, manifest = load_run(run)
    shown: dict[str, Any] = {}
    if party is not None:
        shown["party"] = matching_task(party, model.task_names_)
    if data is not None:
        from tacit.cli.fit import text_encoding
        from tacit.cli.table.read import read_table

        table = read_table(
            data, format=format, separator=separator, encoding=text_encoding(encoding)
        )
        shown |= _scored(table, model, intake, fill, manifest, party)
    if audit:
        shown["audit"] = _attacked(model)
    file = out or (run / "report.html" if party is None else _beside(run, party))
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder", str(file))
    write_page(model, file, ledger=ledger_of_run(run) or run / LEDGER, **shown)
    output.show(f"report: {file}")
    output.result({"report": str(file), "party": party})


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


def export(
    run: RunPath,
    party: Annotated[str, typer.Option(help="The party (task) to hand its files to.")],
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the run in OUT.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write one party's own files: its model, the releases, the statement, its report.

    Nothing in the folder was computed from another party's rows beyond the releases; tacit predict
    and tacit report work on it.
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.run.folder import EVALUATION, RunFolder, load_run, table_csv, write_intake
    from tacit.cli.run.report_page import write_page
    from tacit.cli.table.prepare import matching_task

    model, intake, fill, manifest = load_run(run)
    own = matching_task(party, model.task_names_)
    index = model.task_names_.index(own)
    if out.exists() and out.samefile(run):
        raise InvalidInput(
            f"--out {out}: is the run folder itself, which would be left with {own}'s files alone; "
            "choose another folder"
        )
    with RunFolder(out, force=force) as folder:
        model.save(folder.stage, task=own)
        write_intake(
            folder.stage,
            intake,
            fill[index : index + 1],
            (own,),
            manifest["kind"],
            manifest["method"],
        )
        folder.write("statement.json", model.privacy_.to_json() + "\n")
        folder.write("history.csv", table_csv(model.history_))
        if (run / EVALUATION).exists():
            text = (run / EVALUATION).read_text(encoding="utf-8")
            folder.write(EVALUATION, _own_scores(text, str(own), manifest["method"]))
        write_page(model, folder.stage / "report.html", party=own)
        folder.commit()
    output.show(f"{own}'s own files: {out}")
    output.result({"party": str(own), "out": str(out)})


def _own_scores(text: str, own: str, method: str) -> str:
    """Return a party's line of the scores: of the run's model, and of learning alone.

    Guarantee: the score of the pooled model stays out. It was fitted on others' rows without
    protection, so its errors on the party's rows would tell of them.
    """
    import csv
    import io

    from tacit.cli.run.folder import table_csv

    shown = ("task", "n_test", method, "single-task")
    return table_csv(
        {name: row[name] for name in shown if name in row}
        for row in csv.DictReader(io.StringIO(text))
        if row["task"] == own
    )
