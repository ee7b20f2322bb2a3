"""Committed offsets in `__consumer_offsets`."""

from typing import Annotated

from protocol.codec.message import Between, Ignorable, Message, Since, Tag, coordinator_key, coordinator_value
from protocol.primitives import Uuid, i32, i64
from protocol.values import ZERO_UUID


@coordinator_key(key=0, versions="0", flexible="none")
class LegacyOffsetCommitKey(Message):
    """An offset's key as written before Kafka 0.9; only read."""

    group: str = ""
    topic: str = ""
    partition: i32 = 0


@coordinator_value(key=0, versions="0", flexible="none")
class LegacyOffsetCommitValue(Message):
    """An offset as written before Kafka 0.9; only read."""

    offset: i64 = 0
    metadata: str = ""
    commit_timestamp: i64 = 0


@coordinator_key(key=1, versions="0", flexible="none")
class OffsetCommitKey(Message):
    """Says whose offset the record holds: group, topic and partition."""

    group: str = ""
    topic: str = ""
    partition: i32 = 0


@coordinator_value(key=1, versions="0-4", flexible="4+")
class OffsetCommitValue(Message):
    """A committed offset. Version 1 carries an expiry of its own, 3 the leader epoch, 4 the topic id."""

    offset: i64 = 0
    leader_epoch: Annotated[i32, Since(3), Ignorable] = -1
    metadata: str = ""
    commit_timestamp: i64 = 0
    expire_timestamp: Annotated[i64, Between(1, 1), Ignorable] = -1
    topic_id: Annotated[Uuid, Tag(0, since=4), Ignorable] = ZERO_UUID
