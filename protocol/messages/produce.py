"""Produce, API key 0. It is sent by producers."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Records, Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=0, versions="3-13", flexible="9+", listeners="broker")
class ProduceRequest(Message):
    """Appends record batches to partitions.

    From version 7 on batches may be compressed with zstd. Version 8 has added errors for single records, 10
    the current leader in the response (KIP-951), 12 that the partition is added to the transaction of its
    producer (KIP-890), and 13 topic ids.
    """

    class TopicProduceData(Struct):
        """Holds record batches for the partitions of one topic."""

        name: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partition_data: list["ProduceRequest.PartitionProduceData"] = []

    class PartitionProduceData(Struct):
        """Holds a record batch for one partition."""

        index: i32 = 0
        records: Records | None = None

    transactional_id: str | None = None
    acks: i16 = 0
    """With 0 the broker does not answer; with 1 it answers when the leader has written the batches, with -1
    when all in-sync replicas have them."""
    timeout_ms: i32 = 0
    """The broker waits no longer than this for the in-sync replicas."""
    topic_data: list[TopicProduceData] = []


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    """Says for each partition whether its batch was appended.

    From version 10 on it names the current leader and its address beside the error NOT_LEADER_OR_FOLLOWER
    (KIP-951).
    """

    class TopicProduceResponse(Struct):
        """Holds the results for the partitions of one topic."""

        name: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partition_responses: list["ProduceResponse.PartitionProduceResponse"] = []

    class PartitionProduceResponse(Struct):
        """Tells the offset of the batch in one partition, or why it was not appended."""

        index: i32 = 0
        error_code: i16 = 0
        base_offset: i64 = 0
        """This is the offset of the batch's first record."""
        log_append_time_ms: i64 = -1
        """This is the append time if the topic uses LogAppendTime, else -1."""
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        record_errors: Annotated[list["ProduceResponse.BatchIndexAndErrorMessage"], Since(8), Ignorable] = []
        error_message: Annotated[str | None, Since(8), Ignorable] = None
        current_leader: Annotated["ProduceResponse.LeaderIdAndEpoch | None", Tag(0, since=10)] = None

    class BatchIndexAndErrorMessage(Struct):
        """Names a record that was refused by its index in the batch, and says why."""

        batch_index: i32 = 0
        batch_index_error_message: str | None = None

    class LeaderIdAndEpoch(Struct):
        """Names the current leader of the partition, and its leader epoch."""

        leader_id: i32 = -1
        leader_epoch: i32 = -1

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: i32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=10)] = []
