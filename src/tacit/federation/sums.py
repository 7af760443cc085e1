"""Secure sums: pairwise masks that cancel in the total and hide everything else.

For every call of a run each site makes a fresh X25519 key and signs it with the private key of its
kit; sites check each other's signatures against the federation's root, so that the server, which
passes keys on, cannot put its own in their place. Every pair of sites derives a stream from its
shared secret and from run, call and roster; the first of the pair adds it, the second subtracts
it, modulo 2⁶⁴. What a site sends is a whole number of steps of the mechanism's public grid: its
message with its share of the noise (`tacit.privacy.mechanisms.distributed`).

Guarantee: to whoever does not hold a site's keys, and knows neither all its partners' keys, its
masked message is indistinguishable from uniform words (X25519, HKDF-SHA-256 and ChaCha20 taken for
secure); the total of all sites of the roster is exact, as long as it is below 2⁶³ steps. A stream
is used for one vector only: keys, nonce and roster belong to one call of one run, and a site that
is asked the same call with another roster refuses. Another roster means another run: fresh keys,
fresh noise, charged again; two sums over S and S∖{i} with the same shares would show what i sent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._types import AnyArray, Array
from tacit.errors import InvalidInput
from tacit.federation.errors import Refused
from tacit.privacy.noise.entropy import Entropy

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["Identity", "book_digest", "fingerprint", "masked", "new_key", "total", "whole_steps"]

_LABEL = b"tacit secure sum 1"
_LARGEST = 1 << 62


@dataclass(frozen=True)
class Identity:
    """A party's long-lived key and certificate, and the root it trusts; all PEM."""

    name: str
    key: bytes
    certificate: bytes
    root: bytes

    @classmethod
    def of_kit(cls, name: str, startup: Path) -> Identity:
        """Read the identity of an NVFlare startup kit."""
        files = ("client.key", "client.crt", "rootCA.pem")
        return cls(name, *((startup / file).read_bytes() for file in files))

    def signed(self, about: bytes, public: bytes) -> dict[str, str]:
        """Return a page of the book: the public key, its signature and the certificate."""
        from cryptography.hazmat.primitives import serialization

        key: Any = serialization.load_pem_private_key(self.key, None)
        signature = key.sign(_claim(self.name, about, public), *_scheme(key.public_key()))
        return {
            "key": public.hex(),
            "signature": signature.hex(),
            "certificate": self.certificate.decode(),
        }

    def check(self, name: str, about: bytes, page: Any) -> bytes:
        """Return the public key on a page, or raise `Refused` unless ``name`` signed it."""
        from cryptography import x509
        from cryptography.exceptions import InvalidSignature

        try:
            certificate = x509.load_pem_x509_certificate(str(page["certificate"]).encode())
            root = x509.load_pem_x509_certificate(self.root)
            certificate.verify_directly_issued_by(root)
            _check_dates(name, certificate, root)
            names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
            if [part.value for part in names] != [name]:
                raise Refused(f"keys: the certificate of another party was shown for {name}")
            public, signature = bytes.fromhex(page["key"]), bytes.fromhex(page["signature"])
            known: Any = certificate.public_key()
            known.verify(signature, _claim(name, about, public), *_scheme(known))
        except (InvalidSignature, ValueError, KeyError, TypeError):
            raise Refused(f"keys: {name}'s key is not signed by {name} for this call") from None
        return public


def _check_dates(name: str, *certificates: x509.Certificate) -> None:
    """Refuse a party whose certificate, or whose root, is not valid today."""
    now = datetime.now(UTC)
    for one in certificates:
        first, last = one.not_valid_before_utc, one.not_valid_after_utc
        if not first <= now <= last:
            raise Refused(
                f"keys: a certificate behind {name}'s key holds from {first:%Y-%m-%d} to "
                f"{last:%Y-%m-%d} only; the party needs a new one"
            )


def _claim(name: str, about: bytes, public: bytes) -> bytes:
    return b"|".join((_LABEL, name.encode(), about, public))


def _scheme(public: Any) -> tuple[Any, ...]:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    if isinstance(public, rsa.RSAPublicKey):
        return padding.PSS(padding.MGF1(hashes.SHA256()), 32), hashes.SHA256()
    if isinstance(public, ec.EllipticCurvePublicKey):
        return (ec.ECDSA(hashes.SHA256()),)
    raise Refused("keys: a certificate must hold an RSA or an elliptic-curve key")


def new_key(entropy: Entropy) -> Any:
    """Return a fresh X25519 key; a run taken up again derives the same one for the same call."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(entropy.words(4).tobytes())


def fingerprint(certificate: str | bytes) -> str:
    """Return the hash of the key in a party's certificate, by which others know it again."""
    from cryptography import x509
    from cryptography.hazmat.primitives import serialization

    pem = certificate.encode() if isinstance(certificate, str) else certificate
    key = x509.load_pem_x509_certificate(pem).public_key()
    body = key.public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return "SHA256:" + hashlib.sha256(body).hexdigest()


def book_digest(book: dict[str, Any]) -> str:
    """Return the hash of a roster's keys: who takes part in a sum, with which keys."""
    keys = {name: page.get("key") for name, page in book.items() if isinstance(page, dict)}
    return hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()


def whole_steps(value: Array, step: float, n_sites: int) -> AnyArray:
    """Return a share as whole steps of the public grid; beyond what adds up exactly, cut off."""
    steps = np.asarray(value, dtype=np.float64) / step
    most = float(_LARGEST // n_sites)
    return np.clip(steps, -most, most).astype(np.int64)


def masked(
    steps: AnyArray, secret: Any, identity: Identity, book: dict[str, Any], about: bytes
) -> AnyArray:
    """Return whole steps with the masks of all pairs, uniform words modulo 2⁶⁴."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    public = {name: identity.check(name, about, book[name]) for name in sorted(book)}
    if public.get(identity.name) != secret.public_key().public_bytes_raw():
        raise Refused(f"keys: {identity.name}'s own key is not the one it made for this call")
    if len(book) < 2:
        raise InvalidInput("keys: a sum of one site hides nothing")
    scope = about + book_digest(book).encode()
    words = np.ascontiguousarray(steps).view(np.uint64).copy()
    for name, key in public.items():
        if name == identity.name:
            continue
        try:
            shared = secret.exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError:
            raise Refused(f"keys: {name} signed something that is no key") from None
        mask = _stream(shared, scope, words.size).reshape(words.shape)
        words = words + mask if identity.name < name else words - mask
    return words


def _stream(shared: bytes, scope: bytes, count: int) -> AnyArray:
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    derived = HKDF(hashes.SHA256(), 32, None, _LABEL + scope).derive(shared)
    # The key is used for this stream alone, so a constant nonce repeats nothing.
    cipher = Cipher(algorithms.ChaCha20(derived, bytes(16)), mode=None)
    return np.frombuffer(cipher.encryptor().update(bytes(8 * count)), dtype="<u8")


def total(parts: list[AnyArray], step: float) -> Array:
    """Return the sum of all sites' masked messages, in which the masks are gone."""
    words = np.zeros(parts[0].shape, dtype=np.uint64)
    for part in parts:
        words = words + part
    return words.view(np.int64) * step
