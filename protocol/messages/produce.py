"""Produce, API key 0. Asked by: client (producer)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Records, Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=0, versions="3-13", flexible="9+", listeners="broker")
class ProduceRequest(Message):
    """Append record batches to partitions.

    From version 7 zstd may be used; 8 brings errors per record; 10 names the current leader (KIP-951); 12
    adds the partition to its transaction (KIP-890); 13 names topics by id.
    """

    class TopicProduceData(Struct):
        """Batches for one topic."""

        name: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partition_data: list["ProduceRequest.PartitionProduceData"] = []

    class PartitionProduceData(Struct):
        """A batch for one partition."""

        index: i32 = 0
        records: Records | None = None

    transactional_id: str | None = None
    acks: i16 = 0
    """0: do not answer; 1: when the leader has it; -1: when all in-sync replicas have it."""
    timeout_ms: i32 = 0
    """How long the broker may wait for the in-sync replicas."""
    topic_data: list[TopicProduceData] = []


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    """What became of each appended batch.

    In 10 and later NOT_LEADER_OR_FOLLOWER comes with the current leader and its address (KIP-951).
    """

    class TopicProduceResponse(Struct):
        """The results for one topic."""

        name: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partition_responses: list["ProduceResponse.PartitionProduceResponse"] = []

    class PartitionProduceResponse(Struct):
        """Says what became of one batch."""

        index: i32 = 0
        error_code: i16 = 0
        base_offset: i64 = 0
        """The offset of the batch's first record."""
        log_append_time_ms: i64 = -1
        """The append time if the topic has LogAppendTime, else -1."""
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        record_errors: Annotated[list["ProduceResponse.BatchIndexAndErrorMessage"], Since(8), Ignorable] = []
        error_message: Annotated[str | None, Since(8), Ignorable] = None
        current_leader: Annotated["ProduceResponse.LeaderIdAndEpoch | None", Tag(0, since=10)] = None

    class BatchIndexAndErrorMessage(Struct):
        """A record that was refused, by its place in the batch."""

        batch_index: i32 = 0
        batch_index_error_message: str | None = None

    class LeaderIdAndEpoch(Struct):
        """The current leader of the partition, and its leader epoch."""

        leader_id: i32 = -1
        leader_epoch: i32 = -1

    class NodeEndpoint(Struct):
        """The address of a leader that is named in this answer."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: i32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=10)] = []
