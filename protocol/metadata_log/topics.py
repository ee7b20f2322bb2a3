"""Metadata records of topics and partitions."""

from typing import Annotated

from protocol.codec.message import Message, Since, Tag, metadata_record
from protocol.primitives import Uuid, i8, i32
from protocol.values import ZERO_UUID


@metadata_record(key=2, versions="0", flexible="0+")
class TopicRecord(Message):
    """A topic exists, with this name and id."""

    name: str = ""
    topic_id: Uuid = ZERO_UUID


@metadata_record(key=3, versions="0-2", flexible="0+")
class PartitionRecord(Message):
    """A partition with its replicas, as it was created; again when it must be told whole.

    From 1 with directories (KIP-858), 2 with eligible leader replicas (KIP-966).
    """

    partition_id: i32 = -1
    topic_id: Uuid = ZERO_UUID
    replicas: list[i32] = []
    isr: list[i32] = []
    removing_replicas: list[i32] = []
    adding_replicas: list[i32] = []
    leader: i32 = -1
    """The broker id of the leader; -1 if there is none."""
    leader_recovery_state: Annotated[i8, Tag(0)] = 0
    """1 while the leader recovers from an unclean election (KIP-704), else 0."""
    leader_epoch: i32 = -1
    partition_epoch: i32 = -1
    directories: Annotated[list[Uuid], Since(1)] = []
    """The log directory of each replica, in the order of `replicas`."""
    eligible_leader_replicas: Annotated[list[i32] | None, Tag(1, since=2)] = None
    last_known_elr: Annotated[list[i32] | None, Tag(2, since=2)] = None


@metadata_record(key=5, versions="0-2", flexible="0+")
class PartitionChangeRecord(Message):
    """Holds what has changed in a partition; null or absent fields have not. A leader of -2 means no
    change."""

    partition_id: i32 = -1
    topic_id: Uuid = ZERO_UUID
    isr: Annotated[list[i32] | None, Tag(0)] = None
    leader: Annotated[i32, Tag(1)] = -2
    """-2: no change, -1: there is no leader. A change raises the leader epoch."""
    replicas: Annotated[list[i32] | None, Tag(2)] = None
    removing_replicas: Annotated[list[i32] | None, Tag(3)] = None
    adding_replicas: Annotated[list[i32] | None, Tag(4)] = None
    leader_recovery_state: Annotated[i8, Tag(5)] = -1
    """The new recovery state of the leader; -1 for no change."""
    directories: Annotated[list[Uuid] | None, Tag(8, since=1)] = None
    eligible_leader_replicas: Annotated[list[i32] | None, Tag(6, since=2)] = None
    last_known_elr: Annotated[list[i32] | None, Tag(7, since=2)] = None


@metadata_record(key=9, versions="0", flexible="0+")
class RemoveTopicRecord(Message):
    """A topic is deleted."""

    topic_id: Uuid = ZERO_UUID


@metadata_record(key=28, versions="0", flexible="0+")
class ClearElrRecord(Message):
    """Eligible leader replicas are dropped, of one topic or of all (KIP-966)."""

    topic_name: str = ""
