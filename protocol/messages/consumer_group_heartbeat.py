"""ConsumerGroupHeartbeat, API key 68. Asked by: client (KIP-848 consumer)."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=68, versions="0-1", flexible="0+", listeners="broker")
class ConsumerGroupHeartbeatRequest(Message):
    """Join, stay in or leave a consumer group of the newer protocol (KIP-848).

    Fields that have not changed are null; epoch 0 joins, -1 leaves, -2 leaves for a while; from version 1 a
    regular expression may be subscribed to, and the client makes the member id.
    """

    class TopicPartitions(Struct):
        """The partitions of one topic."""

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
    """The member's epoch, and its assignment when it has changed."""

    class Assignment(Struct):
        """The assignment of the member."""

        topic_partitions: list["ConsumerGroupHeartbeatResponse.TopicPartitions"] = []

    class TopicPartitions(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: i32 = 0
    heartbeat_interval_ms: i32 = 0
    assignment: Assignment | None = None
