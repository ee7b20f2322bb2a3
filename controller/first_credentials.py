"""SCRAM credentials with which a cluster begins: the option --add-scram of `storage format` (KIP-900).

    SCRAM-SHA-256=[name=admin,password=secret]
    SCRAM-SHA-512=[name=admin,iterations=8192,salt=BASE64,saltedpassword=BASE64]

They are in the bootstrap records, so that brokers can authenticate to each other before anybody could have
set a password. Error messages repeat neither passwords nor salts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Final

from config.ports import RandomSource
from controller.metadata.image.scram import credential_record
from protocol.metadata_log.security import UserScramCredentialRecord
from protocol.scram import (
    DEFAULT_ITERATIONS,
    MAX_ITERATIONS,
    MECHANISMS,
    MIN_ITERATIONS,
    ScramMechanism,
    new_credential,
    random_text,
    salted_password,
)

__all__ = ["MalformedCredential", "parse_first_credentials"]

_KNOWN: Final = ("name", "salt", "iterations", "password", "saltedpassword")
_RANDOM_BYTES: Final = 17


class MalformedCredential(Exception):
    """The option cannot be read. The text is one line for the user."""


def parse_first_credentials(
    options: Sequence[str], random_source: RandomSource
) -> list[UserScramCredentialRecord]:
    """A record for each option. Raises MalformedCredential."""
    return [_record_of(option.strip(), random_source) for option in options]


def _record_of(option: str, random_source: RandomSource) -> UserScramCredentialRecord:
    name, equals, rest = option.partition("=")
    if not equals:
        raise MalformedCredential("Failed to find equals sign in SCRAM argument: it must look like "
                                  "SCRAM-SHA-256=[name=alice,password=secret]")  # fmt: skip
    mechanism = MECHANISMS.get(name)
    if mechanism is None:
        raise MalformedCredential(f"The add-scram mechanism {name} is not supported.")
    if not rest.startswith("["):
        raise MalformedCredential("Expected configuration string to start with [")
    if not rest.endswith("]"):
        raise MalformedCredential("Expected configuration string to end with ]")
    return _credential(mechanism, _parts(rest[1:-1]), random_source)


def _parts(text: str) -> dict[str, str]:
    parts = {}
    for component in text.split(","):
        key, equals, value = component.partition("=")
        if not equals:
            raise MalformedCredential("No equals sign found in a SCRAM component: each is NAME=VALUE")
        if len(value) >= 2 and value.startswith('"') and value.endswith('"'):
            value = value[1:-1]
        parts[key] = value
    unknown = sorted(set(parts).difference(_KNOWN))
    if unknown:
        raise MalformedCredential(f"Unknown SCRAM configurations: {', '.join(unknown)}")
    return parts


def _credential(
    mechanism: ScramMechanism, parts: dict[str, str], random_source: RandomSource
) -> UserScramCredentialRecord:
    if not parts.get("name"):
        raise MalformedCredential("You must supply 'name' to add-scram")
    iterations = _iterations(mechanism, parts)
    salt = _decoded(parts, "salt")
    if salt is None:
        salt = random_text(random_source.random_bytes(_RANDOM_BYTES)).encode()
    password = parts.get("password")
    if password is not None:
        salted = salted_password(mechanism, password, salt, iterations)
    elif "saltedpassword" not in parts:
        raise MalformedCredential("You must supply one of 'password' or 'saltedpassword' to add-scram")
    elif "salt" not in parts:
        raise MalformedCredential("You must supply 'salt' with 'saltedpassword' to add-scram")
    else:
        salted = _decoded(parts, "saltedpassword") or b""
    if not salted:
        raise MalformedCredential("The 'saltedpassword' of add-scram is empty")
    return credential_record(
        mechanism.type, parts["name"], new_credential(mechanism, salted, salt, iterations)
    )


def _iterations(mechanism: ScramMechanism, parts: dict[str, str]) -> int:
    text = parts.get("iterations", str(DEFAULT_ITERATIONS))
    if re.fullmatch(r"[+-]?[0-9]{1,10}", text) is None:
        raise MalformedCredential(f"Failed to parse iterations count: {text}")
    iterations = int(text)
    if iterations < MIN_ITERATIONS:
        least = f"The 'iterations' value must be >= {MIN_ITERATIONS} for add-scram using {mechanism.name}"
        raise MalformedCredential(least)
    if iterations > MAX_ITERATIONS:
        most = f"The 'iterations' value must be <= {MAX_ITERATIONS} for add-scram using {mechanism.name}"
        raise MalformedCredential(most)
    return iterations


def _decoded(parts: dict[str, str], key: str) -> bytes | None:
    if key not in parts:
        return None
    try:
        return base64.b64decode(parts[key], validate=True)
    except binascii.Error:
        raise MalformedCredential(f"Failed to decode given {key}: it is not in base 64") from None
