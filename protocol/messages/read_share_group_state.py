"""ReadShareGroupState, API key 84. It is sent by the leaders of share partitions, to share coordinators."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=84, versions="0", flexible="0+", listeners="broker")
class ReadShareGroupStateRequest(Message):
    """Asks for the stored state of share partitions (KIP-932)."""

    class ReadStateData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ReadShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names a partition, and the leader epoch of the broker that asks."""

        partition: i32 = 0
        leader_epoch: i32 = 0

    group_id: str = ""
    topics: list[ReadStateData] = []


@response(key=84, versions="0", flexible="0+")
class ReadShareGroupStateResponse(Message):
    """Tells the start offset of each partition, and the delivery states of its records."""

    class ReadStateResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ReadShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """Holds the result for one partition."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None
        state_epoch: i32 = 0
        start_offset: i64 = 0
        state_batches: list["ReadShareGroupStateResponse.StateBatch"] = []

    class StateBatch(Struct):
        """Names a range of offsets whose records are in one delivery state."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        delivery_state: i8 = 0
        delivery_count: i16 = 0

    results: list[ReadStateResult] = []
