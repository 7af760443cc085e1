"""``tacit federate status``: how a run goes, in the terminal or on a local page."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli._output import Json, Quiet, begin

__all__ = ["status"]


def status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The coordinator's folder.")],
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until the run is over.")] = False,
    web: Annotated[
        bool, typer.Option("--web", help="Serve a read-only page on this machine instead.")
    ] = False,
    port: Annotated[int, typer.Option(help="Port of the page; 0 takes a free one.")] = 0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Show sites, round, ε and the last error of the run under way."""
    output = begin(quiet=quiet, as_json=json)
    from tacit.federation.house import House
    from tacit.federation.status import facts_of, page_server

    house = House(folder)
    if web:
        server, address = page_server(house, port)
        output.show(f"{address}\nthe page is read-only; stop it with Ctrl-C")
        try:
            server.serve_forever()
        finally:
            server.server_close()
        return
    facts = facts_of(house)
    if not watch:
        output.show(_table(facts))
        output.result(facts)
        return
    from rich.live import Live

    with Live(_table(facts), refresh_per_second=2) as live:
        while facts["phase"] not in ("done", "refused", "none"):
            time.sleep(0.5)
            facts = facts_of(house)
            live.update(_table(facts))


def _table(facts: dict[str, Any]) -> Any:
    from rich.table import Table
    from rich.text import Text

    error = f"; last error: {facts['error']}" if facts["error"] else ""
    title = (
        f"{facts['method']}, {facts['phase']}, round {facts['round']} of {facts['rounds']}, "
        f"ε = {facts['spent']:.4g} of {facts['epsilon']:.4g}{error}"
    )
    table = Table(title=Text(title), title_justify="left")  # texts of others are not markup
    for name in ("site", "state", "seconds ago"):
        table.add_column(name)
    for site in facts["sites"]:
        ago = "" if site["ago"] is None else f"{site['ago']:.0f}"
        table.add_row(Text(site["name"]), Text(site["state"]), ago)
    return table
