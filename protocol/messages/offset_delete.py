"""OffsetDelete (API key 47): delete committed offsets."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=47, versions="0", flexible="none", listeners="broker")
class OffsetDeleteRequest(Message):
    """Delete committed offsets."""

    class OffsetDeleteRequestTopic(Struct):
        name: str = ""
        partitions: list["OffsetDeleteRequest.OffsetDeleteRequestPartition"] = []

    class OffsetDeleteRequestPartition(Struct):
        partition_index: i32 = 0

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = []


@response(key=47, versions="0", flexible="none")
class OffsetDeleteResponse(Message):
    """Answer: delete committed offsets."""

    class OffsetDeleteResponseTopic(Struct):
        name: str = ""
        partitions: list["OffsetDeleteResponse.OffsetDeleteResponsePartition"] = []

    class OffsetDeleteResponsePartition(Struct):
        partition_index: i32 = 0
        error_code: i16 = 0

    error_code: i16 = 0
    throttle_time_ms: i32 = 0
    topics: list[OffsetDeleteResponseTopic] = []
