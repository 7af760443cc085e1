"""Startup kits: made by NVFlare's own ``cert`` and ``package``, with keys that stay at home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit.errors import InvalidInput
from tacit.federation.consent import Policy

__all__ = ["SETTINGS", "Settings", "approve", "begin_authority", "fingerprint", "package"]
__all__ += ["profile_text", "request", "requested"]

SETTINGS = "tacit.json"


@dataclass(frozen=True)
class Settings:
    """What a party's processes need to know; it lies in its kit and is nobody else's.

    ``column`` is the one of the data that says whose row it is; empty where all are the site's.
    """

    folder: str
    data: str = ""
    site: str = ""
    column: str = ""
    ledger: str = ""
    max_epsilon: float = 1.0
    max_delta: float = 1e-5
    methods: tuple[str, ...] | None = None
    features: tuple[str, ...] | None = None
    allow_seeded: bool = False
    charter: str | None = None
    sites: tuple[str, ...] | None = None

    def policy(self) -> Policy:
        """Return the site's rules."""
        return Policy(
            self.max_epsilon,
            self.max_delta,
            self.methods,
            self.features,
            self.allow_seeded,
            self.charter,
            self.sites,
        )

    def save(self, path: Path) -> None:
        """Write them where only the owner reads."""
        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")
        path.chmod(0o600)

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Read them."""
        try:
            body = json.loads(path.read_text(encoding="utf-8"))
            for name in ("methods", "features", "sites"):
                body[name] = None if body[name] is None else tuple(body[name])
            return cls(**body)
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InvalidInput(f"{path}: cannot be used ({error}); join again") from None


def _nvflare(home: Path, *arguments: str | os.PathLike[str]) -> str:
    """Run NVFlare's own command; it keeps its records under ``home``, not in the user's."""
    records = home / ".nvflare-home"
    records.mkdir(mode=0o700, parents=True, exist_ok=True)
    program = "from nvflare.cli import main; import sys; sys.exit(main())"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    environment = {**os.environ, "HOME": str(records)}
    done = subprocess.run(  # noqa: S603 - our own interpreter and arguments
        command, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise InvalidInput(f"nvflare {' '.join(map(str, arguments[:2]))}: {' '.join(said[-3:])}")
    return done.stdout


def _participant(project: str, name: str, kind: str, org: str, role: str | None = None) -> str:
    # A JSON text is one of YAML, and cannot end where it likes: names come from others.
    project, name = json.dumps(project), json.dumps(name)
    lines = [f"name: {project}", "participants:", f"  - name: {name}", f"    type: {kind}"]
    lines += [f"    org: {org}"] + ([f"    role: {role}"] if role else [])
    return "\n".join(lines) + "\n"


def profile_text(project: str, host: str, port: int) -> str:
    """Return NVFlare's profile: TLS websockets, both sides show certificates."""
    return (
        f"name: {json.dumps(project)}\nscheme: http\nconnection_security: mtls\n"
        f"server:\n  host: {json.dumps(host)}\n  fed_learn_port: {port}\n  admin_port: {port}\n"
    )


def begin_authority(folder: Path, project: str, host: str, port: int) -> str:
    """Make the root of a federation; return its fingerprint, to be told to sites by other means."""
    (folder / "profile.yml").write_text(profile_text(project, host, port))
    _nvflare(folder, "cert", "init", "--profile", folder / "profile.yml", "-o", folder / "ca")
    return fingerprint(folder / "ca" / "rootCA.pem")


def fingerprint(root: Path) -> str:
    """Return the SHA-256 of a root certificate as NVFlare writes it."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    digest = x509.load_pem_x509_certificate(root.read_bytes()).fingerprint(hashes.SHA256())
    return "SHA256:" + ":".join(f"{byte:02X}" for byte in digest)


def request(
    home: Path, project: str, name: str, kind: str = "client", role: str | None = None
) -> Path:
    """Make a party's key, here, and return the request that goes to the coordinator."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    me = home / "me.yml"
    org = "".join(part for part in name if part.isalnum()).lower() or "party"
    me.write_text(_participant(project, name, kind, org, role))
    out = home / "request"
    _nvflare(home, "cert", "request", "-p", me, "--out", out)
    return out / f"{name}.request.zip"


def requested(archive: Path) -> dict[str, Any]:
    """Return what a request asks for."""
    try:
        with zipfile.ZipFile(archive) as parts:
            body = json.loads(parts.read("request.json"))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{archive}: is no request ({error})") from None
    return dict(body)


def approve(folder: Path, archive: Path, out: Path) -> Path:
    """Sign a request with the federation's root."""
    out.parent.mkdir(parents=True, exist_ok=True)
    profile = folder / "profile.yml"
    _nvflare(
        folder, "cert", "approve", "-c", folder / "ca", "--profile", profile, "--out", out, archive
    )
    return out


def package(home: Path, signed: Path, project: str, name: str, root: str) -> Path:
    """Put a kit together from a signed request and the key that never left; return the kit."""
    _nvflare(
        home,
        "package",
        signed,
        "--request-dir",
        home / "request",
        "--fingerprint",
        root.removeprefix("SHA256:"),
        "-w",
        home / "kits",
        "--force",
    )
    made = home / "kits" / project / "prod_00" / name
    if not made.exists():
        raise InvalidInput(f"{signed}: gave no kit for {name}")
    kit = home / "kit"
    if kit.exists():
        raise InvalidInput(f"{kit}: exists already; a new kit goes to a new folder")
    made.rename(kit)
    return kit
