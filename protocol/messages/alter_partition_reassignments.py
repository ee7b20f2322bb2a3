"""AlterPartitionReassignments, API key 45. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32


@request(key=45, versions="0-1", flexible="0+", listeners="broker controller")
class AlterPartitionReassignmentsRequest(Message):
    """Moves partitions to other replicas, or cancels such moves (KIP-455).

    From version 1 on it can forbid that the replication factor changes (KIP-860).
    """

    class ReassignableTopic(Struct):
        """Names partitions of one topic."""

        name: str = ""
        partitions: list["AlterPartitionReassignmentsRequest.ReassignablePartition"] = []

    class ReassignablePartition(Struct):
        """Names the replicas that one partition shall have. Null cancels its reassignment."""

        partition_index: i32 = 0
        replicas: list[i32] | None = None

    timeout_ms: i32 = 60000
    allow_replication_factor_change: Annotated[bool, Since(1)] = True
    topics: list[ReassignableTopic] = []


@response(key=45, versions="0-1", flexible="0+")
class AlterPartitionReassignmentsResponse(Message):
    """Says for each partition whether the reassignment was accepted."""

    class ReassignableTopicResponse(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["AlterPartitionReassignmentsResponse.ReassignablePartitionResponse"] = []

    class ReassignablePartitionResponse(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    allow_replication_factor_change: Annotated[bool, Since(1), Ignorable] = True
    error_code: i16 = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = []
