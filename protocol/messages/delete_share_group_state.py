"""DeleteShareGroupState, API key 86. It is sent by group coordinators, to share coordinators."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=86, versions="0", flexible="0+", listeners="broker")
class DeleteShareGroupStateRequest(Message):
    """Deletes the stored state of share partitions (KIP-932)."""

    class DeleteStateData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["DeleteShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names a partition whose state is to be deleted."""

        partition: i32 = 0

    group_id: str = ""
    topics: list[DeleteStateData] = []


@response(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    """Says for each partition whether its state was deleted."""

    class DeleteStateResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["DeleteShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """Holds the result for one partition."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    results: list[DeleteStateResult] = []
