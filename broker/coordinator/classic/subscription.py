"""The topics that a member's metadata names, as far as the coordinator needs to know them.

A consumer's metadata begins, in every version of the embedded protocol, with the fields of version 0:

    int16 version | int32 count | count times: int16 length, topic name in UTF-8 | …

Only that prefix is read, so later versions need no change here. If the metadata cannot be parsed the group
works, and its subscription counts as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

_HEAD: Final = Struct(">hi")
_LENGTH: Final = Struct(">h")


def subscribed_topics(metadata_of_members: Iterable[bytes]) -> frozenset[str] | None:
    """All topics that the members name together; None if the metadata of one of them cannot be read."""
    topics: set[str] = set()
    for metadata in metadata_of_members:
        named = _topics(metadata)
        if named is None:
            return None
        topics.update(named)
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str] | None:
    if len(metadata) < _HEAD.size:
        return None
    version, count = _HEAD.unpack_from(metadata)
    if version < 0 or not 0 <= count <= len(metadata) // _LENGTH.size:
        return None
    topics: list[str] = []
    position = _HEAD.size
    for _ in range(count):
        if position + _LENGTH.size > len(metadata):
            return None
        (length,) = _LENGTH.unpack_from(metadata, position)
        position += _LENGTH.size
        name = metadata[position : position + length] if length >= 0 else b""
        if length < 0 or len(name) < length:
            return None
        try:
            topics.append(name.decode())
        except UnicodeDecodeError:
            return None
        position += length
    return topics
