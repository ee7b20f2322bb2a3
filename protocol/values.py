"""Values of the protocol that have a text form: topic ids, directory ids and other UUIDs.

Kafka prints a UUID as url-safe base64 of its 16 bytes without padding, always 22 characters, e.g.
`AAAAAAAAAAAAAAAAAAAAAA` for the zero id. Here a UUID is its 16 raw bytes, as it travels.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import Final

from protocol.primitives import Uuid

__all__ = ["METADATA_TOPIC_ID", "ONE_UUID", "ZERO_UUID", "uuid_from_text", "uuid_to_text"]

UUID_SIZE_BYTES: Final = 16
UUID_TEXT_LENGTH: Final = 22

ZERO_UUID: Final[Uuid] = bytes(16)
"""No id: the default of every id field. As a directory id: unassigned."""

ONE_UUID: Final[Uuid] = bytes(15) + b"\x01"
"""The id 1, which is reserved. As a directory id it stands for a lost directory (KIP-858)."""

METADATA_TOPIC_ID: Final[Uuid] = ONE_UUID
"""The fixed topic id of `__cluster_metadata`."""


def uuid_to_text(uuid: Uuid) -> str:
    """The text of a UUID: the 22 characters of its 16 bytes in url-safe base64."""
    if len(uuid) != UUID_SIZE_BYTES:
        raise ValueError(f"a UUID has {UUID_SIZE_BYTES} bytes, this one has {len(uuid)}")
    return urlsafe_b64encode(uuid)[:UUID_TEXT_LENGTH].decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    """16 raw bytes for a text such as `uuid_to_text` makes; a ValueError for any other."""
    if len(text) not in (UUID_TEXT_LENGTH, UUID_TEXT_LENGTH + 2):
        raise ValueError(f"a UUID in text has {UUID_TEXT_LENGTH} characters, {text!r} has {len(text)}")
    try:
        uuid = urlsafe_b64decode(text[:UUID_TEXT_LENGTH] + "==")
    except (Base64Error, ValueError):
        raise ValueError(f"{text!r} is not a UUID in url-safe base64") from None
    if len(uuid) != UUID_SIZE_BYTES:
        raise ValueError(f"{text!r} is not a UUID in url-safe base64")
    return uuid
