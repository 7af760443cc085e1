"""A federation on the coordinator's disk: its file, its root, its kits and its runs."""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tacit._files import write_whole
from tacit.errors import InvalidInput
from tacit.federation import kits
from tacit.federation.attempts import LEAD, run_status
from tacit.federation.strict import write_policy
from tacit.federation.terms import Terms, check_name

__all__ = ["LOOPBACK", "Federation", "House"]

FILE = "federation.json"
LOOPBACK = "localhost"


@dataclass(frozen=True)
class Federation:
    """The one file that a coordinator writes and every site reads; it holds no secret.

    Parameters
    ----------
    name
        Of the project, in certificates.
    host, port
        Where the coordinator listens; "localhost" is this machine only.
    fingerprint
        Of the root; sites compare it with what they were told by other means.
    terms
        Of every run; each gets an identity of its own.
    """

    name: str
    host: str
    port: int
    fingerprint: str
    terms: Terms

    def __post_init__(self) -> None:
        check_name("name", self.name)
        check_name("host", self.host)

    def save(self, path: Path) -> None:
        """Write the file, whole."""
        body = {**asdict(self), "terms": json.loads(self.terms.to_json())}
        write_whole(path, json.dumps(body, indent=1, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, path: Path) -> Federation:
        """Read the file."""
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            terms = Terms.from_json(json.dumps(body.pop("terms")))
            return cls(**body, terms=terms)
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidInput(f"{path}: is no federation's file ({error})") from None


class House:
    """The coordinator's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / FILE).exists():
            raise InvalidInput(f"{folder}: holds no federation; make one with tacit federate init")
        self.federation = Federation.load(folder / FILE)

    @classmethod
    def begin(cls, folder: Path, name: str, host: str, port: int, terms: Terms) -> House:
        """Make root, server and lead; private keys are made here because they belong here."""
        check_name("name", name)
        check_name("host", host)
        if folder.exists() and any(folder.iterdir()):
            raise InvalidInput(f"{folder}: is not empty; choose another folder")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        root = kits.begin_authority(folder, name, host, port)
        for home, party, kind, role in (
            ("server", host, "server", None),
            ("lead", LEAD, "admin", "lead"),
        ):
            asked = kits.request(folder / home, name, party, kind, role)
            signed = kits.approve(folder, asked, folder / home / f"{home}.signed.zip")
            kits.package(folder / home, signed, name, party, root)
        server = folder / "server" / "kit"
        write_policy(server, server=True)
        kits.Settings(str(folder.absolute())).save(server / "local" / kits.SETTINGS)
        Federation(name, host, port, root, terms).save(folder / FILE)
        return cls(folder)

    @property
    def server(self) -> Path:
        """The server's kit."""
        return self.folder / "server" / "kit"

    @property
    def lead(self) -> Path:
        """The kit of whoever submits jobs."""
        return self.folder / "lead" / "kit"

    def sign(self, archive: Path) -> Path:
        """Sign a site's request, once; return what goes back to the site."""
        asked = kits.requested(archive)
        name = asked.get("name")
        if asked.get("kind") != "site" or name not in self.federation.terms.sites:
            raise InvalidInput(
                f"{archive}: asks for {asked.get('kind')} {name!r}; the sites are "
                f"{', '.join(self.federation.terms.sites)}"
            )
        out = self.folder / "signed" / f"{name}.signed.zip"
        if out.exists():
            raise InvalidInput(
                f"{archive}: {name} has a certificate already; remove {out} if its key was lost"
            )
        return kits.approve(self.folder, archive, out)

    def run(self, *, new: bool = False, without: tuple[str, ...] = ()) -> Path:
        """Return the folder of the run that is under way, or of a new one.

        Another roster is another run: fresh identity, keys and noise, charged again.
        """
        current = self.folder / "current"
        if current.exists() and not new and not without:
            folder = self.folder / "runs" / current.read_text().strip()
            found = run_status(folder)
            if found["phase"] not in ("done", "refused") or found.get("left"):
                return folder
        base = self.federation.terms
        strangers = sorted(set(without) - set(base.sites))
        if strangers:
            raise InvalidInput(f"--without {strangers[0]}: is no site of this federation")
        sites = tuple(name for name in base.sites if name not in without)
        terms = replace(base, run=secrets.token_hex(16), sites=sites)
        folder = self.folder / "runs" / terms.run
        folder.mkdir(mode=0o700, parents=True)
        terms.save(folder / "terms.json")
        write_whole(current, terms.run + "\n")
        return folder

    def latest(self) -> Path | None:
        """Return the folder of the last run, if there was any."""
        current = self.folder / "current"
        return self.folder / "runs" / current.read_text().strip() if current.exists() else None
