"""DeleteShareGroupState (API key 86): delete share-partition state."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=86, versions="0", flexible="0+", listeners="broker")
class DeleteShareGroupStateRequest(Message):
    """Delete share-partition state."""

    class DeleteStateData(Struct):
        topic_id: Uuid = ZERO_UUID
        partitions: list["DeleteShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        partition: i32 = 0

    group_id: str = ""
    topics: list[DeleteStateData] = []


@response(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    """Answer: delete share-partition state."""

    class DeleteStateResult(Struct):
        topic_id: Uuid = ZERO_UUID
        partitions: list["DeleteShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    results: list[DeleteStateResult] = []
