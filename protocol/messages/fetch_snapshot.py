"""FetchSnapshot, API key 59. It is sent by the controllers and brokers that follow the metadata log."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Ignorable, Message, Struct, Tag, request, response
from protocol.primitives import Records, Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@request(key=59, versions="0-1", flexible="0+", listeners="controller")
class FetchSnapshotRequest(Message):
    """Asks for a part of a snapshot of the metadata log (KIP-630)."""

    class TopicSnapshot(Struct):
        """Holds what is said about the snapshots of one topic's partitions."""

        name: str = ""
        partitions: list["FetchSnapshotRequest.PartitionSnapshot"] = []

    class PartitionSnapshot(Struct):
        """Holds what is said about a snapshot of one partition."""

        partition: i32 = 0
        current_leader_epoch: i32 = 0
        snapshot_id: "FetchSnapshotRequest.SnapshotId" = field(
            default_factory=lambda: FetchSnapshotRequest.SnapshotId()
        )
        position: i64 = 0
        replica_directory_id: Annotated[Uuid, Tag(0, since=1), Ignorable] = ZERO_UUID

    class SnapshotId(Struct):
        """Identifies a snapshot by its end offset, which is exclusive, and its epoch."""

        end_offset: i64 = 0
        epoch: i32 = 0

    cluster_id: Annotated[str | None, Tag(0)] = None
    replica_id: i32 = -1
    max_bytes: i32 = 0x7FFFFFFF
    topics: list[TopicSnapshot] = []


@response(key=59, versions="0-1", flexible="0+")
class FetchSnapshotResponse(Message):
    """Holds a part of the snapshot, and the size of the whole snapshot."""

    class TopicSnapshot(Struct):
        """Holds what is said about the snapshots of one topic's partitions."""

        name: str = ""
        partitions: list["FetchSnapshotResponse.PartitionSnapshot"] = []

    class PartitionSnapshot(Struct):
        """Holds what is said about a snapshot of one partition."""

        index: i32 = 0
        error_code: i16 = 0
        snapshot_id: "FetchSnapshotResponse.SnapshotId" = field(
            default_factory=lambda: FetchSnapshotResponse.SnapshotId()
        )
        current_leader: Annotated["FetchSnapshotResponse.LeaderIdAndEpoch | None", Tag(0)] = None
        size: i64 = 0
        position: i64 = 0
        unaligned_records: Records = b""

    class SnapshotId(Struct):
        """Identifies a snapshot by its end offset, which is exclusive, and its epoch."""

        end_offset: i64 = 0
        epoch: i32 = 0

    class LeaderIdAndEpoch(Struct):
        """Names the current leader of the partition, and its leader epoch."""

        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: u16 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    topics: list[TopicSnapshot] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=1)] = []
