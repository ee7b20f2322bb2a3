"""ListOffsets (API key 2): offset by timestamp / earliest / latest / max-ts / tiered."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32, i64


@request(key=2, versions="1-11", flexible="6+", listeners="broker")
class ListOffsetsRequest(Message):
    """Offset by timestamp / earliest / latest / max-ts / tiered."""

    class ListOffsetsTopic(Struct):
        name: str = ""
        partitions: list["ListOffsetsRequest.ListOffsetsPartition"] = []

    class ListOffsetsPartition(Struct):
        partition_index: i32 = 0
        current_leader_epoch: Annotated[i32, Since(4), Ignorable] = -1
        timestamp: i64 = 0

    replica_id: i32 = 0
    isolation_level: Annotated[i8, Since(2)] = 0
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[i32, Since(10), Ignorable] = 0


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """Answer: offset by timestamp / earliest / latest / max-ts / tiered."""

    class ListOffsetsTopicResponse(Struct):
        name: str = ""
        partitions: list["ListOffsetsResponse.ListOffsetsPartitionResponse"] = []

    class ListOffsetsPartitionResponse(Struct):
        partition_index: i32 = 0
        error_code: i16 = 0
        timestamp: i64 = -1
        offset: i64 = -1
        leader_epoch: Annotated[i32, Since(4)] = -1

    throttle_time_ms: Annotated[i32, Since(2), Ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = []
