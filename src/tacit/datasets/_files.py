"""Where data files are looked for: ``TACIT_DATA``, the cache, then a checked download."""

from __future__ import annotations

import hashlib
import os
import sys
from functools import lru_cache
from pathlib import Path
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

from tacit._files import whole_file
from tacit.datasets._catalogue import CATALOGUE
from tacit.errors import DataNotFound, InvalidInput

__all__ = ["cache_folder", "locate"]

_BLOCK = 1 << 20


def locate(file: str, sha256: str) -> Path:
    """Return the path of a data file whose content has the given checksum.

    Looked for in this order: the folder ``TACIT_DATA``; the cache folder (``TACIT_CACHE``, else
    the platform's own); the base address ``TACIT_DATA_URL`` (https or file), if one is set. A
    download enters the cache only after its checksum was found right.
    """
    cache = cache_folder()
    configured = os.environ.get("TACIT_DATA")
    folders = [cache] if not configured else [Path(configured).expanduser(), cache]
    for folder in folders:
        path = folder / file
        if path.is_file():
            _verify(path, sha256)
            return path
    address = os.environ.get("TACIT_DATA_URL")
    if address:
        return _download(f"{address.rstrip('/')}/{file}", cache / file, sha256)
    places = " nor in ".join(str(folder) for folder in folders)
    known = next((entry.source for entry in CATALOGUE.values() if entry.file == file), None)
    origin = f" The rows are from {known}; the file is a prepared copy." if known else ""
    raise DataNotFound(
        f"{file}: not in {places}; put it there, set TACIT_DATA to the folder that has it, "
        f"or set TACIT_DATA_URL to an address to fetch it from.{origin} tacit datasets fetch "
        "hospitals needs no file"
    )


def cache_folder() -> Path:
    """Folder for downloaded data: ``TACIT_CACHE``, else the platform's cache folder."""
    chosen = os.environ.get("TACIT_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tacit"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "tacit"
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tacit"


def _verify(path: Path, sha256: str) -> None:
    status = path.stat()
    if _checksum(path, status.st_size, status.st_mtime_ns) != sha256:
        raise InvalidInput(
            f"{path}: its checksum is not the published one (sha256 {sha256}); "
            "replace the file by an unchanged copy"
        )


@lru_cache(maxsize=64)
def _checksum(path: Path, size: int, modified: int) -> str:  # noqa: ARG001 - keys of the cache
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _download(address: str, path: Path, sha256: str) -> Path:
    if urlsplit(address).scheme not in ("https", "file"):
        raise InvalidInput(f"TACIT_DATA_URL: {address} must begin with https:// or file://")
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256()
    try:
        with whole_file(path) as beside, beside.open("wb") as out:
            with urlopen(address, timeout=60) as stream:  # noqa: S310
                while block := stream.read(_BLOCK):
                    digest.update(block)
                    out.write(block)
            if digest.hexdigest() != sha256:
                raise InvalidInput(
                    f"{address}: has checksum {digest.hexdigest()}, expected {sha256}; "
                    "nothing was kept; point TACIT_DATA_URL at an unchanged copy"
                )
    except URLError as error:
        raise DataNotFound(
            f"{address}: cannot be fetched ({error.reason}); "
            "check TACIT_DATA_URL, or put the file in TACIT_DATA"
        ) from error
    return path
