"""InitializeShareGroupState, API key 83. Asked by: broker (group coord -> share coord)."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=83, versions="0", flexible="0+", listeners="broker")
class InitializeShareGroupStateRequest(Message):
    """Set up the stored state of share partitions (KIP-932)."""

    class InitializeStateData(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["InitializeShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        """What the request says about one partition."""

        partition: i32 = 0
        state_epoch: i32 = 0
        start_offset: i64 = 0

    group_id: str = ""
    topics: list[InitializeStateData] = []


@response(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    """Says for each partition whether it was set up."""

    class InitializeStateResult(Struct):
        """The results for one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["InitializeShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """The result for one partition."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    results: list[InitializeStateResult] = []
