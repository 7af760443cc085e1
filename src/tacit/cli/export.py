"""``tacit export``: what every party may be handed, and nothing else."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit._files import write_whole
from tacit.cli._options import RunPath
from tacit.cli._output import Json, Quiet, begin
from tacit.errors import InvalidInput

__all__ = ["export"]

_COEFFICIENTS = ("coefficients.csv", "coefficients.json")


def export(
    run: RunPath,
    out: Annotated[Path, typer.Option(help="Folder to write.")],
    party: Annotated[
        str | None, typer.Option(help="The party (task) to hand its files to.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Every party: a folder each, in OUT.")
    ] = False,
    zip: Annotated[  # noqa: A002 - the option is --zip
        bool, typer.Option("--zip", help="With --all: a zip file beside every folder.")
    ] = False,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Write model.onnx, too (needs the extra onnx).")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the run in OUT.")] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Write a party's own files: its model, plain coefficients, releases, statement, report.

    Nothing in a folder was computed from another party's rows beyond the releases; tacit predict
    and tacit report work on it. With --all, OUT itself stays with the coordinator.
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit.cli.run.folder import load_run
    from tacit.cli.table.prepare import matching_task

    if (party is None) != every:
        raise InvalidInput("--party, --all: name one party, or say --all for every one")
    if zip and not every:
        raise InvalidInput("--zip: goes with --all; one party's folder is zipped by hand")
    loaded = load_run(run)
    if not every:
        own = matching_task(str(party), loaded[0].task_names_)
        _write(run, loaded, own, out, force=force, onnx=onnx)
        output.show(f"{own}'s own files: {out}")
        output.result({"party": str(own), "out": str(out)})
        return
    names = loaded[0].task_names_
    folders = dict(folder_names(names))
    out.mkdir(parents=True, exist_ok=True)
    with output.step("exporting") as advance:
        for number, own in enumerate(names):
            _write(run, loaded, own, out / folders[own], force=force, onnx=onnx)
            if zip:
                _zipped(out / folders[own])
            advance(number + 1, len(names))
    output.show(f"{len(names)} parties' own folders{' and zip files' if zip else ''}: {out}")
    output.result({"out": str(out), "parties": {str(k): v for k, v in folders.items()}})


def folder_names(names: Sequence[Hashable]) -> list[tuple[Hashable, str]]:
    """Return a folder's name for every party: its own, made safe, with a number where two agree."""
    taken: set[str] = set()
    found = []
    for name in names:
        safe = re.sub(r"[^\w.-]+", "-", str(name)).strip(".-")[:80] or "party"
        folder, number = safe, 2
        # Some file systems do not tell upper from lower case.
        while folder.casefold() in taken:
            folder, number = f"{safe}-{number}", number + 1
        taken.add(folder.casefold())
        found.append((name, folder))
    return found


def _write(
    run: Path, loaded: tuple[Any, ...], own: Hashable, out: Path, *, force: bool, onnx: bool
) -> None:
    from tacit.cli.run.folder import EVALUATION, RunFolder, table_csv, write_intake
    from tacit.cli.run.report_page import write_page

    model, intake, fill, manifest = loaded
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
        if hasattr(model, "coef_"):
            for name in (*_COEFFICIENTS, *(["model.onnx"] if onnx else ())):
                model.export(folder.stage / name, task=own)
        if (run / EVALUATION).exists():
            text = (run / EVALUATION).read_text(encoding="utf-8")
            folder.write(EVALUATION, _own_scores(text, str(own), manifest["method"]))
        write_page(model, folder.stage / "report.html", party=own)
        folder.commit()


def _zipped(folder: Path) -> None:
    """Write the folder as a zip file beside it, in one piece."""
    import io

    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for part in sorted(folder.rglob("*")):
            if part.is_file():
                name = os.path.join(folder.name, part.relative_to(folder))
                # One date for all: when a party's files were packed tells nothing.
                info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, part.read_bytes())
    write_whole(folder.with_name(folder.name + ".zip"), stream.getvalue())


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
