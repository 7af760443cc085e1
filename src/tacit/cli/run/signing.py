"""A signature over a run's seal, for those who must know who wrote it.

Ed25519 (RFC 8032): whoever has the public key can check and nobody but the holder of the private
one can sign. A keyed hash from the standard library would have saved a dependency, but then each
party that can check could forge as well.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from tacit._files import write_whole
from tacit.cli.run.seal import SEAL, SIGNATURE
from tacit.errors import InvalidInput, ModelFileError

__all__ = ["check_signature", "make_key", "sign"]

_FORMAT = "tacit signature 1"


def _library() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise InvalidInput(
            "--key: signing needs a library; install it with pip install 'tacit[sign]'"
        ) from None
    return serialization, ed25519


def make_key(path: Path) -> Path:
    """Make a private key, readable by its owner alone, and its public key beside it."""
    serialization, ed25519 = _library()
    if path.exists():
        raise InvalidInput(f"--make-key: {path} exists already; a key is never overwritten")
    key = ed25519.Ed25519PrivateKey.generate()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
    public = path.with_name(path.name + ".pub")
    write_whole(public, _public_text(key.public_key()))
    return public


def _public_text(key: Any) -> str:
    serialization, _ = _library()
    text: bytes = key.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return text.decode()


def _key(path: Path, *, private: bool) -> Any:
    serialization, ed25519 = _library()
    content = path.read_bytes()
    try:
        if private:
            key = serialization.load_pem_private_key(content, password=None)
        else:
            key = serialization.load_pem_public_key(content)
    except (ValueError, TypeError) as error:
        word = "private" if private else "public"
        raise InvalidInput(f"--key {path}: is no {word} key in PEM ({error})") from None
    kinds = ed25519.Ed25519PrivateKey if private else ed25519.Ed25519PublicKey
    if not isinstance(key, kinds):
        raise InvalidInput(f"--key {path}: must be an Ed25519 key; make one with --make-key")
    return key


def sign(folder: Path, key: Path) -> None:
    """Sign the bytes of the seal."""
    secret = _key(key, private=True)
    signature = secret.sign((folder / SEAL).read_bytes())
    body = {
        "format": _FORMAT,
        "public_key": _public_text(secret.public_key()),
        "signature": base64.b64encode(signature).decode(),
    }
    write_whole(folder / SIGNATURE, json.dumps(body, indent=2) + "\n")


def check_signature(folder: Path, key: Path) -> None:
    """Raise `ModelFileError` unless the holder of the public ``key`` signed the seal."""
    public = _key(key, private=False)
    from cryptography.exceptions import InvalidSignature

    file = folder / SIGNATURE
    if not file.exists():
        raise ModelFileError(f"{folder}: is not signed; sign it with tacit sign")
    try:
        signature = base64.b64decode(json.loads(file.read_text(encoding="utf-8"))["signature"])
        public.verify(signature, (folder / SEAL).read_bytes())
    except (InvalidSignature, ValueError, KeyError, TypeError):
        raise ModelFileError(
            f"{file}: is no signature of the seal by {key}; the folder was changed after it was "
            "signed, or somebody else signed it"
        ) from None
