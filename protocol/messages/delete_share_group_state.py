"""DeleteShareGroupState, API key 86. Asked by: broker (group coord -> share coord)."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=86, versions="0", flexible="0+", listeners="broker")
class DeleteShareGroupStateRequest(Message):
    """Forget the stored state of share partitions (KIP-932)."""

    class DeleteStateData(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["DeleteShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        """One partition."""

        partition: i32 = 0

    group_id: str = ""
    topics: list[DeleteStateData] = []


@response(key=86, versions="0", flexible="0+")
class DeleteShareGroupStateResponse(Message):
    """Per partition, whether it is gone."""

    class DeleteStateResult(Struct):
        """One topic of the answer."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["DeleteShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """One partition of the answer."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    results: list[DeleteStateResult] = []
