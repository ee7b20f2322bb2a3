"""The keys of `__consumer_offsets`, and how a value's version is read.

    key    int16 type | fields              value  int16 version | fields

    type   key                              value                                written by
    0      group, topic, partition          an offset, before Kafka 0.9; only read
    1      group, topic, partition          an offset                            `offsets.offset_records`
    2      group                            a classic group                      `classic.group_records`
    3…8    group, and more                  consumer groups                      `consumer_group_records`
    16     group, expression                what an expression matches           the same
    9…23   group, and more                  share and streams groups, which are left alone

A value of null is a tombstone: the offset, or the group, is gone. Keys are compared as bytes, by the cleaner
and while loading, so a key has exactly one form. Keys are read by hand, since loading reads a million of
them.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from protocol.codec.compiler import encode
from protocol.errors import ProtocolError
from protocol.group_log.classic_groups import GroupMetadataKey
from protocol.group_log.offsets import OffsetCommitKey

LEGACY_OFFSET: Final = 0
OFFSET: Final = 1
GROUP: Final = 2
OFFSET_KEY_PREFIX: Final = b"\x00\x01"
PARTITION_BYTES: Final = 4
"""The size of the partition, which is the end of an offset's key."""
NEWEST_KNOWN_KIND: Final = 23
"""Kinds 3 to 23 belong to consumer, share and streams groups; their keys begin with the group's id."""

SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")


class GroupKey(NamedTuple):
    """A decoded key. Topic and partition are "" and -1 in the key of a group."""

    kind: int
    group: str
    topic: str
    partition: int


def read_key(key: bytes) -> GroupKey | None:
    """Decodes a key. None for a type that this coordinator does not know. Raises ProtocolError for bytes that
    are no key."""
    try:
        (kind,) = SHORT.unpack_from(key)
        if not 0 <= kind <= GROUP:
            return None
        (length,) = SHORT.unpack_from(key, 2)
        position = 4 + length
        if length < 0 or position > len(key):
            raise ProtocolError(f"a key of {len(key)} bytes names a group of {length} bytes")
        group = key[4:position].decode()
        if kind == GROUP:
            return GroupKey(kind, group, "", -1)
        (length,) = SHORT.unpack_from(key, position)
        start = position + 2
        position = start + length
        if length < 0:
            raise ProtocolError(f"a key of {len(key)} bytes names a topic of {length} bytes")
        topic = key[start:position].decode()
        (partition,) = _INT.unpack_from(key, position)
    except (struct_error, UnicodeDecodeError) as error:
        raise ProtocolError(f"a key of {len(key)} bytes cannot be read: {error}") from None
    return GroupKey(kind, group, topic, partition)


def newer_group(key: bytes) -> str | None:
    """The group that a key of type 3 to 23 names; None for any other key."""
    if len(key) < 2 * SHORT.size:
        return None
    (kind,), (length,) = SHORT.unpack_from(key), SHORT.unpack_from(key, 2)
    if not GROUP < kind <= NEWEST_KNOWN_KIND or not 0 <= length <= len(key) - 4:
        return None
    try:
        return key[4 : 4 + length].decode()
    except UnicodeDecodeError:
        return None


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return SHORT.pack(OFFSET) + encode(OffsetCommitKey(group=group, topic=topic, partition=partition), 0)


def group_key(group_id: str) -> bytes:
    return SHORT.pack(GROUP) + encode(GroupMetadataKey(group=group_id), 0)


def value_version(value: bytes, what: str, newest: int) -> int:
    """The version with which a value begins. Raises ProtocolError for one that is not known."""
    if len(value) < SHORT.size:
        raise ProtocolError(f"{what} of {len(value)} bytes has no version")
    (version,) = SHORT.unpack_from(value)
    if not 0 <= version <= newest:
        raise ProtocolError(
            f"{what} of version {version} is newer than this broker, which knows 0 to {newest}"
        )
    return int(version)
