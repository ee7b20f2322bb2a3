"""How committed offsets lie in `__consumer_offsets`, under the keys of `group_keys`.

type   value                                                             version that is written
0      an offset, before Kafka 0.9                                       none, it is only read
1      offset, leader epoch, metadata, commit time, topic id             4
       with an expiry time of its own (OffsetCommit 2 to 4)              1
"""

from __future__ import annotations

from typing import Final

import msgspec

from broker.coordinator.group_keys import LEGACY_OFFSET, SHORT, offset_key, value_version
from broker.coordinator.runtime.result import CoordinatorRecord
from protocol.codec.compiler import decode, encode
from protocol.group_log.offsets import LegacyOffsetCommitValue, OffsetCommitValue
from protocol.primitives import Uuid
from protocol.values import ZERO_UUID

OFFSET_VERSION: Final = 4
OFFSET_VERSION_WITH_EXPIRY: Final = 1
NO_EXPIRY: Final = -1


class OffsetAndMetadata(msgspec.Struct, frozen=True, gc=False):
    """The committed offset of a group in a partition."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = NO_EXPIRY
    """The wall time at which it expires, if the client has asked for one; -1 for the broker's rules."""
    topic_id: Uuid = ZERO_UUID


def offset_record(group: str, topic: str, partition: int, committed: OffsetAndMetadata) -> CoordinatorRecord:
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
        offset_key(group, topic, partition), SHORT.pack(version) + encode(value, version)
    )


def offset_tombstone(group: str, topic: str, partition: int) -> CoordinatorRecord:
    return CoordinatorRecord(offset_key(group, topic, partition), None)


def read_offset(kind: int, value: bytes) -> OffsetAndMetadata:
    """Decodes an offset. Raises ProtocolError for bytes that are none, or of an unknown version."""
    version = value_version(value, "an offset", OffsetCommitValue.declaration.versions.last)
    if kind == LEGACY_OFFSET and version == 0:
        legacy = decode(LegacyOffsetCommitValue, version, value[2:])
        return OffsetAndMetadata(legacy.offset, -1, legacy.metadata, legacy.commit_timestamp)
    stored = decode(OffsetCommitValue, version, value[2:])
    return OffsetAndMetadata(
        stored.offset,
        stored.leader_epoch,
        stored.metadata,
        stored.commit_timestamp,
        stored.expire_timestamp,
        stored.topic_id,
    )
