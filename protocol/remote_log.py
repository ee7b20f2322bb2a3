"""The records of `__remote_log_metadata`: which segments lie in remote storage (KIP-405)."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Message, Struct, Tag, metadata_record
from protocol.primitives import Uuid, i8, i32, i64
from protocol.values import ZERO_UUID


@metadata_record(key=0, versions="0", flexible="0+")
class RemoteLogSegmentMetadataRecord(Message):
    """A segment is being copied to remote storage."""

    class RemoteLogSegmentIdEntry(Struct):
        """The id of a segment, with its partition."""

        topic_id_partition: "RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry" = field(
            default_factory=lambda: RemoteLogSegmentMetadataRecord.TopicIdPartitionEntry()
        )
        id: Uuid = ZERO_UUID

    class TopicIdPartitionEntry(Struct):
        """A partition, by topic and index."""

        name: str = ""
        id: Uuid = ZERO_UUID
        partition: i32 = 0

    class SegmentLeaderEpochEntry(Struct):
        """A leader epoch within the segment, and where it starts."""

        leader_epoch: i32 = 0
        offset: i64 = 0

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    start_offset: i64 = 0
    end_offset: i64 = 0
    broker_id: i32 = 0
    max_timestamp_ms: i64 = 0
    event_timestamp_ms: i64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = []
    segment_size_in_bytes: i32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: i8 = 0
    txn_index_empty: Annotated[bool, Tag(0)] = False


@metadata_record(key=1, versions="0", flexible="0+")
class RemoteLogSegmentMetadataUpdateRecord(Message):
    """A remote segment's new state: copied, or being deleted."""

    class RemoteLogSegmentIdEntry(Struct):
        """The id of a segment, with its partition."""

        topic_id_partition: "RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry" = field(
            default_factory=lambda: RemoteLogSegmentMetadataUpdateRecord.TopicIdPartitionEntry()
        )
        id: Uuid = ZERO_UUID

    class TopicIdPartitionEntry(Struct):
        """A partition, by topic and index."""

        name: str = ""
        id: Uuid = ZERO_UUID
        partition: i32 = 0

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(default_factory=RemoteLogSegmentIdEntry)
    broker_id: i32 = 0
    event_timestamp_ms: i64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: i8 = 0


@metadata_record(key=3, versions="0", flexible="0+")
class RemoteLogSegmentMetadataSnapshotRecord(Message):
    """A remote segment in a snapshot of the remote log metadata."""

    class SegmentLeaderEpochEntry(Struct):
        """A leader epoch within the segment, and where it starts."""

        leader_epoch: i32 = 0
        offset: i64 = 0

    segment_id: Uuid = ZERO_UUID
    start_offset: i64 = 0
    end_offset: i64 = 0
    broker_id: i32 = 0
    max_timestamp_ms: i64 = 0
    event_timestamp_ms: i64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = []
    segment_size_in_bytes: i32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: i8 = 0
    txn_index_empty: Annotated[bool, Tag(0)] = False


@metadata_record(key=2, versions="0", flexible="0+")
class RemotePartitionDeleteMetadataRecord(Message):
    """Says how far the deletion of a partition's remote segments has come."""

    class TopicIdPartitionEntry(Struct):
        """A partition, by topic and index."""

        name: str = ""
        id: Uuid = ZERO_UUID
        partition: i32 = 0

    topic_id_partition: TopicIdPartitionEntry = field(default_factory=TopicIdPartitionEntry)
    broker_id: i32 = 0
    event_timestamp_ms: i64 = 0
    remote_partition_delete_state: i8 = 0
