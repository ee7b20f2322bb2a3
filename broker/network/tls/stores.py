"""Key stores and trust stores: files or texts of the config, opened and checked for OpenSSL.

What a file holds is seen in its bytes, because the type that the config names is often wrong: `keytool`
writes PKCS12 where JKS is said. PEM and JKS need nothing; PKCS12 wants the package `cryptography`, which is
imported when such a store is opened. Where a store holds several keys the first one is taken.

OpenSSL reads a private key from a file only. What came out of another store, or out of the config itself, is
given to it as a file in memory, or where there is none as a file that only this user may read, and that is
deleted at once.

To decrypt a store takes up to a tenth of a second, because its format makes it slow on purpose, and many
changes of the configs ask for the same ones again. So a store whose settings and bytes are those of one that
was opened lately is not opened again.
"""

from __future__ import annotations

import os
import re
from base64 import encodebytes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from ssl import DER_cert_to_PEM_cert, PEM_cert_to_DER_cert
from stat import S_ISREG
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.network.tls.jks import JKS_MAGIC, JksFault, JksStore, read_jks
from config.limits import MIB
from config.tls_settings import StoreSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

__all__ = ["KeyPem", "StoreRefused", "Stores", "as_file", "open_key_store", "open_trust_store"]

_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_STORE_BYTES: Final = 16 * MIB
"""More than any store; a larger file is something else."""

_PEM_LINE: Final = 64
_MARKS: Final = re.compile(rb"(-----(?:BEGIN|END) [A-Z ]+-----)")
_REMEMBERED: Final = 8
"""How many key stores, and how many trust stores, are not opened again; a node seldom has more than two."""

_PEM: Final = b"-----BEGIN "
_DER_SEQUENCE: Final = 0x30
_KEY: Final = re.compile(rb"-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)


class StoreRefused(OSError):
    """A store that cannot be used; the text names the config, the file and the reason."""


class KeyPem(NamedTuple):
    """A private key and its certificates, the node's own first, as PEM. password: of the key, if it has
    one."""

    pem: bytes
    password: str | None

    def __repr__(self) -> str:
        """Without secrets."""
        return f"KeyPem of {len(self.pem)} bytes"

    @property
    def certificate(self) -> bytes:
        """The node's own certificate, as DER. Raises ValueError."""
        first = _CERTIFICATE.search(self.pem)
        return b"" if first is None else PEM_cert_to_DER_cert(first[0].decode("ascii"))


class Stores(NamedTuple):
    """What the stores of one listener hold. trusted: certificates as PEM."""

    key: KeyPem | None
    trusted: str | None


def open_key_store(store: StoreSettings) -> KeyPem | None:
    """The key and the certificates of a key store; None if none is configured. Raises StoreRefused."""
    if store.location is None:
        if store.key is None or store.certificates is None:
            return None
        where, data = "ssl.keystore.key", f"{store.key}\n{store.certificates}\n".encode()
    else:
        where, data = f"{store.config}.location={store.location}", _read(store)
    return _key_in(store, where, data)


@lru_cache(maxsize=_REMEMBERED)
def _key_in(store: StoreSettings, where: str, data: bytes) -> KeyPem:
    if data.startswith(JKS_MAGIC) and store.type != "PEM":
        return _key_of_jks(store, where, data)
    if not _is_pem(store, where, data):
        return _key_of_pkcs12(store, where, data)
    key, certificates = _KEY.search(data), _CERTIFICATE.findall(data)
    if key is None:
        raise StoreRefused(f"{where}: there is no private key in it")
    if not certificates:
        raise StoreRefused(f"{where}: there is no certificate in it")
    is_encrypted = b"ENCRYPTED" in key[0]
    if is_encrypted and store.key_password is None:
        raise StoreRefused(f"{where}: the private key is encrypted: set ssl.key.password")
    pem = b"".join(map(_in_lines, (key[0], *certificates)))
    return KeyPem(pem, store.key_password if is_encrypted else None)


def open_trust_store(store: StoreSettings) -> str | None:
    """The certificates of a trust store as PEM; None if none is configured. Raises StoreRefused."""
    if store.location is None:
        if store.certificates is None:
            return None
        where, data = "ssl.truststore.certificates", store.certificates.encode()
    else:
        where, data = f"{store.config}.location={store.location}", _read(store)
    return _trusted_in(store, where, data)


@lru_cache(maxsize=_REMEMBERED)
def _trusted_in(store: StoreSettings, where: str, data: bytes) -> str:
    if data.startswith(JKS_MAGIC) and store.type != "PEM":
        return _pem_of(_jks(store, where, data).trusted, where)
    if not _is_pem(store, where, data):
        return _certificates_of_pkcs12(store, where, data)
    certificates = _CERTIFICATE.findall(data)
    if not certificates:
        raise StoreRefused(f"{where}: there is no certificate in it")
    return b"".join(map(_in_lines, certificates)).decode("ascii", "replace")


def _in_lines(block: bytes) -> bytes:
    """A block of PEM in lines, as OpenSSL wants it. A text that a properties file continues behind
    backslashes has spaces in their place, and Kafka takes that."""
    parts = _MARKS.split(block)
    if len(parts) != 5 or b":" in parts[2]:  # headers of an older kind of encryption: their lines count
        return block + b"\n"
    _, begin, body, end, _ = parts
    text = b"".join(body.split())
    lines = [text[at : at + _PEM_LINE] for at in range(0, len(text), _PEM_LINE)]
    return b"\n".join((begin, *lines, end, b""))


def _read(store: StoreSettings) -> bytes:
    path = Path(store.location or "")
    try:
        with open(path, "rb", opener=_without_waiting) as stream:
            if not S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise StoreRefused(f"{store.config}.location={path} is no regular file")
            data = stream.read(_STORE_BYTES + 1)
    except StoreRefused:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise StoreRefused(f"{store.config}.location={path} cannot be read: {reason}") from None
    if len(data) > _STORE_BYTES:
        raise StoreRefused(f"{store.config}.location={path} has more than {_STORE_BYTES} bytes: no store")
    return data


def _without_waiting(path: str, flags: int) -> int:
    """Opens a file as `open` does. A pipe without a writer is open at once, instead of holding up all else
    until there is one."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


def _is_pem(store: StoreSettings, where: str, data: bytes) -> bool:
    """Whether the store is PEM, as its type and its bytes say; they must not contradict each other."""
    looks_like_pem = _PEM in data
    if store.type == "PEM":
        if not looks_like_pem:
            raise StoreRefused(f"{where}: it is no PEM file, and {store.config}.type says PEM")
        return True
    if looks_like_pem and data[0] != _DER_SEQUENCE:
        raise StoreRefused(f"{where}: it is a PEM file: set {store.config}.type=PEM")
    if not data or data[0] != _DER_SEQUENCE:
        raise StoreRefused(f"{where}: it is neither PKCS12 nor JKS nor PEM, judging by its first bytes")
    return False


def _pem_of(certificates: Sequence[bytes], where: str) -> str:
    if not certificates:
        raise StoreRefused(f"{where}: there is no certificate in it")
    return "".join(map(DER_cert_to_PEM_cert, certificates))


# JKS


def _key_of_jks(store: StoreSettings, where: str, data: bytes) -> KeyPem:
    entries = _jks(store, where, data).keys
    if not entries:
        raise StoreRefused(f"{where}: there is no private key in it")
    password = store.key_password if store.key_password is not None else store.password
    try:
        key = entries[0].key(password or "")
    except JksFault as fault:
        raise StoreRefused(f"{where}: {fault} (ssl.key.password, or else ssl.keystore.password)") from None
    lines = encodebytes(key).decode()
    pem = f"-----BEGIN PRIVATE KEY-----\n{lines}-----END PRIVATE KEY-----\n"
    return KeyPem((pem + _pem_of(entries[0].certificates, where)).encode(), None)


def _jks(store: StoreSettings, where: str, data: bytes) -> JksStore:
    try:
        return read_jks(data, store.password)
    except JksFault as fault:
        raise StoreRefused(f"{where}: cannot be opened: {fault} ({store.config}.password)") from None


# PKCS12


def _key_of_pkcs12(store: StoreSettings, where: str, data: bytes) -> KeyPem:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    found = _pkcs12(store, where, data)
    if found.key is None or found.cert is None:
        raise StoreRefused(f"{where}: there is no private key in it")
    chain = [found.cert.certificate]
    others = [each.certificate for each in found.additional_certs]
    while issuers := [each for each in others if each.subject == chain[-1].issuer and each not in chain]:
        chain.append(issuers[0])
    key = found.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPem(key + b"".join(each.public_bytes(Encoding.PEM) for each in chain), None)


def _certificates_of_pkcs12(store: StoreSettings, where: str, data: bytes) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    found = _pkcs12(store, where, data)
    bags = found.additional_certs if found.cert is None else [found.cert, *found.additional_certs]
    if not bags:
        raise StoreRefused(f"{where}: there is no certificate in it")
    return b"".join(each.certificate.public_bytes(Encoding.PEM) for each in bags).decode()


def _pkcs12(store: StoreSettings, where: str, data: bytes) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12

    password = None if store.password is None else store.password.encode()
    try:
        return load_pkcs12(data, password)
    except ValueError:
        reason = "is not set" if password is None else "is wrong, or the file is damaged"
        raise StoreRefused(f"{where}: cannot be opened: {store.config}.password {reason}") from None
    except Exception as problem:  # what the library does not know is told by more than one class
        raise StoreRefused(f"{where}: cannot be opened: {type(problem).__name__}: {problem}") from None


@contextmanager
def as_file(data: bytes) -> Iterator[str]:
    """The path of a file with these bytes, which nobody else may read and which is gone afterwards."""
    if hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd"):
        descriptor = os.memfd_create("barnabas-key")
        path = f"/proc/self/fd/{descriptor}"
    else:
        import tempfile  # the import takes 2 ms, and few machines need it

        descriptor, path = tempfile.mkstemp()
    try:
        with open(descriptor, "wb", closefd=False) as stream:
            stream.write(data)
        yield path
    finally:
        if not path.startswith("/proc/"):
            with suppress(OSError):
                os.unlink(path)
        os.close(descriptor)
