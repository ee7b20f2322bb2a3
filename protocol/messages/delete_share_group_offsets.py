"""DeleteShareGroupOffsets, API key 92. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=92, versions="0", flexible="0+", listeners="broker")
class DeleteShareGroupOffsetsRequest(Message):
    """Deletes the offsets that a share group has for topics (KIP-932)."""

    class DeleteShareGroupOffsetsRequestTopic(Struct):
        """Names a topic whose offsets are to be deleted."""

        topic_name: str = ""

    group_id: str = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = []


@response(key=92, versions="0", flexible="0+")
class DeleteShareGroupOffsetsResponse(Message):
    """Says for each topic whether its offsets were deleted."""

    class DeleteShareGroupOffsetsResponseTopic(Struct):
        """Holds the result for one topic."""

        topic_name: str = ""
        topic_id: Uuid = ZERO_UUID
        error_code: i16 = 0
        error_message: str | None = None

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = []
