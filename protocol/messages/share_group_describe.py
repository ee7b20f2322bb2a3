"""ShareGroupDescribe, API key 77. It is sent by admin clients."""

from msgspec import field

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=77, versions="1", flexible="0+", listeners="broker")
class ShareGroupDescribeRequest(Message):
    """Asks for a description of share groups (KIP-932)."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False


@response(key=77, versions="1", flexible="0+")
class ShareGroupDescribeResponse(Message):
    """Describes the groups and their members, with the assignment of each."""

    class DescribedGroup(Struct):
        """Describes one group, or says why it cannot be described."""

        error_code: i16 = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: i32 = 0
        assignment_epoch: i32 = 0
        assignor_name: str = ""
        members: list["ShareGroupDescribeResponse.Member"] = []
        authorized_operations: i32 = -2147483648

    class Member(Struct):
        """Describes one member of the group."""

        member_id: str = ""
        rack_id: str | None = None
        member_epoch: i32 = 0
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = []
        assignment: "ShareGroupDescribeResponse.Assignment" = field(
            default_factory=lambda: ShareGroupDescribeResponse.Assignment()
        )

    class Assignment(Struct):
        """Holds the partitions that are assigned to the member."""

        topic_partitions: list["ShareGroupDescribeResponse.TopicPartitions"] = []

    class TopicPartitions(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        topic_name: str = ""
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup] = []
