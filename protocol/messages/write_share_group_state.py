"""WriteShareGroupState, API key 85. It is sent by the leaders of share partitions, to share coordinators."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=85, versions="0-1", flexible="0+", listeners="broker")
class WriteShareGroupStateRequest(Message):
    """Stores the state of share partitions (KIP-932)."""

    class WriteStateData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["WriteShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the new state of one partition."""

        partition: i32 = 0
        state_epoch: i32 = 0
        leader_epoch: i32 = 0
        start_offset: i64 = 0
        delivery_complete_count: Annotated[i32, Since(1), Ignorable] = -1
        state_batches: list["WriteShareGroupStateRequest.StateBatch"] = []

    class StateBatch(Struct):
        """Names a range of offsets whose records are in one delivery state."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        delivery_state: i8 = 0
        delivery_count: i16 = 0

    group_id: str = ""
    topics: list[WriteStateData] = []


@response(key=85, versions="0-1", flexible="0+")
class WriteShareGroupStateResponse(Message):
    """Says for each partition whether its state was stored."""

    class WriteStateResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["WriteShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """Holds the result for one partition."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    results: list[WriteStateResult] = []
