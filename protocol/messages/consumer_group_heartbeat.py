"""ConsumerGroupHeartbeat, API key 68. It is sent by consumers of the newer group protocol (KIP-848)."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=68, versions="0-1", flexible="0+", listeners="broker")
class ConsumerGroupHeartbeatRequest(Message):
    """Joins, stays in or leaves a consumer group of the newer protocol (KIP-848).

    Fields that have not changed since the last heartbeat are null. A member joins with epoch 0 and leaves
    with epoch -1; a static member that will come back leaves with -2. From version 1 on a member may
    subscribe to a regular expression, and chooses its member id itself.
    """

    class TopicPartitions(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    group_id: str = ""
    member_id: str = ""
    member_epoch: i32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: i32 = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: Annotated[str | None, Since(1)] = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


@response(key=68, versions="0-1", flexible="0+")
class ConsumerGroupHeartbeatResponse(Message):
    """Tells the member its epoch, and its assignment when that has changed."""

    class Assignment(Struct):
        """Holds the partitions that are assigned to the member."""

        topic_partitions: list["ConsumerGroupHeartbeatResponse.TopicPartitions"] = []

    class TopicPartitions(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: i32 = 0
    heartbeat_interval_ms: i32 = 0
    assignment: Assignment | None = None
