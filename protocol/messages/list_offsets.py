"""ListOffsets, API key 2. It is sent by consumers, admin clients and followers."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32, i64


@request(key=2, versions="1-11", flexible="6+", listeners="broker")
class ListOffsetsRequest(Message):
    """Asks for the first offset with a timestamp that is not before a given time, or for one of the special
    offsets.

    Negative timestamps stand for the special ones: -1 latest, -2 earliest, -3 the largest timestamp, -4
    earliest local, -5 latest tiered, -6 earliest that is not uploaded yet.

    The versions have added: 2 the isolation level, 4 leader epochs, 10 a timeout for look-ups in remote
    storage.
    """

    class ListOffsetsTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partitions: list["ListOffsetsRequest.ListOffsetsPartition"] = []

    class ListOffsetsPartition(Struct):
        """Names a partition, and the time whose offset is asked for."""

        partition_index: i32 = 0
        current_leader_epoch: Annotated[i32, Since(4), Ignorable] = -1
        timestamp: i64 = 0
        """This is a time in milliseconds, or one of the negative numbers of the request's docstring."""

    replica_id: i32 = 0
    """This is the broker id of a follower, or -1 for a client."""
    isolation_level: Annotated[i8, Since(2)] = 0
    """With 0 the latest offset is the high watermark, with 1 the last stable offset."""
    topics: list[ListOffsetsTopic] = []
    timeout_ms: Annotated[i32, Since(10), Ignorable] = 0


@response(key=2, versions="1-11", flexible="6+")
class ListOffsetsResponse(Message):
    """Tells for each partition the offset and the timestamp that were found, or -1 where nothing was."""

    class ListOffsetsTopicResponse(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["ListOffsetsResponse.ListOffsetsPartitionResponse"] = []

    class ListOffsetsPartitionResponse(Struct):
        """Tells the offset that was found in one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        timestamp: i64 = -1
        offset: i64 = -1
        leader_epoch: Annotated[i32, Since(4)] = -1

    throttle_time_ms: Annotated[i32, Since(2), Ignorable] = 0
    topics: list[ListOffsetsTopicResponse] = []
