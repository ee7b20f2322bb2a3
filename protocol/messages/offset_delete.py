"""OffsetDelete, API key 47. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=47, versions="0", flexible="none", listeners="broker")
class OffsetDeleteRequest(Message):
    """Deletes committed offsets of a group, for partitions to which it is not subscribed (KIP-496)."""

    class OffsetDeleteRequestTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partitions: list["OffsetDeleteRequest.OffsetDeleteRequestPartition"] = []

    class OffsetDeleteRequestPartition(Struct):
        """Names a partition whose committed offset is to be deleted."""

        partition_index: i32 = 0

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


@response(key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Message):
    """Says for each partition whether its committed offset was deleted."""

    class OffsetDeleteResponseTopic(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["OffsetDeleteResponse.OffsetDeleteResponsePartition"] = []

    class OffsetDeleteResponsePartition(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    error_code: i16 = 0
    throttle_time_ms: i32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
