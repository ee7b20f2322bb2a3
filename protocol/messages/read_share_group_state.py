"""ReadShareGroupState (API key 84): read share-partition state."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=84, versions="0", flexible="0+", listeners="broker")
class ReadShareGroupStateRequest(Message):
    """Read share-partition state."""

    class ReadStateData(Struct):
        topic_id: Uuid = ZERO_UUID
        partitions: list["ReadShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        partition: i32 = 0
        leader_epoch: i32 = 0

    group_id: str = ""
    topics: list[ReadStateData] = []


@response(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    """Answer: read share-partition state."""

    class ReadStateResult(Struct):
        topic_id: Uuid = ZERO_UUID
        partitions: list["ReadShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None
        state_epoch: i32 = 0
        start_offset: i64 = 0
        state_batches: list["ReadShareGroupStateResponse.StateBatch"] = []

    class StateBatch(Struct):
        first_offset: i64 = 0
        last_offset: i64 = 0
        delivery_state: i8 = 0
        delivery_count: i16 = 0

    results: list[ReadStateResult] = []
