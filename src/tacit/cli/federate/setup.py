"""``tacit federate init``, ``invite``, ``join``: keys and consent, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli._output import Json, Quiet, begin, current
from tacit.cli.federate import _terms
from tacit.errors import InvalidInput

__all__ = ["init", "invite", "join", "policy"]

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The coordinator's folder.")]


def init(
    folder: Folder,
    sites: Annotated[list[str], typer.Option(help="Who may join, a,b,c.")],
    target: Annotated[str, typer.Option(help="Column to learn.")],
    features: _terms.Features,
    name: Annotated[str, typer.Option(help="Name of the project.")] = "federation",
    method: _terms.Method = "shared-moments",
    sources: _terms.Sources = None,
    classes: _terms.Classes = None,
    categories: _terms.Categories = None,
    range: _terms.Ranges = None,  # noqa: A002 - the option is --range
    missing: _terms.Missing = "drop",
    task: Annotated[
        str, typer.Option(help="Column that says whose row it is, where a file has one.")
    ] = "site",
    epsilon: Annotated[float, typer.Option(help="Privacy budget of a run.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Chance that the bound fails.")] = 1e-5,
    set: _terms.Set = None,  # noqa: A002 - the option is --set
    deadline: _terms.Deadline = 60.0,
    late: _terms.Late = "stop",
    host: Annotated[
        str, typer.Option(help="Name under which sites reach this machine; localhost: only it.")
    ] = "localhost",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8102,
    seed: _terms.Seed = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Begin a federation: one file that says all, a root of trust, and the coordinator's keys.

    Example: tacit federate init study --sites a,b,c --target disease --classes 0,1 --features age
    """
    output = begin(quiet=quiet, as_json=json)
    asked = {**locals()}
    _terms.need_extra()
    from tacit.federation.house import FILE, House

    terms = _terms.terms_of(asked, _terms.listed(sites))
    with current().step("making keys"):
        house = House.begin(folder, name, host, port, terms)
    root = house.federation.fingerprint
    output.show(
        f"{folder / FILE}: send it to every site\n"
        f"the root's fingerprint, to be told by other means:\n  {root}\n"
        f"then: tacit federate coordinator {folder}"
    )
    output.result({"file": str(folder / FILE), "fingerprint": root, "sites": list(terms.sites)})


def invite(
    folder: Folder,
    request: Annotated[Path, typer.Argument(help="NAME.request.zip from a site.")],
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Sign a site's request, so that it can connect; its private key never comes here."""
    output = begin(quiet=quiet, as_json=json)
    _terms.need_extra()
    from tacit.federation.house import House

    signed = House(folder).sign(request)
    output.show(f"{signed}: send it back to the site")
    output.result({"signed": str(signed)})


def join(
    invitation: Annotated[Path, typer.Argument(help="federation.json from the coordinator.")],
    site: Annotated[str, typer.Option(help="This site's name.")],
    home: Annotated[Path, typer.Option(help="Folder for this site's keys, ledger and models.")],
    data: Annotated[Path | None, typer.Option(help="This site's own rows: CSV or Parquet.")] = None,
    max_epsilon: Annotated[
        float | None, typer.Option(help="Most that ever leaves these rows; default: one run.")
    ] = None,
    max_delta: Annotated[float | None, typer.Option(help="Most δ; default: one run.")] = None,
    signed: Annotated[
        Path | None, typer.Option(help="NAME.signed.zip, once the coordinator sent it.")
    ] = None,
    fingerprint: Annotated[
        str | None, typer.Option(help="The root's fingerprint as it was told to you.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Agree without being asked.")] = False,
    allow_seeded: Annotated[
        bool, typer.Option("--allow-seeded", help="Tests only: repeatable noise, NOT private.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Join a federation: first see what would be sent and agree, then build the kit.

    First: tacit federate join federation.json --site a --home a/ --data rows.csv --max-epsilon 1
    Then: tacit federate join federation.json --site a --home a/ --signed a.signed.zip
    --fingerprint SHA256:…
    """
    begin(quiet=quiet, as_json=json)
    _terms.need_extra()
    from tacit.federation.house import Federation

    federation = Federation.load(invitation)
    if site not in federation.terms.sites:
        raise InvalidInput(f"--site {site}: the sites are {', '.join(federation.terms.sites)}")
    if signed is not None:
        _packaged(federation, site, home, signed, fingerprint)
    elif data is None:
        raise InvalidInput("--data: name the file with this site's rows")
    else:
        limits = (max_epsilon, max_delta)
        _asked(federation, site, home, data, limits, yes=yes, allow_seeded=allow_seeded)


def _asked(
    federation: Any,
    site: str,
    home: Path,
    data: Path,
    limits: tuple[float | None, float | None],
    *,
    yes: bool,
    allow_seeded: bool,
) -> None:
    """Show what would be sent, ask, and make the key."""
    from tacit.federation import consent, kits
    from tacit.federation.consent import described
    from tacit.federation.errors import Refused
    from tacit.federation.rows import rows_of

    terms = federation.terms
    X, _ = rows_of(data, site)(terms)
    found = consent(terms.supposing(len(X)))
    settings = kits.Settings(
        folder=str((home / "state").absolute()),
        data=str(data.absolute()),
        max_epsilon=float(terms.settings["epsilon"]) if limits[0] is None else limits[0],
        max_delta=float(terms.settings["delta"]) if limits[1] is None else limits[1],
        methods=(terms.method,),
        features=terms.features,
        allow_seeded=allow_seeded,
        charter=terms.charter,
    )
    settings.policy().check(terms, site)
    settings.policy().check_cost(terms.supposing(len(X)).staged(), site)
    current().show(described(found, site))
    if not yes and not typer.confirm("agree?"):
        raise Refused(f"{site}: did not agree; nothing was written")
    request = kits.request(home, federation.name, site)
    settings.save(home / kits.SETTINGS)
    current().show(f"{request}: send it to the coordinator; the key stays in {home / 'request'}")
    current().result({"request": str(request), "consent": found})


def _packaged(
    federation: Any, site: str, home: Path, signed: Path, fingerprint: str | None
) -> None:
    """Check the root and build the kit, with the strict policy."""
    from tacit.federation import kits
    from tacit.federation.strict import write_policy

    if fingerprint is None:
        raise InvalidInput("--fingerprint: give the root's fingerprint as it was told to you")
    if not (home / kits.SETTINGS).exists():
        raise InvalidInput(f"--home {home}: has not agreed yet; join with --data first")
    with current().step("building the kit"):
        kit = kits.package(home, signed, federation.name, site, fingerprint)
    write_policy(kit)
    (home / kits.SETTINGS).rename(kit / "local" / kits.SETTINGS)
    current().show(f"{kit}: ready; start it with: tacit federate site {home}")
    current().result({"kit": str(kit)})


def policy(
    kit: Annotated[Path, typer.Argument(metavar="KIT", help="A startup kit: HOME/kit.")],
) -> None:
    """Write the strict policy of a kit again."""
    output = begin()
    from tacit.federation.strict import write_policy

    server = (kit / "startup" / "fed_server.json").exists()
    if not server and not (kit / "startup" / "fed_client.json").exists():
        raise InvalidInput(f"{kit}: is no startup kit")
    write_policy(kit.absolute(), server=server)
    output.show(f"{kit}: has the strict policy")
