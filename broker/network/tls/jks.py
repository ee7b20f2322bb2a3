"""Key stores in Java's own older format, JKS: what `keytool` wrote before Java 9, and writes with
`-storetype JKS`.

    file         int32 magic 0xFEEDFEED, int32 version 1 or 2, int32 count, entries, 20 bytes of digest
    entry        int32 tag, utf alias, int64 date in ms, then by tag
      1          bytes key, int32 count, certificates           a private key and its certificates
      2          certificate                                    a certificate that is trusted
    certificate  utf type (version 2 only), bytes X.509
    utf          uint16 length, text
    bytes        int32 length, data

The digest is SHA-1 of the password in UTF-16, the words `Mighty Aphrodite`, and all before it; without a
password it is not checked, as in Java. The key is an EncryptedPrivateKeyInfo (SEQUENCE of algorithm and OCTET
STRING) of an algorithm of Sun's: 20 bytes of salt, the key XORed with a chain of digests of password and
salt, and the digest of password and key. All lengths are checked against what is there.
"""

from __future__ import annotations

import hmac
from hashlib import sha1
from typing import Final

import msgspec

from broker.security.der import SEQUENCE, DerFault, elements, object_identifier

__all__ = ["JKS_MAGIC", "JksFault", "JksStore", "PrivateEntry", "read_jks"]

JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"

_DIGEST_BYTES: Final = 20
_PRIVATE_KEY: Final = 1
_TRUSTED: Final = 2
_SUNS_ALGORITHM: Final = "1.3.6.1.4.1.42.2.17.1.1"


class JksFault(Exception):
    """The store cannot be read; the text says why."""


class PrivateEntry(msgspec.Struct, frozen=True):
    """A private key, still encrypted, and its certificates, the owner's first. All DER."""

    encrypted: bytes
    certificates: list[bytes]

    def key(self, password: str) -> bytes:
        """The private key (PKCS 8, DER). Raises JksFault."""
        try:
            algorithm, data = next(elements(self.encrypted)).children(SEQUENCE)
            kind = object_identifier(algorithm.children(SEQUENCE)[0].content)
        except (DerFault, StopIteration, ValueError, IndexError):
            raise JksFault("the private key in it is damaged") from None
        if kind != _SUNS_ALGORITHM or len(data.content) < 2 * _DIGEST_BYTES:
            raise JksFault(f"the private key in it is encrypted by an algorithm that is not known ({kind})")
        salt, secret = bytes(data.content[:_DIGEST_BYTES]), data.content[_DIGEST_BYTES:-_DIGEST_BYTES]
        words = password.encode("utf-16-be")
        stream, digest = bytearray(), salt
        while len(stream) < len(secret):
            digest = sha1(words + digest).digest()
            stream += digest
        key = bytes(a ^ b for a, b in zip(secret, stream, strict=False))
        if not hmac.compare_digest(sha1(words + key).digest(), bytes(data.content[-_DIGEST_BYTES:])):
            raise JksFault("the password of the private key is wrong")
        return key


class JksStore(msgspec.Struct):
    """What lies in a store: private keys, and certificates that are trusted, as DER."""

    keys: list[PrivateEntry]
    trusted: list[bytes]


def read_jks(data: bytes, password: str | None) -> JksStore:
    """Raises JksFault."""
    if len(data) < 12 + _DIGEST_BYTES or data[:4] != JKS_MAGIC:
        raise JksFault("it is no JKS store")
    if password is not None:
        digest = sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + data[:-_DIGEST_BYTES]).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise JksFault("the password is wrong, or the file is damaged")
    reader = _JksReader(data, len(data) - _DIGEST_BYTES)
    version = reader.number(4)
    if version not in (1, 2):
        raise JksFault(f"version {version} of JKS is not known")
    store = JksStore([], [])
    for _ in range(reader.number(4)):
        tag = reader.number(4)
        reader.take(reader.number(2))  # the alias
        reader.take(8)  # the date
        if tag == _PRIVATE_KEY:
            key = reader.take(reader.number(4))
            count = reader.number(4)
            store.keys.append(PrivateEntry(key, [reader.certificate(version) for _ in range(count)]))
        elif tag == _TRUSTED:
            store.trusted.append(reader.certificate(version))
        else:
            raise JksFault(f"an entry of the kind {tag} is not known")
    return store


class _JksReader:
    def __init__(self, data: bytes, end: int) -> None:
        self._data = data
        self._at = 4
        self._end = end

    def take(self, size: int) -> bytes:
        if size > self._end - self._at:
            raise JksFault("the file ends in the middle of an entry")
        part = self._data[self._at : self._at + size]
        self._at += size
        return part

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def certificate(self, version: int) -> bytes:
        if version == 2:
            self.take(self.number(2))
        return self.take(self.number(4))
