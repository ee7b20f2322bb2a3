"""CreatePartitions, API key 37. Asked by: admin.

Brokers forward it to the controller.
"""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32


@request(key=37, versions="0-3", flexible="2+", listeners="broker controller")
class CreatePartitionsRequest(Message):
    """Add partitions to topics (KIP-195)."""

    class CreatePartitionsTopic(Struct):
        """A topic and how many partitions it shall have."""

        name: str = ""
        count: i32 = 0
        assignments: list["CreatePartitionsRequest.CreatePartitionsAssignment"] | None = []

    class CreatePartitionsAssignment(Struct):
        """The replicas of one new partition, chosen by the caller."""

        broker_ids: list[i32] = []

    topics: list[CreatePartitionsTopic] = []
    timeout_ms: i32 = 0
    validate_only: bool = False


@response(key=37, versions="0-3", flexible="2+")
class CreatePartitionsResponse(Message):
    """Says for each topic whether the partitions were added."""

    class CreatePartitionsTopicResult(Struct):
        """Says whether one topic got its new partitions."""

        name: str = ""
        error_code: i16 = 0
        error_message: str | None = None

    throttle_time_ms: i32 = 0
    results: list[CreatePartitionsTopicResult] = []
