"""OffsetForLeaderEpoch (API key 23): end offset of leader epoch."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=23, versions="2-4", flexible="4+", listeners="broker")
class OffsetForLeaderEpochRequest(Message):
    """End offset of leader epoch."""

    class OffsetForLeaderTopic(Struct):
        topic: str = ""
        partitions: list["OffsetForLeaderEpochRequest.OffsetForLeaderPartition"] = []

    class OffsetForLeaderPartition(Struct):
        partition: i32 = 0
        current_leader_epoch: i32 = -1
        leader_epoch: i32 = 0

    replica_id: Annotated[i32, Since(3), Ignorable] = -2
    topics: list[OffsetForLeaderTopic] = []


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """Answer: end offset of leader epoch."""

    class OffsetForLeaderTopicResult(Struct):
        topic: str = ""
        partitions: list["OffsetForLeaderEpochResponse.EpochEndOffset"] = []

    class EpochEndOffset(Struct):
        error_code: i16 = 0
        partition: i32 = 0
        leader_epoch: i32 = -1
        end_offset: i64 = -1

    throttle_time_ms: i32 = 0
    topics: list[OffsetForLeaderTopicResult] = []
