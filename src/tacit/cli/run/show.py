"""What ``tacit fit`` tells about a finished run, or about a run to be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tacit.cli._output import current

if TYPE_CHECKING:
    from tacit.cli.run.fitting import Request, Run

__all__ = ["show", "show_rehearsal"]


def show(done: Run, request: Request) -> None:
    """Print what was learned, what it is worth and what is guaranteed."""
    output, statement = current(), done.model.privacy_
    prepared = done.prepared
    output.show(
        f"{request.method}: {len(prepared.names)} tasks, {prepared.n_rows} rows, "
        f"{prepared.n_features} features, {prepared.kind}"
    )
    if prepared.n_filled:
        output.note(f"{prepared.n_filled} missing values filled ({prepared.intake.missing})")
    if done.chosen:
        chosen = ", ".join(f"{name} = {value}" for name, value in done.chosen.items())
        output.show(f"chosen by accounted selection: {chosen}")
    if done.evaluation is not None:
        table = Table("method", f"held-out {done.evaluation.measure}")
        for name, error in done.evaluation.overall.items():
            table.add_row(name, f"{error:.4f}")
        output.show(table)
    output.show(statement.explain())
    output.show(f"run folder: {request.out}")
    if not statement.holds:
        output.warn("this run is NOT private; see the statement")
    output.result(
        {
            "run": str(request.out),
            "method": request.method,
            "kind": prepared.kind,
            "n_tasks": len(prepared.names),
            "n_rows": prepared.n_rows,
            "n_features": prepared.n_features,
            "n_filled": prepared.n_filled,
            "chosen": done.chosen,
            "report": str(request.out / "report.html"),
            "held_out": None
            if done.evaluation is None
            else {"measure": done.evaluation.measure, **done.evaluation.overall},
            "statement": json.loads(statement.to_json()),
        }
    )


def show_rehearsal(found: dict[str, Any]) -> None:
    """Print the plan and the statement to be."""
    output = current()
    output.show("Plan (nothing was spent, nothing was written)")
    output.show(
        f"{found['method']}: {found['n_tasks']} tasks, {found['n_rows']} rows, "
        f"{found['n_features']} features, {found['kind']}"
    )
    output.show(found.pop("table"))
    for unit, epsilon, delta in found["ledger_left"] or ():
        output.show(f"left in {found['ledger']} ({unit}): ε = {epsilon:.4g}, δ = {delta:.2g}")
    if found["cannot_help"]:
        output.warn(found["cannot_help"])
    output.show(f"Statement to be: {found.pop('explained')}")
    output.result(found)
