"""ListOffsets, API key 2. Asked by: client (consumer/admin); follower."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32, i64


@request(key=2, versions="1-11", flexible="6+", listeners="broker")
class ListOffsetsRequest(Message):
    """The offset at a time, or at a place: earliest -2, latest -1, greatest timestamp -3, earliest local -4,
    latest tiered -5, earliest not yet uploaded -6.

    From version 2 an isolation level, 4 leader epochs, 10 a timeout for look-ups in remote storage.
    """

    class ListOffsetsTopic(Struct):
        """The partitions of one topic."""

        name: str = ""
        partitions: list["ListOffsetsRequest.ListOffsetsPartition"] = []

    class ListOffsetsPartition(Struct):
        """One partition, and the time or place whose offset is wanted."""

        partition_index: i32 = 0
        current_leader_epoch: Annotated[i32, Since(4), Ignorable] = -1
        timestamp: i64 = 0
        """A time in milliseconds, or one of the negative numbers above."""

    replica_id: i32 = 0
    """The broker id of a follower; -1 for a client."""
    isolation_level: Annotated[i8, Since(2)] = 0
    """0 reads uncommitted; with 1 the latest offset is the last stable one."""
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[i32, Since(10), Ignorable] = 0


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """The offset and timestamp that were found, -1 if there is none."""

    class ListOffsetsTopicResponse(Struct):
        """The results for one topic."""

        name: str = ""
        partitions: list["ListOffsetsResponse.ListOffsetsPartitionResponse"] = []

    class ListOffsetsPartitionResponse(Struct):
        """Says what was found in one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        timestamp: i64 = -1
        offset: i64 = -1
        leader_epoch: Annotated[i32, Since(4)] = -1

    throttle_time_ms: Annotated[i32, Since(2), Ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = []
