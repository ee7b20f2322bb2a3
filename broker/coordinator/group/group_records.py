"""How groups and offsets lie in `__consumer_offsets`.

    key    int16 type | fields              value  int16 version | fields

    type   key                              value, and the version that is written
    0      group, topic, partition          an offset, before Kafka 0.9; only read
    1      group, topic, partition          offset, leader epoch, metadata, commit time, topic id      4
                                            with an expiry time of its own (requests 2 to 4)           1
    2      group                            protocol type, generation, protocol, leader, state time,
                                            members with subscription and assignment                   3
    3…23   groups of the newer protocols, which are left alone, offsets and all

A value of null is a tombstone: the offset, or the group, is gone. Keys are compared as bytes, by the cleaner
and by loading, so a key has exactly one form. Keys are read by hand, since loading reads a million of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

import msgspec

from broker.coordinator.group.classic_group import ClassicGroup, Member
from broker.coordinator.group.states import GroupState
from broker.coordinator.result import CoordinatorRecord
from protocol.codec.compiler import decode, encode
from protocol.errors import ProtocolError
from protocol.group_log.classic_groups import GroupMetadataKey, GroupMetadataValue
from protocol.group_log.offsets import LegacyOffsetCommitValue, OffsetCommitKey, OffsetCommitValue
from protocol.primitives import Uuid
from protocol.values import ZERO_UUID

LEGACY_OFFSET: Final = 0
OFFSET: Final = 1
GROUP: Final = 2
OFFSET_KEY_PREFIX: Final = b"\x00\x01"
PARTITION_BYTES: Final = 4
"""The partition ends an offset's key."""
NEWEST_KNOWN_KIND: Final = 23
"""Kinds 3 to 23 belong to consumer, share and streams groups; their keys begin with the group's id."""

OFFSET_VERSION: Final = 4
OFFSET_VERSION_WITH_EXPIRY: Final = 1
GROUP_VERSION: Final = 3
NO_EXPIRY: Final = -1
NO_REBALANCE_TIMEOUT: Final = -1
"""Of a member in a record before version 1: its session timeout counts."""

_SHORT: Final = Struct(">h")
_INT: Final = Struct(">i")


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """How far a group has come in a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = NO_EXPIRY
    """Wall time at which it may go, if the client asked for one; -1 for the broker's rules."""
    topic_id: Uuid = ZERO_UUID


class GroupKey(NamedTuple):
    """A key, read. Topic and partition are "" and -1 in the key of a group."""

    kind: int
    group: str
    topic: str
    partition: int


def read_key(key: bytes) -> GroupKey | None:
    """None for a type that this coordinator does not know. ProtocolError for bytes that are no key."""
    try:
        (kind,) = _SHORT.unpack_from(key)
        if not 0 <= kind <= GROUP:
            return None
        (length,) = _SHORT.unpack_from(key, 2)
        position = 4 + length
        if length < 0 or position > len(key):
            raise ProtocolError(f"a key of {len(key)} bytes names a group of {length} bytes")
        group = key[4:position].decode()
        if kind == GROUP:
            return GroupKey(kind, group, "", -1)
        (length,) = _SHORT.unpack_from(key, position)
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
    """The group that a key of kind 3 to 23 speaks of; None for anything else."""
    if len(key) < 2 * _SHORT.size:
        return None
    (kind,), (length,) = _SHORT.unpack_from(key), _SHORT.unpack_from(key, 2)
    if not GROUP < kind <= NEWEST_KNOWN_KIND or not 0 <= length <= len(key) - 4:
        return None
    try:
        return key[4 : 4 + length].decode()
    except UnicodeDecodeError:
        return None


# Offsets


def offset_key(group: str, topic: str, partition: int) -> bytes:
    return _SHORT.pack(OFFSET) + encode(OffsetCommitKey(group=group, topic=topic, partition=partition), 0)


def offset_record(group: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    has_expiry = committed.expire_timestamp_ms != NO_EXPIRY
    version = OFFSET_VERSION_WITH_EXPIRY if has_expiry else OFFSET_VERSION
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )
    return CoordinatorRecord(
        offset_key(group, topic, partition), _SHORT.pack(version) + encode(value, version)
    )


def offset_tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(offset_key(group, topic, partition), None)


def read_offset(kind: int, value: bytes) -> CommittedOffset:
    """ProtocolError for bytes that are no offset, or of a version that is not known."""
    version = _version(value, "an offset", OffsetCommitValue.declaration.versions.last)
    if kind == LEGACY_OFFSET and version == 0:
        legacy = decode(LegacyOffsetCommitValue, version, value[2:])
        return CommittedOffset(legacy.offset, -1, legacy.metadata, legacy.commit_timestamp)
    stored = decode(OffsetCommitValue, version, value[2:])
    return CommittedOffset(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        stored.expire_timestamp,
        stored.topic_id,
    )


# Groups


def group_key(group_id: str) -> bytes:
    return _SHORT.pack(GROUP) + encode(GroupMetadataKey(group=group_id), 0)


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> CoordinatorRecord:
    """The group in its current generation with these assignments by member id."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp=group.state_timestamp_ms,
        members=[
            GroupMetadataValue.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return _group_record(group.group_id, value)


def new_group_record(group: ClassicGroup) -> CoordinatorRecord:
    """A group that somebody has just asked to join: it exists, and nothing more is known."""
    value = GroupMetadataValue(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=group.state_timestamp_ms,
    )
    return _group_record(group.group_id, value)


def group_tombstone(group_id: str) -> CoordinatorRecord:
    return CoordinatorRecord(group_key(group_id), None)


def _group_record(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    return CoordinatorRecord(group_key(group_id), _SHORT.pack(GROUP_VERSION) + encode(value, GROUP_VERSION))


def read_group(group_id: str, value: bytes) -> ClassicGroup:
    """The group as it was stored: Stable with its members, or Empty. ProtocolError for bytes that are no
    group."""
    version = _version(value, "a group", GroupMetadataValue.declaration.versions.last)
    stored = decode(GroupMetadataValue, version, value[2:])
    group = ClassicGroup(group_id, state_timestamp_ms=stored.current_state_timestamp)
    group.generation = stored.generation
    group.protocol_type = stored.protocol_type or None
    group.protocol_name = stored.protocol
    group.leader_id = stored.leader
    for entry in stored.members:
        if entry.member_id in group.members or entry.group_instance_id in group.static_members:
            raise ProtocolError(f"group {group_id} was stored with the member {entry.member_id} twice")
        member = Member(
            member_id=entry.member_id,
            group_instance_id=entry.group_instance_id,
            client_id=entry.client_id,
            client_host=entry.client_host,
            rebalance_timeout_ms=entry.session_timeout
            if entry.rebalance_timeout == NO_REBALANCE_TIMEOUT
            else entry.rebalance_timeout,
            session_timeout_ms=entry.session_timeout,
            protocols=((stored.protocol or "", entry.subscription),),
            assignment=entry.assignment,
        )
        group.add(member, stored.protocol_type, None)
    if group.members:
        group.state = GroupState.STABLE
    group.refresh_topics()
    return group


def _version(value: bytes, what: str, newest: int) -> int:
    if len(value) < _SHORT.size:
        raise ProtocolError(f"{what} of {len(value)} bytes has no version")
    (version,) = _SHORT.unpack_from(value)
    if not 0 <= version <= newest:
        raise ProtocolError(
            f"{what} of version {version} is newer than this broker, which knows 0 to {newest}"
        )
    return int(version)
