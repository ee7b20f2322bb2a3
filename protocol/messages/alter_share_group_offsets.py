"""AlterShareGroupOffsets, API key 91. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=91, versions="0", flexible="0+", listeners="broker")
class AlterShareGroupOffsetsRequest(Message):
    """Sets the start offsets of a share group that has no members (KIP-932)."""

    class AlterShareGroupOffsetsRequestTopic(Struct):
        """Names partitions of one topic."""

        topic_name: str = ""
        partitions: list["AlterShareGroupOffsetsRequest.AlterShareGroupOffsetsRequestPartition"] = []

    class AlterShareGroupOffsetsRequestPartition(Struct):
        """Names the new start offset of one partition."""

        partition_index: i32 = 0
        start_offset: i64 = 0

    group_id: str = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = []


@response(key=91, versions="0", flexible="0+")
class AlterShareGroupOffsetsResponse(Message):
    """Says for each partition whether its start offset was changed."""

    class AlterShareGroupOffsetsResponseTopic(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        topic_id: Uuid = ZERO_UUID
        partitions: list["AlterShareGroupOffsetsResponse.AlterShareGroupOffsetsResponsePartition"] = []

    class AlterShareGroupOffsetsResponsePartition(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = []
