"""ElectLeaders, API key 43. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import i8, i16, i32


@request(key=43, versions="0-2", flexible="2+", listeners="broker controller")
class ElectLeadersRequest(Message):
    """Has the preferred replicas elected as leaders, or from version 1 on replicas that are not in sync
    (KIP-460)."""

    class TopicPartitions(Struct):
        """Names partitions of one topic."""

        topic: str = ""
        partitions: list[i32] = []

    election_type: Annotated[i8, Since(1)] = 0
    topic_partitions: list[TopicPartitions] | None = []
    timeout_ms: i32 = 60000


@response(key=43, versions="0-2", flexible="2+")
class ElectLeadersResponse(Message):
    """Says for each partition how the election ended."""

    class ReplicaElectionResult(Struct):
        """Holds the results for the partitions of one topic."""

        topic: str = ""
        partition_result: list["ElectLeadersResponse.PartitionResult"] = []

    class PartitionResult(Struct):
        """Holds the result for one partition."""

        partition_id: i32 = 0
        error_code: i16 = 0
        error_message: str | None = ""

    throttle_time_ms: i32 = 0
    error_code: Annotated[i16, Since(1)] = 0
    replica_election_results: list[ReplicaElectionResult] = []
