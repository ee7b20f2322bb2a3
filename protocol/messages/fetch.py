"""Fetch, API key 1. It is sent by consumers, by followers, and by the nodes that follow the metadata log."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Records, Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=1, versions="4-18", flexible="12+", listeners="broker controller")
class FetchRequest(Message):
    """Reads record batches: consumers read from topics, followers from their leaders, and observers of the
    quorum from the metadata log.

    The versions have added: 4 the isolation level, 5 log start offsets, 7 fetch sessions (KIP-227), 9 leader
    epochs, 11 the reader's rack (KIP-392), 12 the last fetched epoch (KIP-595), 13 topic ids (KIP-516), 15
    the replica state (KIP-903), 17 directory ids (KIP-853), 18 the follower's high watermark.
    """

    class ReplicaState(Struct):
        """Names the follower that fetches, and its broker epoch."""

        replica_id: i32 = -1
        replica_epoch: i64 = -1

    class FetchTopic(Struct):
        """Names partitions of one topic."""

        topic: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partitions: list["FetchRequest.FetchPartition"] = []

    class FetchPartition(Struct):
        """Names a partition, and the offset from which it is read."""

        partition: i32 = 0
        current_leader_epoch: Annotated[i32, Since(9), Ignorable] = -1
        fetch_offset: i64 = 0
        last_fetched_epoch: Annotated[i32, Since(12)] = -1
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        partition_max_bytes: i32 = 0
        replica_directory_id: Annotated[Uuid, Tag(0, since=17), Ignorable] = ZERO_UUID
        high_watermark: Annotated[i64, Tag(1, since=18), Ignorable] = 9223372036854775807

    class ForgottenTopic(Struct):
        """Names partitions that leave the fetch session."""

        topic: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partitions: list[i32] = []

    cluster_id: Annotated[str | None, Tag(0, since=12), Ignorable] = None
    replica_id: Annotated[i32, Until(14)] = -1
    """This is the broker id of a follower, or -1 for a consumer. From version 15 on the replica state holds
    it."""
    replica_state: Annotated[ReplicaState | None, Tag(1, since=15)] = None
    max_wait_ms: i32 = 0
    min_bytes: i32 = 0
    max_bytes: i32 = 0x7FFFFFFF
    isolation_level: i8 = 0
    """With 0 all records are read up to the high watermark, with 1 only committed ones up to the last stable
    offset."""
    session_id: Annotated[i32, Since(7), Ignorable] = 0
    session_epoch: Annotated[i32, Since(7), Ignorable] = -1
    """-1 stands for a fetch without a session, 0 asks for a new session, and a larger epoch is the next one
    of the session (KIP-227)."""
    topics: list[FetchTopic] = []
    forgotten_topics_data: Annotated[list[ForgottenTopic], Since(7)] = []
    """These partitions leave the fetch session."""
    rack_id: Annotated[str, Since(11), Ignorable] = ""
    """The leader uses the rack of the consumer to name a replica that is near it (KIP-392)."""


@response(key=1, versions="4-18", flexible="12+")
class FetchResponse(Message):
    """Holds record batches, and the high watermark and other offsets of each partition.

    A diverging epoch tells a follower to truncate its log (KIP-595). From version 11 on a consumer may be
    sent to a nearer replica (KIP-392).
    """

    class FetchableTopicResponse(Struct):
        """Holds the results for the partitions of one topic."""

        topic: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partitions: list["FetchResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the records that were read from one partition, with its high watermark and other offsets."""

        partition_index: i32 = 0
        error_code: i16 = 0
        high_watermark: i64 = 0
        last_stable_offset: i64 = -1
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        diverging_epoch: Annotated["FetchResponse.EpochEndOffset | None", Tag(0, since=12)] = None
        """A follower whose log has diverged must truncate it to the end of this epoch (KIP-595)."""
        current_leader: Annotated["FetchResponse.LeaderIdAndEpoch | None", Tag(1, since=12)] = None
        snapshot_id: Annotated["FetchResponse.SnapshotId | None", Tag(2, since=12)] = None
        """The replica must fetch this snapshot, because its offset lies before the log start offset."""
        aborted_transactions: list["FetchResponse.AbortedTransaction"] | None = []
        preferred_read_replica: Annotated[i32, Since(11)] = -1
        """The consumer should read from this replica instead. -1 means that there is none."""
        records: Records | None = None

    class EpochEndOffset(Struct):
        """Names the largest leader epoch that leader and follower have in common, and its end offset."""

        epoch: i32 = -1
        end_offset: i64 = -1

    class LeaderIdAndEpoch(Struct):
        """Names the current leader of the partition, and its leader epoch."""

        leader_id: i32 = -1
        leader_epoch: i32 = -1

    class SnapshotId(Struct):
        """Identifies a snapshot by its end offset, which is exclusive, and its epoch."""

        end_offset: i64 = -1
        epoch: i32 = -1

    class AbortedTransaction(Struct):
        """Names a transaction with records in the fetched range that was aborted, and its first offset."""

        producer_id: i64 = 0
        first_offset: i64 = 0

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(7), Ignorable] = 0
    session_id: Annotated[i32, Since(7)] = 0
    responses: list[FetchableTopicResponse] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=16)] = []
