"""Fetch, API key 1. Asked by: consumers, followers, and whoever follows the metadata log."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Records, Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=1, versions="4-18", flexible="12+", listeners="broker controller")
class FetchRequest(Message):
    """Read record batches: consumers from topics, followers from leaders, observers from the metadata log.

    From version 4 an isolation level, 5 log start offsets, 7 sessions (KIP-227), 9 leader epochs, 11 the
    reader's rack (KIP-392), 12 the epoch last fetched (KIP-595), 13 topic ids (KIP-516), 15 the replica state
    (KIP-903), 17 directory ids (KIP-853), 18 the follower's high watermark.
    """

    class ReplicaState(Struct):
        """The follower that asks: its id and its broker epoch."""

        replica_id: i32 = -1
        replica_epoch: i64 = -1

    class FetchTopic(Struct):
        """The partitions of one topic."""

        topic: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partitions: list["FetchRequest.FetchPartition"] = []

    class FetchPartition(Struct):
        """One partition, and the offset from which it is read."""

        partition: i32 = 0
        current_leader_epoch: Annotated[i32, Since(9), Ignorable] = -1
        fetch_offset: i64 = 0
        last_fetched_epoch: Annotated[i32, Since(12)] = -1
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        partition_max_bytes: i32 = 0
        replica_directory_id: Annotated[Uuid, Tag(0, since=17), Ignorable] = ZERO_UUID
        high_watermark: Annotated[i64, Tag(1, since=18), Ignorable] = 9223372036854775807

    class ForgottenTopic(Struct):
        """Partitions that leave the session."""

        topic: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partitions: list[i32] = []

    cluster_id: Annotated[str | None, Tag(0, since=12), Ignorable] = None
    replica_id: Annotated[i32, Until(14)] = -1
    """The broker id of a follower; -1 for a consumer. From version 15 on it stands in the replica state."""
    replica_state: Annotated[ReplicaState | None, Tag(1, since=15)] = None
    max_wait_ms: i32 = 0
    min_bytes: i32 = 0
    max_bytes: i32 = 0x7FFFFFFF
    isolation_level: i8 = 0
    """0 reads uncommitted; 1 reads committed records only, up to the last stable offset."""
    session_id: Annotated[i32, Since(7), Ignorable] = 0
    session_epoch: Annotated[i32, Since(7), Ignorable] = -1
    """-1: no session, 0: a new one, else the next request of the session (KIP-227)."""
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], Since(7)] = []
    """The partitions that leave the fetch session."""
    rack_id: Annotated[str, Since(11), Ignorable] = ""
    """The rack of the reader, so that the leader can name a replica that is near it (KIP-392)."""


@response(key=1, versions="4-18", flexible="12+")
class FetchResponse(Message):
    """Record batches with how far each partition reaches.

    A diverging epoch tells a follower to truncate (KIP-595); 11 and later may send a consumer to a nearer
    replica (KIP-392).
    """

    class FetchableTopicResponse(Struct):
        """The results for one topic."""

        topic: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partitions: list["FetchResponse.PartitionData"] = []

    class PartitionData(Struct):
        """The records that were read of one partition, and its high watermark and other offsets."""

        partition_index: i32 = 0
        error_code: i16 = 0
        high_watermark: i64 = 0
        last_stable_offset: i64 = -1
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        diverging_epoch: Annotated["FetchResponse.EpochEndOffset | None", Tag(0, since=12)] = None
        """The epoch and end offset to which a follower that has diverged must truncate (KIP-595)."""
        current_leader: Annotated["FetchResponse.LeaderIdAndEpoch | None", Tag(1, since=12)] = None
        snapshot_id: Annotated["FetchResponse.SnapshotId | None", Tag(2, since=12)] = None
        """The snapshot to fetch, when the offset lies before the log's start."""
        aborted_transactions: list["FetchResponse.AbortedTransaction"] | None = []
        preferred_read_replica: Annotated[i32, Since(11)] = -1
        """The replica from which the consumer should read instead; -1 for none."""
        records: Records | None = None

    class EpochEndOffset(Struct):
        """The largest epoch that leader and follower have in common, and its end offset."""

        epoch: i32 = -1
        end_offset: i64 = -1

    class LeaderIdAndEpoch(Struct):
        """The current leader of the partition, and its leader epoch."""

        leader_id: i32 = -1
        leader_epoch: i32 = -1

    class SnapshotId(Struct):
        """The id of a snapshot: its end offset (exclusive) and its epoch."""

        end_offset: i64 = -1
        epoch: i32 = -1

    class AbortedTransaction(Struct):
        """A transaction that was aborted within the fetched range, from its first offset on."""

        producer_id: i64 = 0
        first_offset: i64 = 0

    class NodeEndpoint(Struct):
        """The address of a leader that is named in this answer."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(7), Ignorable] = 0
    session_id: Annotated[i32, Since(7)] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=16)] = []
