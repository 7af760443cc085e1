"""``tacit federate``: the same fit, with every party on its own machine."""

from __future__ import annotations

import typer

from tacit.cli._exits import EPILOG
from tacit.cli.federate import demo, running, setup, simulate, watching

__all__ = ["federate"]

federate = typer.Typer(
    help="Learn together with every party on its own machine (docs/federation.md).",
    epilog=EPILOG,
    no_args_is_help=True,
)
federate.command("init")(setup.init)
federate.command("invite")(setup.invite)
federate.command("join")(setup.join)
federate.command("policy")(setup.policy)
federate.command("coordinator")(running.coordinator)
federate.command("site")(running.site)
federate.command("run")(running.run)
federate.command("status")(watching.status)
federate.command("stop")(running.stop)
federate.command("simulate")(simulate.simulate)
federate.command("demo")(demo.demo)
