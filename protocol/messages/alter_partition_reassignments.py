"""AlterPartitionReassignments, API key 45. Asked by: admin.

Brokers forward it to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=45, versions="0-1", flexible="0+", listeners="broker controller")
class AlterPartitionReassignmentsRequest(Message):
    """Move partitions to other replicas, or stop that (KIP-455).

    From version 1 a change of the replication factor can be forbidden (KIP-860).
    """

    class ReassignableTopic(Struct):
        """The partitions of one topic."""

        name: str = ""
        partitions: list["AlterPartitionReassignmentsRequest.ReassignablePartition"] = []

    class ReassignablePartition(Struct):
        """The replicas that one partition shall have; null cancels its reassignment."""

        partition_index: i32 = 0
        replicas: list[i32] | None = None

    timeout_ms: i32 = 60000
    allow_replication_factor_change: Annotated[bool, Since(1)] = True
    topics: list[ReassignableTopic] = []


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """Says for each partition whether the move was accepted."""

    class ReassignableTopicResponse(Struct):
        """The results for one topic."""

        name: str = ""
        partitions: list["AlterPartitionReassignmentsResponse.ReassignablePartitionResponse"] = []

    class ReassignablePartitionResponse(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    allow_replication_factor_change: Annotated[bool, Since(1), Ignorable] = True
    error_code: i16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = []
