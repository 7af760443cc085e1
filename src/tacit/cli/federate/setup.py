"""``tacit federate init``, ``invite``, ``join``: keys and consent, before anything runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli._output import Json, Quiet, begin, current
from tacit.cli.federate import _terms
from tacit.errors import InvalidInput

if TYPE_CHECKING:
    from tacit.federation import Terms
    from tacit.federation.house import Federation
    from tacit.federation.kits import Settings

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
    ledger: Annotated[
        Path | None,
        typer.Option(
            help="Ledger to charge; default: the one that guards these rows, else one in HOME."
        ),
    ] = None,
    new_ledger: Annotated[
        str | None,
        typer.Option(help="Reason for another ledger though one guards these rows; recorded."),
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
        terms = federation.terms
        settings = _settings(terms, site, home, data, (max_epsilon, max_delta), allow_seeded)
        _agreed(federation, settings, home, (ledger, new_ledger), yes=yes)


def _settings(
    terms: Terms,
    site: str,
    home: Path,
    data: Path,
    limits: tuple[float | None, float | None],
    allow_seeded: bool,
) -> Settings:
    from tacit.cli.table.features import Intake
    from tacit.cli.table.read import read_table
    from tacit.federation import kits
    from tacit.federation.site import LEDGER

    state, column = (home / "state").absolute(), Intake.from_json(terms.intake or {}).task
    return kits.Settings(
        folder=str(state),
        data=str(data.absolute()),
        site=site,
        column=column if column in read_table(data).columns else "",
        ledger=str(state / LEDGER),
        max_epsilon=float(terms.settings["epsilon"]) if limits[0] is None else limits[0],
        max_delta=float(terms.settings["delta"]) if limits[1] is None else limits[1],
        methods=(terms.method,),
        features=terms.features,
        allow_seeded=allow_seeded,
        charter=terms.charter,
        sites=terms.sites,
    )


def _agreed(
    federation: Federation,
    settings: Settings,
    home: Path,
    ledger: tuple[Path | None, str | None],
    *,
    yes: bool,
) -> None:
    """Show what would be sent, ask, and make the key."""
    from tacit.cli.federate import _ledger
    from tacit.cli.guard.choice import Guard
    from tacit.federation import consent, kits
    from tacit.federation.consent import described
    from tacit.federation.errors import Refused
    from tacit.federation.rows import rows_of

    terms, site = federation.terms, settings.site
    X, _ = rows_of(Path(settings.data), site)(terms)
    supposed, policy = terms.supposing(len(X)), settings.policy()
    policy.check(terms, site)
    policy.check_cost(supposed.staged(), site)
    found, totals = consent(supposed), (settings.max_epsilon, settings.max_delta)
    asked = _ledger.asked_for(settings, named=ledger[0], reason=ledger[1])
    current().show(described(found, site), _ledger.described(asked, totals))
    if not yes and not typer.confirm("agree?"):
        raise Refused(f"{site}: did not agree; nothing was written")
    Path(settings.folder).mkdir(mode=0o700, parents=True, exist_ok=True)
    with Guard(asked, totals) as guard:
        request = kits.request(home, federation.name, site)
        replace(settings, ledger=str(guard.path.absolute())).save(home / kits.SETTINGS)
        guard.stays = True
    current().show(f"{request}: send it to the coordinator; the key stays in {home / 'request'}")
    current().result({"request": str(request), "consent": found, "ledger": str(guard.path)})


def _packaged(
    federation: Federation, site: str, home: Path, signed: Path, fingerprint: str | None
) -> None:
    """Check the root and build the kit, with the strict policy."""
    from tacit.federation import kits, sums
    from tacit.federation.seat import PEERS
    from tacit.federation.strict import write_policy

    if fingerprint is None:
        raise InvalidInput("--fingerprint: give the root's fingerprint as it was told to you")
    if not (home / kits.SETTINGS).exists():
        raise InvalidInput(f"--home {home}: has not agreed yet; join with --data first")
    with current().step("building the kit"):
        kit = kits.package(home, signed, federation.name, site, fingerprint)
    write_policy(kit)
    (home / kits.SETTINGS).rename(kit / "local" / kits.SETTINGS)
    key = sums.fingerprint((kit / "startup" / "client.crt").read_bytes())
    current().show(
        f"{kit}: ready; start it with: tacit federate site {home}",
        f"this site's key, as others find it in their state/{PEERS} after a secure sum:\n  {key}",
    )
    current().result({"kit": str(kit), "key": key})


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
