"""ConsumerGroupDescribe, API key 69. It is sent by admin clients."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i8, i16, i32
from protocol.values import ZERO_UUID


@request(key=69, versions="0-1", flexible="0+", listeners="broker")
class ConsumerGroupDescribeRequest(Message):
    """Asks for a description of consumer groups of the newer protocol (KIP-848)."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False


@response(key=69, versions="0-1", flexible="0+")
class ConsumerGroupDescribeResponse(Message):
    """Describes the groups: their members, with the current and the target assignment of each."""

    class DescribedGroup(Struct):
        """Describes one group, or says why it cannot be described."""

        error_code: i16 = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: i32 = 0
        assignment_epoch: i32 = 0
        assignor_name: str = ""
        members: list["ConsumerGroupDescribeResponse.Member"] = []
        authorized_operations: i32 = -2147483648

    class Member(Struct):
        """Describes one member of the group."""

        member_id: str = ""
        instance_id: str | None = None
        rack_id: str | None = None
        member_epoch: i32 = 0
        client_id: str = ""
        client_host: str = ""
        subscribed_topic_names: list[str] = []
        subscribed_topic_regex: str | None = None
        assignment: "ConsumerGroupDescribeResponse.Assignment" = field(
            default_factory=lambda: ConsumerGroupDescribeResponse.Assignment()
        )
        target_assignment: "ConsumerGroupDescribeResponse.Assignment" = field(
            default_factory=lambda: ConsumerGroupDescribeResponse.Assignment()
        )
        member_type: Annotated[i8, Since(1), Ignorable] = -1

    class Assignment(Struct):
        """Holds the partitions that are assigned to the member."""

        topic_partitions: list["ConsumerGroupDescribeResponse.TopicPartitions"] = []

    class TopicPartitions(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        topic_name: str = ""
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup] = []
