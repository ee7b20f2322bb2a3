"""OffsetDelete, API key 47. Asked by: admin."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=47, versions="0", flexible="none", listeners="broker")
class OffsetDeleteRequest(Message):
    """Forget a group's offsets of partitions that it does not read (KIP-496)."""

    class OffsetDeleteRequestTopic(Struct):
        """The partitions of one topic."""

        name: str = ""
        partitions: list["OffsetDeleteRequest.OffsetDeleteRequestPartition"] = []

    class OffsetDeleteRequestPartition(Struct):
        """A partition to forget."""

        partition_index: i32 = 0

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


@response(key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Message):
    """Says for each partition whether its offset was deleted."""

    class OffsetDeleteResponseTopic(Struct):
        """The results for one topic."""

        name: str = ""
        partitions: list["OffsetDeleteResponse.OffsetDeleteResponsePartition"] = []

    class OffsetDeleteResponsePartition(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    error_code: i16 = 0
    throttle_time_ms: i32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
