"""``tacit datasets``: data to try things with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tacit._files import write_whole
from tacit.cli._output import Json, Quiet, begin
from tacit.errors import DataNotFound, InvalidInput

__all__ = ["datasets"]

datasets = typer.Typer(help="List and fetch data sets.", no_args_is_help=True)

_EMBEDDED = "hospitals"


@datasets.command("list")
def list_all(quiet: Quiet = False, json: Json = False) -> None:
    """List the data sets, and which of them are on this machine."""
    output = begin(quiet=quiet, as_json=json)
    from tacit.datasets import CATALOGUE, cache_folder, load_hospitals, locate

    rows = [(_EMBEDDED, "regression", "embedded", load_hospitals().description, "", "invented")]
    for name, entry in CATALOGUE.items():
        try:
            place = str(locate(entry.file, entry.sha256)) if _on_disk(entry.file) else "not here"
        except InvalidInput:
            place = "damaged"
        rows.append((name, entry.kind, place, entry.summary, entry.file, entry.source))
    table = Table("name", "target", "where", "what")
    for row in rows:
        table.add_row(*row[:4])
    output.show(table)
    absent = [row for row in rows if row[2] == "not here"]
    if absent:
        output.show(
            f"To use what is not here, put its file into a folder that TACIT_DATA names (or into "
            f"{cache_folder()}), or set TACIT_DATA_URL to an https:// or file:// address that has "
            "it; the files are prepared copies, checked against their published SHA-256:"
        )
    for row in absent:
        output.show(f"  {row[4]}, rows from {row[5]}")
    names = ("name", "kind", "where", "summary", "file", "source")
    output.result({"datasets": [dict(zip(names, row, strict=True)) for row in rows]})


def _on_disk(file: str) -> bool:
    """Whether the file is here already; listing must not start a download."""
    import os

    from tacit.datasets import cache_folder

    configured = os.environ.get("TACIT_DATA")
    folders = [cache_folder(), *([Path(configured).expanduser()] if configured else [])]
    return any((folder / file).is_file() for folder in folders)


@datasets.command("fetch")
def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="See: tacit datasets list.")],
    csv: Annotated[
        Path | None, typer.Option(help="Also write it as a CSV file for tacit fit.")
    ] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Find or download a data set, check it, and write it as CSV if asked.

    Example: tacit datasets fetch hospitals --csv hospitals.csv
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit import datasets as package

    if name not in (_EMBEDDED, *package.CATALOGUE):
        known = ", ".join((_EMBEDDED, *package.CATALOGUE))
        raise InvalidInput(f"{name!r}: no such data set; known are {known}")
    place = "embedded"
    if name != _EMBEDDED:
        entry = package.CATALOGUE[name]
        with output.step(f"fetching {name}"):
            place = str(package.locate(entry.file, entry.sha256))
    output.show(f"{name}: {place}")
    if csv is not None:
        data = getattr(package, f"load_{name}")()
        with output.step(f"writing {csv}"):
            n_rows = _write_csv(data, csv)
        output.show(f"{csv}: {n_rows} rows, --task task --target target")
    output.result({"name": name, "where": place, "csv": None if csv is None else str(csv)})


def _write_csv(data: Any, path: Path) -> int:
    import csv
    import io

    if data.tasks is None:
        raise DataNotFound(f"{data.name}: its outcomes are the tasks; load it in Python instead")
    names = data.feature_names or tuple(f"x{i}" for i in range(data.X.shape[1]))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["task", *names, "target"])
    for label, row, value in zip(
        data.tasks.tolist(), data.X.tolist(), data.y.tolist(), strict=True
    ):
        cells = ["" if cell != cell else f"{cell:.12g}" for cell in row]
        writer.writerow([label, *cells, value])
    write_whole(path, stream.getvalue())
    return len(data.X)
