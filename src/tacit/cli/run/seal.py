"""The seal of a run folder: what its files are, so that an edited one is noticed.

``seal.json`` holds the SHA-256 of every file that says something (the report, which is drawn from
them, may be drawn again), the head of the billboard, and where the run stands in its ledger. The
ledger's chain holds the seal's own hash, so whoever edits a file and its hash must forge the ledger
as well. Against that too: a head noted elsewhere, or a signature (see `tacit.cli.run.signing`).
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit.errors import ModelFileError

__all__ = ["SEAL", "SIGNATURE", "check_files", "read_seal", "seal_hash", "write_seal"]

SEAL = "seal.json"
SIGNATURE = "signature.json"
STATEMENT = "statement.json"
_FORMAT = "tacit seal 1"
_REPORT = "report.html"
_APART = (SEAL, SIGNATURE, _REPORT)


def _hashes(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and name not in _APART:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def write_seal(folder: Path, ledger: dict[str, Any] | None = None) -> str:
    """Seal the files of a folder; return the seal's hash."""
    body = {"format": _FORMAT, "files": _hashes(folder), "ledger": ledger}
    write_whole(folder / SEAL, json.dumps(body, indent=2, sort_keys=True) + "\n")
    return seal_hash(body)


def seal_hash(body: dict[str, Any]) -> str:
    """Return the hash of all that is sealed, which the ledger keeps."""
    text = json.dumps(body["files"], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_seal(folder: Path) -> dict[str, Any] | None:
    """Return the seal; None if the folder has none."""
    file = folder / SEAL
    if not file.exists():
        return None
    try:
        body = json.loads(file.read_text(encoding="utf-8"))
        if body["format"] != _FORMAT or not isinstance(body["files"], dict):
            raise KeyError("format")
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{file}: was edited ({error}); restore it from a copy") from None
    return dict(body)


def check_files(folder: Path, privacy: Any) -> None:
    """Raise `ModelFileError` unless the sealed files are those of the seal.

    ``privacy`` is the statement inside the model, which ``statement.json`` must repeat, seal or no
    seal.
    """
    stated = folder / STATEMENT
    if stated.exists() and stated.read_text(encoding="utf-8").strip() != privacy.to_json().strip():
        raise ModelFileError(
            f"{stated}: was changed after the run: it is not the statement inside the model; "
            "restore it from a copy, and trust the model's"
        )
    seal = read_seal(folder)
    if seal is None:
        return
    for name, digest in seal["files"].items():
        path = folder / name
        if not path.is_file():
            raise ModelFileError(f"{path}: is missing since the run was sealed; restore it")
        if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise ModelFileError(
                f"{path}: was changed after the run was sealed; restore it from a copy"
            )
