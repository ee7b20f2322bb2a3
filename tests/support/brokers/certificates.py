"""Certificates that tests make at run time: an authority, servers and clients that it vouches for, and the
files from which brokers and clients read them."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

DAY: Final = dt.timedelta(days=1)
Key = ec.EllipticCurvePrivateKey


def encryption(password: str | None) -> KeySerializationEncryption:
    return NoEncryption() if password is None else BestAvailableEncryption(password.encode())


class Identity:
    """A key and its certificate."""

    def __init__(self, key: Key, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def key_pem(self, password: str | None = None) -> str:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption(password)).decode()

    def write_pem(self, path: Path, password: str | None = None) -> str:
        """Key and certificate in one file; its name."""
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return str(path)

    def write_pkcs12(self, path: Path, password: str, chain: Sequence[x509.Certificate] = ()) -> str:
        data = pkcs12.serialize_key_and_certificates(
            b"broker", self.key, self.certificate, chain, encryption(password)
        )
        path.write_bytes(data)
        return str(path)


class Authority(Identity):
    """A certificate authority of its own."""

    def __init__(self, name: str = "Barnabas test authority") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        super().__init__(key, _certificate(subject, key, subject, key, is_authority=True))

    def issue(
        self,
        name: str | x509.Name,
        *,
        hosts: Sequence[str] = ("127.0.0.1", "localhost"),
        is_expired: bool = False,
    ) -> Identity:
        """name: the common name, or a whole name."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = name
        if isinstance(subject, str):
            subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)])
        certificate = _certificate(
            subject, key, self.certificate.subject, self.key, hosts=hosts, is_expired=is_expired
        )
        return Identity(key, certificate)

    def write_certificate(self, path: Path) -> str:
        path.write_text(self.certificate_pem)
        return str(path)


@cache
def authority() -> Authority:
    """One authority for all tests of a process."""
    return Authority()


def _certificate(
    subject: x509.Name,
    key: Key,
    issuer: x509.Name,
    issuer_key: Key,
    *,
    hosts: Sequence[str] = (),
    is_authority: bool = False,
    is_expired: bool = False,
) -> x509.Certificate:
    now = dt.datetime.now(dt.UTC)
    end = now - DAY if is_expired else now + 30 * DAY
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * DAY)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if hosts:
        names = [_general_name(host) for host in hosts]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
