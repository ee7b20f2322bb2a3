"""Share groups (KIP-932) in `__consumer_offsets`."""

from typing import Annotated

from protocol.codec.message import Message, Struct, Tag, coordinator_key, coordinator_value
from protocol.primitives import Uuid, i8, i32, i64
from protocol.values import ZERO_UUID


@coordinator_key(key=10, versions="0", flexible="none")
class ShareGroupMemberMetadataKey(Message):
    """Says which member of a share group (KIP-932) the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=10, versions="0", flexible="0+")
class ShareGroupMemberMetadataValue(Message):
    """Holds what a member of a share group said of itself."""

    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []


@coordinator_key(key=11, versions="0", flexible="none")
class ShareGroupMetadataKey(Message):
    """Says which share group the record belongs to."""

    group_id: str = ""


@coordinator_value(key=11, versions="0", flexible="0+")
class ShareGroupMetadataValue(Message):
    """A share group's epoch, and the hash of the topics that it was computed for."""

    epoch: i32 = 0
    metadata_hash: i64 = 0


@coordinator_key(key=12, versions="0", flexible="none")
class ShareGroupTargetAssignmentMetadataKey(Message):
    """Says which share group the record belongs to."""

    group_id: str = ""


@coordinator_value(key=12, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMetadataValue(Message):
    """The epoch for which the target assignment was made."""

    assignment_epoch: i32 = 0
    assignment_timestamp: Annotated[i64, Tag(0)] = 0


@coordinator_key(key=13, versions="0", flexible="none")
class ShareGroupTargetAssignmentMemberKey(Message):
    """Says which member of a share group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=13, versions="0", flexible="0+")
class ShareGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member shall have."""

    class TopicPartition(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    topic_partitions: list[TopicPartition] = []


@coordinator_key(key=14, versions="0", flexible="none")
class ShareGroupCurrentMemberAssignmentKey(Message):
    """Says which member of a share group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=14, versions="0", flexible="0+")
class ShareGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has."""

    class TopicPartitions(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    member_epoch: i32 = 0
    previous_member_epoch: i32 = 0
    state: i8 = 0
    assigned_partitions: list[TopicPartitions] = []


@coordinator_key(key=15, versions="0", flexible="none")
class ShareGroupStatePartitionMetadataKey(Message):
    """Says which share group the record belongs to."""

    group_id: str = ""


@coordinator_value(key=15, versions="0", flexible="0+")
class ShareGroupStatePartitionMetadataValue(Message):
    """Says which partitions have stored state, are getting it, or are losing it."""

    class TopicPartitionsInfo(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        topic_name: str = ""
        partitions: list[i32] = []

    class TopicInfo(Struct):
        """A topic whose state is being deleted."""

        topic_id: Uuid = ZERO_UUID
        topic_name: str = ""

    initializing_topics: list[TopicPartitionsInfo] = []
    initialized_topics: list[TopicPartitionsInfo] = []
    deleting_topics: list[TopicInfo] = []
