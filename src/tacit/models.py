"""Model files: arrays in an npz, everything else in a JSON manifest; never pickle.

A model folder holds ``manifest.json`` and one ``arrays-….npz``, and may hold other files (a
ledger, a report), which are left alone. The manifest is put in place last, by one rename, and
names its arrays file by content: a crash leaves the old model or the new one, never a mixture.
Checksums find damage and edits by hand; they are no proof of who wrote the file.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tacit._files import file_named_by, write_whole
from tacit._types import AnyArray
from tacit._version import __version__
from tacit.errors import InvalidInput, ModelFileError

__all__ = ["FORMAT_VERSION", "read", "save"]

FORMAT_VERSION = 1

_FORMAT = "tacit-model"
_MANIFEST = "manifest.json"
_RESERVED = ("__tuple__", "__float__")
_ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_ARRAYS_FILE = re.compile(r"arrays-[0-9a-f]{16}\.npz")


def save(
    directory: str | PathLike[str],
    *,
    kind: str,
    manifest: Mapping[str, Any],
    arrays: Mapping[str, AnyArray],
) -> None:
    """Write a model folder, replacing the model that is there, if any.

    Parameters
    ----------
    directory : path
        Folder of the model; made if it is not there.
    kind : str
        What the model is, for example the estimator's name.
    manifest : mapping of str
        Values of JSON and tuples of them; floats may be infinite or NaN. All come back exactly,
        tuples as tuples.
    arrays : mapping of str to array
        Arrays of numbers, booleans or fixed-width text; they come back bit for bit.
    """
    _check_arrays(arrays)
    encoded = _encode(dict(manifest), "manifest")
    folder = Path(directory)
    if folder.exists() and not folder.is_dir():
        raise ModelFileError(f"{folder}: is a file; name a folder for the model")
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / _MANIFEST).exists():
        _open_manifest(folder)
    packed, digest = _pack(folder, arrays)
    body = {
        "format": _FORMAT,
        "format_version": FORMAT_VERSION,
        "tacit_version": __version__,
        "kind": kind,
        "arrays": {"file": packed, "sha256": digest},
        "manifest": encoded,
    }
    body["sha256"] = _checksum(body)
    write_whole(folder / _MANIFEST, json.dumps(body, indent=2) + "\n")
    for file in folder.glob("arrays-*.npz"):
        if file.name != body["arrays"]["file"] and _ARRAYS_FILE.fullmatch(file.name):
            file.unlink()


def read(directory: str | PathLike[str]) -> tuple[str, dict[str, Any], dict[str, AnyArray]]:
    """Read a model folder: its kind, manifest and arrays, exactly as they were saved."""
    folder = Path(directory)
    body = _open_manifest(folder)
    version = body.get("format_version")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{folder}: format version {version!r} was written by tacit "
            f"{body.get('tacit_version')}, this is {__version__}; "
            "upgrade with: pip install --upgrade tacit"
        )
    if body.pop("sha256", None) != _checksum(body):
        raise ModelFileError(
            f"{folder / _MANIFEST}: was changed after it was saved; "
            "restore it from a copy or save the model again"
        )
    arrays = _unpack(folder / body["arrays"]["file"], body["arrays"]["sha256"])
    return body["kind"], _decode(body["manifest"]), arrays


def _open_manifest(folder: Path) -> dict[str, Any]:
    path = folder / _MANIFEST
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise ModelFileError(
            f"{folder}: holds no model ({_MANIFEST} is missing); "
            "pass the folder that was given to save"
        ) from None
    try:
        body = json.loads(text)
    except ValueError:
        raise ModelFileError(
            f"{path}: is damaged (not JSON); restore it from a copy, "
            "or delete it and save the model again"
        ) from None
    if not isinstance(body, dict) or body.get("format") != _FORMAT:
        raise ModelFileError(f"{path}: was not written by tacit; choose another folder")
    return body


def _checksum(body: Mapping[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _check_arrays(arrays: Mapping[str, AnyArray]) -> None:
    for name, array in arrays.items():
        if not _ARRAY_NAME.fullmatch(name):
            raise InvalidInput(f"arrays: {name!r} is no usable name; use letters and digits")
        if np.asanyarray(array).dtype.hasobject:
            raise InvalidInput(f"arrays: {name!r} holds Python objects; put them in the manifest")


def _pack(folder: Path, arrays: Mapping[str, AnyArray]) -> tuple[str, str]:
    """Write an npz whose bytes depend on the arrays alone; return its name and its digest.

    Arrays may be mapped from files larger than memory: they are written a part at a time.
    """
    digests = []

    def write(path: Path) -> str:
        with zipfile.ZipFile(path, "w") as archive:
            for name in sorted(arrays):
                array = np.asanyarray(arrays[name])
                # A fixed time stamp: the same arrays are the same bytes.
                with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
        return f"arrays-{digests[0][:16]}.npz"

    return file_named_by(folder, write), digests[0]


def _unpack(path: Path, digest: str) -> dict[str, AnyArray]:
    try:
        packed = path.read_bytes()
    except FileNotFoundError:
        raise ModelFileError(
            f"{path}: is missing; copy the whole folder, or save the model again"
        ) from None
    if hashlib.sha256(packed).hexdigest() != digest:
        raise ModelFileError(
            f"{path}: is truncated or was changed after it was saved; "
            "restore it from a copy or save the model again"
        )
    with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def _encode(value: Any, where: str) -> Any:
    """Plain JSON for a value; tuples and non-finite floats are tagged."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return _encode(value.item(), where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else {"__float__": repr(value)}
    if isinstance(value, tuple):
        return {"__tuple__": [_encode(part, where) for part in value]}
    if isinstance(value, list):
        return [_encode(part, where) for part in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key in _RESERVED:
                raise InvalidInput(f"{where}: key {key!r} cannot be stored; use plain strings")
        return {key: _encode(part, f"{where}[{key!r}]") for key, part in value.items()}
    raise InvalidInput(
        f"{where}: {value!r} of type {type(value).__name__} cannot be stored; "
        "use text, numbers, booleans, None, lists, tuples or dicts of them"
    )


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(part) for part in value]
    if isinstance(value, dict):
        if "__tuple__" in value:
            return tuple(_decode(part) for part in value["__tuple__"])
        if "__float__" in value:
            return float(value["__float__"])
        return {key: _decode(part) for key, part in value.items()}
    return value
