"""OffsetForLeaderEpoch, API key 23. It is sent by followers, and by consumers that check whether a log was
truncated."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=23, versions="2-4", flexible="4+", listeners="broker")
class OffsetForLeaderEpochRequest(Message):
    """Asks where leader epochs end, to find the offset at which two logs diverge.

    From version 3 on it names the replica that asks.
    """

    class OffsetForLeaderTopic(Struct):
        """Names partitions of one topic."""

        topic: str = ""
        partitions: list["OffsetForLeaderEpochRequest.OffsetForLeaderPartition"] = []

    class OffsetForLeaderPartition(Struct):
        """Names a partition, and the leader epoch whose end offset is asked for."""

        partition: i32 = 0
        current_leader_epoch: i32 = -1
        leader_epoch: i32 = 0

    replica_id: Annotated[i32, Since(3), Ignorable] = -2
    topics: list[OffsetForLeaderTopic] = []


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """Tells for each partition the largest leader epoch that is not above the one asked for, and its end
    offset."""

    class OffsetForLeaderTopicResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic: str = ""
        partitions: list["OffsetForLeaderEpochResponse.EpochEndOffset"] = []

    class EpochEndOffset(Struct):
        """Names the largest leader epoch that is not above the one asked for, and its end offset."""

        error_code: i16 = 0
        partition: i32 = 0
        leader_epoch: i32 = -1
        end_offset: i64 = -1

    throttle_time_ms: i32 = 0
    topics: list[OffsetForLeaderTopicResult] = []
