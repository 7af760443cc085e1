"""``tacit federate coordinator``, ``site``, ``run``, ``stop``: what runs for long."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli._output import Json, Quiet, begin
from tacit.cli.federate import _terms
from tacit.errors import InvalidInput

__all__ = ["coordinator", "run", "site", "stop"]


def coordinator(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The coordinator's folder.")],
) -> None:
    """Serve a federation until it is stopped; a process that dies is started again."""
    output = begin()
    _terms.need_extra()
    from tacit.federation.house import House
    from tacit.federation.processes import keep_running

    house = House(folder)
    output.show(f"listening on {house.federation.host}:{house.federation.port}")
    keep_running(house.server, server=True, say=output.note)


def site(
    home: Annotated[Path, typer.Argument(metavar="HOME", help="The site's folder.")],
) -> None:
    """Take part until stopped: the strict policy is checked at every start."""
    output = begin()
    _terms.need_extra()
    from tacit.cli.federate._ledger import registered
    from tacit.federation.kits import SETTINGS, Settings
    from tacit.federation.processes import keep_running

    if not (home / "kit").exists():
        raise InvalidInput(f"{home}: has no kit; join with --signed first")
    registered(Settings.load(home / "kit" / "local" / SETTINGS))
    keep_running(home / "kit", server=False, say=output.note)


def run(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The coordinator's folder.")],
    new: Annotated[bool, typer.Option("--new", help="Begin another run.")] = False,
    without: Annotated[
        list[str] | None, typer.Option(help="a,b: begin another run without these sites.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="How long to go on trying.")] = 3600.0,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Run to the end: attempts are made until every site has its model."""
    output = begin(quiet=quiet, as_json=json)
    _terms.need_extra()
    from tacit.federation import Terms
    from tacit.federation.attempts import supervise
    from tacit.federation.coordinator import STATEMENT
    from tacit.federation.house import House
    from tacit.privacy.statement import Statement

    house = House(folder)
    place = house.run(new=new, without=_terms.listed(without))
    terms = Terms.load(place / "terms.json")
    output.note(f"run {terms.run}")
    supervise(house.lead, place, terms.run, terms.sites, seconds=seconds, say=output.note)
    statement = Statement.from_json((place / STATEMENT).read_text(encoding="utf-8"))
    output.show(statement.explain(), f"the public record: {place}")
    output.result({"run": terms.run, "folder": str(place), "epsilon": statement.epsilon})


def stop(
    place: Annotated[
        Path, typer.Argument(metavar="PLACE", help="A coordinator's folder, or a site's.")
    ],
) -> None:
    """Stop the process that serves a coordinator's folder, or a site's."""
    output = begin()
    from tacit.federation.processes import stop as stopped

    kits = [kit for kit in (place / "server" / "kit", place / "kit") if kit.exists()]
    if not kits:
        raise InvalidInput(f"{place}: is neither a coordinator's folder nor a site's")
    for kit in kits:
        stopped(kit)
    output.show(f"{place}: asked to stop; what was sent stays charged and recorded")
