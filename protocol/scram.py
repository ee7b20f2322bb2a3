"""SCRAM: the mechanisms of Kafka, and how a password becomes what a server keeps (RFC 5802).

    SaltedPassword = Hi(password, salt, iterations)
    ClientKey      = HMAC(SaltedPassword, "Client Key")      StoredKey = H(ClientKey)
    ServerKey      = HMAC(SaltedPassword, "Server Key")

The server keeps salt, iterations, StoredKey and ServerKey: enough to check a client and to prove itself to
it, and not enough to log in elsewhere. Kafka does not prepare passwords by SASLprep; they are text in UTF-8.
KIP-84, KIP-554.
"""

from __future__ import annotations

import hashlib
import hmac
from types import MappingProxyType
from typing import Final

import msgspec

__all__ = [
    "DEFAULT_ITERATIONS",
    "MAX_ITERATIONS",
    "MECHANISMS",
    "MECHANISM_BY_TYPE",
    "MIN_ITERATIONS",
    "ScramCredential",
    "ScramMechanism",
    "new_credential",
    "random_text",
    "salted_password",
]

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
DEFAULT_ITERATIONS: Final = 4096

_RANDOM_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramMechanism(msgspec.Struct, frozen=True):
    """type: its number in requests and records. name: as clients ask for it. digest: as hashlib calls it."""

    type: int
    name: str
    digest: str

    def hash(self, data: bytes) -> bytes:
        return hashlib.new(self.digest, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self.digest)

    @property
    def hash_bytes(self) -> int:
        """The length of a key, a signature and a proof."""
        return hashlib.new(self.digest).digest_size


MECHANISMS: Final = MappingProxyType(
    {
        each.name: each
        for each in (
            ScramMechanism(1, "SCRAM-SHA-256", "sha256"),
            ScramMechanism(2, "SCRAM-SHA-512", "sha512"),
        )
    }
)
"""By name."""

MECHANISM_BY_TYPE: Final = MappingProxyType({each.type: each for each in MECHANISMS.values()})


class ScramCredential(msgspec.Struct, frozen=True):
    """What a server keeps of a user's password. Its parts are shown nowhere."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return "ScramCredential([hidden])"


def salted_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Takes some milliseconds, as it is meant to. Raises ValueError for no iterations at all."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def new_credential(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """The credential of a user whose salted password this is."""
    client_key = mechanism.hmac(salted, b"Client Key")
    server_key = mechanism.hmac(salted, b"Server Key")
    return ScramCredential(salt, mechanism.hash(client_key), server_key, iterations)


def random_text(data: bytes) -> str:
    """A nonce or a salt as Kafka writes them: 130 bits in base 36. data: at least 17 random bytes."""
    number = int.from_bytes(data[:17], "big") >> (17 * 8 - _RANDOM_BITS)
    digits = []
    while number:
        number, digit = divmod(number, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"
