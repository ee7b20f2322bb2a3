"""InitializeShareGroupState, API key 83. It is sent by group coordinators, to share coordinators."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=83, versions="0", flexible="0+", listeners="broker")
class InitializeShareGroupStateRequest(Message):
    """Creates the stored state of share partitions (KIP-932)."""

    class InitializeStateData(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["InitializeShareGroupStateRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the start offset and the state epoch of one partition."""

        partition: i32 = 0
        state_epoch: i32 = 0
        start_offset: i64 = 0

    group_id: str = ""
    topics: list[InitializeStateData] = []


@response(key=83, versions="0", flexible="0+")
class InitializeShareGroupStateResponse(Message):
    """Says for each partition whether its state was created."""

    class InitializeStateResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["InitializeShareGroupStateResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """Holds the result for one partition."""

        partition: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None

    results: list[InitializeStateResult] = []
