"""``tacit federate simulate``: the whole federation in one process, from one file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli._output import Json, Quiet, begin
from tacit.cli.federate import _terms
from tacit.errors import InvalidInput

__all__ = ["simulate"]


def simulate(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="File with all sites' rows.")],
    task: Annotated[str, typer.Option(help="Column that says whose row it is.")],
    target: Annotated[str, typer.Option(help="Column to learn.")],
    features: _terms.Features,
    method: _terms.Method = "shared-moments",
    sources: _terms.Sources = None,
    classes: _terms.Classes = None,
    categories: _terms.Categories = None,
    range: _terms.Ranges = None,  # noqa: A002 - the option is --range
    missing: _terms.Missing = "drop",
    epsilon: Annotated[float, typer.Option(help="Privacy budget of a run.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Chance that the bound fails.")] = 1e-5,
    set: _terms.Set = None,  # noqa: A002 - the option is --set
    deadline: _terms.Deadline = 60.0,
    late: _terms.Late = "stop",
    seed: _terms.Seed = None,
    out: Annotated[Path, typer.Option(help="Folder for every party's files.")] = Path("simulated"),
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Rehearse a federation: the file is split by task, and every part becomes a site.

    Example: tacit federate simulate rows.csv --task hospital --target disease --classes 0,1
    --features age,chol
    """
    output = begin(quiet=quiet, as_json=json)
    asked = {**locals()}
    from tacit.cli.table.columns import labels
    from tacit.cli.table.read import read_table
    from tacit.federation import simulate as simulated
    from tacit.federation.rows import rows_of

    if out.exists():
        raise InvalidInput(f"--out {out}: exists; choose another folder")
    table = read_table(data)
    table.column(task, "--task")
    sites = tuple(sorted(dict.fromkeys(labels(table, task))))
    if len(sites) < 2:
        raise InvalidInput(f"--task {task}: has one value; a federation has two sites at least")
    terms = _terms.terms_of(asked, sites)
    rows = {name: rows_of(data, name)(terms) for name in sites}
    with output.step(f"{len(sites)} sites"):
        found = simulated(terms, rows, out)
    output.show(
        found.outcome.statement.explain(),
        f"every site's files: {out / 'sites'}; the coordinator's: {out / 'coordinator'}",
    )
    output.result({"sites": list(sites), "epsilon": found.outcome.statement.epsilon})
