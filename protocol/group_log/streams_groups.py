"""Streams groups (KIP-1071) in `__consumer_offsets`."""

from typing import Annotated

from protocol.codec.message import Message, Struct, Tag, coordinator_key, coordinator_value
from protocol.primitives import i8, i16, i32, i64, u16


@coordinator_key(key=17, versions="0", flexible="none")
class StreamsGroupMetadataKey(Message):
    """Says which Streams group (KIP-1071) the record belongs to."""

    group_id: str = ""


@coordinator_value(key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """A Streams group's epoch, and what its topology was last validated against."""

    class LastAssignmentConfig(Struct):
        """A config with which the last assignment was made."""

        key: str = ""
        value: str = ""

    epoch: i32 = 0
    metadata_hash: i64 = 0
    validated_topology_epoch: Annotated[i32, Tag(0)] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, Tag(1)] = []


@coordinator_key(key=19, versions="0", flexible="none")
class StreamsGroupMemberMetadataKey(Message):
    """Says which member of a Streams group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """Holds what a member of a Streams group said of itself."""

    class Endpoint(Struct):
        """A host and a port."""

        host: str = ""
        port: u16 = 0

    class KeyValue(Struct):
        """A name and its value."""

        key: str = ""
        value: str = ""

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: i32 = -1
    topology_epoch: i32 = 0
    process_id: str = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = []


@coordinator_key(key=20, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Says which Streams group the record belongs to."""

    group_id: str = ""


@coordinator_value(key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """The epoch for which the target assignment was made."""

    assignment_epoch: i32 = 0
    assignment_timestamp: Annotated[i64, Tag(0)] = 0


@coordinator_key(key=21, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """Says which member of a Streams group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """The tasks that a member shall have."""

    class TaskIds(Struct):
        """Tasks of one subtopology, by partition."""

        subtopology_id: str = ""
        partitions: list[i32] = []

    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


@coordinator_key(key=22, versions="0", flexible="none")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Says which member of a Streams group the record belongs to."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """The tasks that a member has, and those that it must give up first."""

    class TaskIds(Struct):
        """Tasks of one subtopology, by partition."""

        subtopology_id: str = ""
        partitions: list[i32] = []
        assignment_epochs: Annotated[list[i32] | None, Tag(0)] = []

    member_epoch: i32 = 0
    previous_member_epoch: i32 = 0
    state: i8 = 0
    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []
    active_tasks_pending_revocation: list[TaskIds] = []
    standby_tasks_pending_revocation: list[TaskIds] = []
    warmup_tasks_pending_revocation: list[TaskIds] = []


@coordinator_key(key=23, versions="0", flexible="none")
class StreamsGroupTopologyKey(Message):
    """Says which Streams group the record belongs to."""

    group_id: str = ""


@coordinator_value(key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """The topology that a Streams group runs."""

    class Subtopology(Struct):
        """A part of the topology that runs as tasks of its own."""

        subtopology_id: str = ""
        source_topics: list[str] = []
        source_topic_regex: list[str] = []
        state_changelog_topics: list["StreamsGroupTopologyValue.TopicInfo"] = []
        repartition_sink_topics: list[str] = []
        repartition_source_topics: list["StreamsGroupTopologyValue.TopicInfo"] = []
        copartition_groups: list["StreamsGroupTopologyValue.CopartitionGroup"] = []

    class TopicInfo(Struct):
        """An internal topic that the topology needs."""

        name: str = ""
        partitions: i32 = 0
        replication_factor: i16 = 0
        topic_configs: list["StreamsGroupTopologyValue.TopicConfig"] = []

    class TopicConfig(Struct):
        """A config of the topic."""

        key: str = ""
        value: str = ""

    class CopartitionGroup(Struct):
        """Source topics that must have equally many partitions, by index."""

        source_topics: list[i16] = []
        source_topic_regex: list[i16] = []
        repartition_source_topics: list[i16] = []

    epoch: i32 = 0
    subtopologies: list[Subtopology] = []
