"""ShareGroupHeartbeat, API key 76. It is sent by share consumers."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=76, versions="1", flexible="0+", listeners="broker")
class ShareGroupHeartbeatRequest(Message):
    """Joins, stays in or leaves a share group (KIP-932)."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: i32 = 0
    rack_id: str | None = None
    subscribed_topic_names: list[str] | None = None


@response(key=76, versions="1", flexible="0+")
class ShareGroupHeartbeatResponse(Message):
    """Tells the member its epoch, and its assignment when that has changed."""

    class Assignment(Struct):
        """Holds the partitions that are assigned to the member."""

        topic_partitions: list["ShareGroupHeartbeatResponse.TopicPartitions"] = []

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
