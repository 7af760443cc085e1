"""A root and certificates for sites that have no kit: simulations and tests."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from typing import Any

from tacit.federation.sums import Identity

__all__ = ["make_identities"]

_VALID = datetime.timedelta(days=2)


def make_identities(
    names: Iterable[str], *, now: datetime.datetime | None = None
) -> dict[str, Identity]:
    """Return an identity for every name, all under one fresh root whose key is forgotten.

    Certificates hold for two days around ``now``.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    root_key = ec.generate_private_key(ec.SECP256R1())
    today = now or datetime.datetime.now(datetime.UTC)
    root = _certificate("root", root_key.public_key(), root_key, today, authority=True)
    found = {}
    for name in names:
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _certificate(name, key.public_key(), root_key, today, authority=False)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        found[name] = Identity(name, private, _pem(signed), _pem(root))
    return found


def _pem(certificate: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    pem: bytes = certificate.public_bytes(serialization.Encoding.PEM)
    return pem


def _certificate(
    name: str, public: Any, key: Any, now: datetime.datetime, *, authority: bool
) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    def named(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    return (
        x509.CertificateBuilder()
        .subject_name(named(name))
        .issuer_name(named("root"))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _VALID)
        .not_valid_after(now + _VALID)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
