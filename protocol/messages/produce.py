"""Produce (API key 0): append record batches to partitions."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Records, Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=0, versions="3-13", flexible="9+", listeners="broker")
class ProduceRequest(Message):
    """Append record batches to partitions."""

    class TopicProduceData(Struct):
        name: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partition_data: list["ProduceRequest.PartitionProduceData"] = []

    class PartitionProduceData(Struct):
        index: i32 = 0
        records: Records | None = None

    transactional_id: str | None = None
    acks: i16 = 0
    timeout_ms: i32 = 0
    topic_data: list[TopicProduceData] = []


@response(key=0, versions="3-13", flexible="9+")
class ProduceResponse(Message):
    """Answer: append record batches to partitions."""

    class TopicProduceResponse(Struct):
        name: Annotated[str, Until(12), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(13), Ignorable] = ZERO_UUID
        partition_responses: list["ProduceResponse.PartitionProduceResponse"] = []

    class PartitionProduceResponse(Struct):
        index: i32 = 0
        error_code: i16 = 0
        base_offset: i64 = 0
        log_append_time_ms: i64 = -1
        log_start_offset: Annotated[i64, Since(5), Ignorable] = -1
        record_errors: Annotated[list["ProduceResponse.BatchIndexAndErrorMessage"], Since(8), Ignorable] = []
        error_message: Annotated[str | None, Since(8), Ignorable] = None
        current_leader: Annotated["ProduceResponse.LeaderIdAndEpoch | None", Tag(0, since=10)] = None

    class BatchIndexAndErrorMessage(Struct):
        batch_index: i32 = 0
        batch_index_error_message: str | None = None

    class LeaderIdAndEpoch(Struct):
        leader_id: i32 = -1
        leader_epoch: i32 = -1

    class NodeEndpoint(Struct):
        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    responses: list[TopicProduceResponse] = []
    throttle_time_ms: i32 = 0
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=10)] = []
