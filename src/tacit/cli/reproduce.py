"""``tacit reproduce``: papers' figures, run again, and their claims judged."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli._exits import CHECK_FAILED
from tacit.cli._output import Json, Quiet, begin

__all__ = ["reproduce"]


def reproduce(
    figure: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FIGURE]...", help="For example model-protected/fig6; default: list them."
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Every figure of every paper.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A few runs instead of all.")] = False,
    runs: Annotated[
        int | None, typer.Option(min=1, help="Another number of runs than the figure's own.")
    ] = None,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Judge the results kept in papers/; run nothing.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of the results.")] = Path("out"),
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes (default: cores).")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run papers' figures again and judge their claims; exit code 5 if a verdict does not hold.

    Writes OUT/<paper>/<figure>.csv and .png, and all claims as a table, OUT/claims.md.

    The figures' settings and claims stand in papers/ of the source tree, so this needs a checkout
    (or TACIT_PAPERS).
    """
    output = begin(quiet=quiet, as_json=json)
    from tacit import reproduce as papers

    names = list(papers.available()) if every else figure or []
    if not names:
        names = list(papers.available())
        output.show(*names)
        output.result({"figures": names})
        return
    if recorded:
        kept = [name for name in names if papers.keeps_results(name)] if every else names
        found = {name: papers.judge_recorded(name) for name in kept}
    else:
        for name in [name for name in names if every and papers.lacking(name)]:
            names.remove(name)
            output.show(f"{name}: left out; pip install 'tacit[{papers.lacking(name)}]' to run it")
        cores = jobs or os.cpu_count() or 1
        shown = not (quiet or json)
        found = papers.reproduce(names, quick=quick, runs=runs, out=out, jobs=cores, progress=shown)
    out.mkdir(parents=True, exist_ok=True)
    kind = "-recorded" if recorded else "-quick" if quick else ""
    table = papers.claim_table(found)
    (out / f"claims{kind}.md").write_text(table + "\n", encoding="utf-8")
    for name, findings in found.items():
        output.show(name)
        for finding in findings:
            held = "holds" if finding.upheld else "DOES NOT HOLD"
            output.show(
                f"  {finding.claim.name} ({finding.claim.where}): {finding.claim.words}",
                f"    {held}: {finding.ours}",
            )
    output.result(
        {
            name: [
                {
                    "claim": finding.claim.name,
                    "where": finding.claim.where,
                    "verdict": finding.claim.verdict,
                    "upheld": finding.upheld,
                    "ours": finding.ours,
                }
                for finding in findings
            ]
            for name, findings in found.items()
        }
    )
    if not all(finding.upheld for findings in found.values() for finding in findings):
        raise typer.Exit(CHECK_FAILED)
