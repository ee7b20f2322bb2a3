"""ListPartitionReassignments, API key 46. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=46, versions="0", flexible="0+", listeners="broker controller")
class ListPartitionReassignmentsRequest(Message):
    """Asks which partitions are being reassigned (KIP-455)."""

    class ListPartitionReassignmentsTopics(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partition_indexes: list[i32] = []

    timeout_ms: i32 = 60000
    topics: list[ListPartitionReassignmentsTopics] | None = None


@response(key=46, versions="0", flexible="0+")
class ListPartitionReassignmentsResponse(Message):
    """Lists the partitions that are being reassigned, with the replicas that are added and removed."""

    class OngoingTopicReassignment(Struct):
        """Lists the partitions of one topic that are being reassigned."""

        name: str = ""
        partitions: list["ListPartitionReassignmentsResponse.OngoingPartitionReassignment"] = []

    class OngoingPartitionReassignment(Struct):
        """Describes one partition that is being reassigned."""

        partition_index: i32 = 0
        replicas: list[i32] = []
        adding_replicas: list[i32] = []
        removing_replicas: list[i32] = []

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = ""
    topics: list[OngoingTopicReassignment] = []
