"""CreatePartitions, API key 37. It is sent by admin clients.

Brokers forward the request to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=37, versions="0-3", flexible="2+", listeners="broker controller")
class CreatePartitionsRequest(Message):
    """Adds partitions to topics (KIP-195)."""

    class CreatePartitionsTopic(Struct):
        """Names a topic, and the number of partitions that it shall have."""

        name: str = ""
        count: i32 = 0
        assignments: list["CreatePartitionsRequest.CreatePartitionsAssignment"] | None = []

    class CreatePartitionsAssignment(Struct):
        """Names the replicas of one new partition, if the client chooses them."""

        broker_ids: list[i32] = []

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: i32 = 0
    validate_only: bool = False


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    """Says for each topic whether it got its new partitions."""

    class CreatePartitionsTopicResult(Struct):
        """Says whether one topic got its new partitions."""

        name: str = ""
        error_code: i16 = 0
        error_message: str | None = None

    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult] = []
