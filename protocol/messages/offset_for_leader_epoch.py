"""OffsetForLeaderEpoch, API key 23. Asked by: client (consumer truncation check); follower."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=23, versions="2-4", flexible="4+", listeners="broker")
class OffsetForLeaderEpochRequest(Message):
    """Where does a leader epoch end? Asked to find where logs diverge.

    From version 3 with the replica's id.
    """

    class OffsetForLeaderTopic(Struct):
        """The partitions of one topic."""

        topic: str = ""
        partitions: list["OffsetForLeaderEpochRequest.OffsetForLeaderPartition"] = []

    class OffsetForLeaderPartition(Struct):
        """The epoch that is asked about in one partition."""

        partition: i32 = 0
        current_leader_epoch: i32 = -1
        leader_epoch: i32 = 0

    replica_id: Annotated[i32, Since(3), Ignorable] = -2
    topics: list[OffsetForLeaderTopic] = []


@response(key=23, versions="2-4", flexible="4+")
class OffsetForLeaderEpochResponse(Message):
    """The largest epoch not above the one asked for, and its end offset."""

    class OffsetForLeaderTopicResult(Struct):
        """The results for one topic."""

        topic: str = ""
        partitions: list["OffsetForLeaderEpochResponse.EpochEndOffset"] = []

    class EpochEndOffset(Struct):
        """The largest epoch that leader and follower have in common, and its end offset."""

        error_code: i16 = 0
        partition: i32 = 0
        leader_epoch: i32 = -1
        end_offset: i64 = -1

    throttle_time_ms: i32 = 0
    topics: list[OffsetForLeaderTopicResult] = []
