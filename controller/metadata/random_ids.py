"""Random UUIDs for topics, directories, clusters and the incarnations of brokers and controllers."""

from __future__ import annotations

from config.ports import RandomSource
from protocol.values import ONE_UUID, ZERO_UUID, uuid_to_text

__all__ = ["random_uuid"]


def random_uuid(random_source: RandomSource) -> bytes:
    """The 16 bytes of a version 4 UUID. It is none of the reserved ones, and its text does not begin with a
    dash, which would look like an option on a command line."""
    while True:
        raw = bytearray(random_source.random_bytes(16))
        raw[6] = raw[6] & 0x0F | 0x40  # version 4
        raw[8] = raw[8] & 0x3F | 0x80  # variant of RFC 9562
        candidate = bytes(raw)
        if candidate not in (ZERO_UUID, ONE_UUID) and not uuid_to_text(candidate).startswith("-"):
            return candidate
