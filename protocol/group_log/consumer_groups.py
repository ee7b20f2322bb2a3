"""Consumer groups of the newer protocol (KIP-848) in `__consumer_offsets`."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Message, Nullable, Struct, Tag, coordinator_key, coordinator_value
from protocol.primitives import Uuid, i8, i32, i64
from protocol.values import ZERO_UUID


@coordinator_key(key=3, versions="0", flexible="none")
class ConsumerGroupMetadataKey(Message):
    """Says which consumer group (KIP-848) the record belongs to."""

    group_id: str = ""


@coordinator_value(key=3, versions="0", flexible="0+")
class ConsumerGroupMetadataValue(Message):
    """A consumer group's epoch, and the hash of the topics that it was computed for."""

    epoch: i32 = 0
    metadata_hash: Annotated[i64, Tag(0)] = 0


@coordinator_key(key=4, versions="0", flexible="none")
class ConsumerGroupPartitionMetadataKey(Message):
    """Says which consumer group the record belongs to. Such records are only read."""

    group_id: str = ""


@coordinator_value(key=4, versions="0", flexible="0+")
class ConsumerGroupPartitionMetadataValue(Message):
    """The topics a consumer group subscribed to, as it saw them; replaced by the metadata hash, only read."""

    class TopicMetadata(Struct):
        """One topic, as the group saw it."""

        topic_id: Uuid = ZERO_UUID
        topic_name: str = ""
        num_partitions: i32 = 0
        partition_metadata: list["ConsumerGroupPartitionMetadataValue.PartitionMetadata"] = []

    class PartitionMetadata(Struct):
        """One partition, and the racks of its replicas."""

        partition: i32 = 0
        racks: list[str] = []

    topics: list[TopicMetadata] = []


@coordinator_key(key=5, versions="0", flexible="none")
class ConsumerGroupMemberMetadataKey(Message):
    """Says which member of a consumer group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=5, versions="0", flexible="0+")
class ConsumerGroupMemberMetadataValue(Message):
    """Holds what a member of a consumer group said of itself."""

    class ClassicMemberMetadata(Struct):
        """Holds what a member that still speaks the classic protocol has said."""

        session_timeout_ms: i32 = 0
        supported_protocols: list["ConsumerGroupMemberMetadataValue.ClassicProtocol"] = []

    class ClassicProtocol(Struct):
        """An assignor that a classic member can use."""

        name: str = ""
        metadata: bytes = b""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: i32 = -1
    server_assignor: str | None = ""
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Tag(0), Nullable] = field(
        default_factory=ClassicMemberMetadata
    )


@coordinator_key(key=6, versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Says which consumer group the record belongs to."""

    group_id: str = ""


@coordinator_value(key=6, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """The epoch for which the target assignment was made."""

    assignment_epoch: i32 = 0
    assignment_timestamp: Annotated[i64, Tag(0)] = 0


@coordinator_key(key=7, versions="0", flexible="none")
class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Says which member of a consumer group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=7, versions="0", flexible="0+")
class ConsumerGroupTargetAssignmentMemberValue(Message):
    """The partitions that a member shall have."""

    class TopicPartition(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    topic_partitions: list[TopicPartition] = []


@coordinator_key(key=8, versions="0", flexible="none")
class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Says which member of a consumer group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=8, versions="0", flexible="0+")
class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """The partitions that a member has, and those that it must give up first."""

    class TopicPartitions(Struct):
        """The partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []
        assignment_epochs: Annotated[list[i32] | None, Tag(0)] = []

    member_epoch: i32 = 0
    previous_member_epoch: i32 = 0
    state: i8 = 0
    assigned_partitions: list[TopicPartitions] = []
    partitions_pending_revocation: list[TopicPartitions] = []


@coordinator_key(key=16, versions="0", flexible="none")
class ConsumerGroupRegularExpressionKey(Message):
    """A regular expression to which members of a consumer group subscribe."""

    group_id: str = ""
    regular_expression: str = ""


@coordinator_value(key=16, versions="0", flexible="0+")
class ConsumerGroupRegularExpressionValue(Message):
    """The topics that matched a regular expression when it was last resolved."""

    topics: list[str] = []
    version: i64 = 0
    timestamp: i64 = 0
