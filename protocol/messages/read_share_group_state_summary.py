"""ReadShareGroupStateSummary, API key 87. It is sent by brokers."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=87, versions="0-1", flexible="0+", listeners="broker")
class ReadShareGroupStateSummaryRequest(Message):
    """Asks only for the start offsets and epochs of share partitions (KIP-932)."""

    class ReadStateSummaryData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ReadShareGroupStateSummaryRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names a partition, and the leader epoch of the broker that asks."""

        partition: i32 = 0
        leader_epoch: i32 = 0

    group_id: str = ""
    topics: list[ReadStateSummaryData] = []


@response(key=87, versions="0-1", flexible="0+")
class ReadShareGroupStateSummaryResponse(Message):
    """Tells the start offset and the epochs of each share partition."""

    class ReadStateSummaryResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ReadShareGroupStateSummaryResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """Holds the result for one partition."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None
        state_epoch: i32 = 0
        leader_epoch: i32 = 0
        start_offset: i64 = 0
        delivery_complete_count: Annotated[i32, Since(1), Ignorable] = -1

    results: list[ReadStateSummaryResult] = []
