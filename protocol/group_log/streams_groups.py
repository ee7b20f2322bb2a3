"""Streams groups."""

from typing import Annotated

from protocol.codec.message import Message, Struct, Tag, coordinator_key, coordinator_value
from protocol.primitives import i8, i16, i32, i64, u16


@coordinator_key(key=17, versions="0", flexible="none")
class StreamsGroupMetadataKey(Message):
    """StreamsGroupMetadataKey."""

    group_id: str = ""


@coordinator_value(key=17, versions="0", flexible="0+")
class StreamsGroupMetadataValue(Message):
    """StreamsGroupMetadataValue."""

    class LastAssignmentConfig(Struct):
        key: str = ""
        value: str = ""

    epoch: i32 = 0
    metadata_hash: i64 = 0
    validated_topology_epoch: Annotated[i32, Tag(0)] = -1
    last_assignment_configs: Annotated[list[LastAssignmentConfig] | None, Tag(1)] = []


@coordinator_key(key=19, versions="0", flexible="none")
class StreamsGroupMemberMetadataKey(Message):
    """StreamsGroupMemberMetadataKey."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=19, versions="0", flexible="0+")
class StreamsGroupMemberMetadataValue(Message):
    """StreamsGroupMemberMetadataValue."""

    class Endpoint(Struct):
        host: str = ""
        port: u16 = 0

    class KeyValue(Struct):
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
    """StreamsGroupTargetAssignmentMetadataKey."""

    group_id: str = ""


@coordinator_value(key=20, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMetadataValue(Message):
    """StreamsGroupTargetAssignmentMetadataValue."""

    assignment_epoch: i32 = 0
    assignment_timestamp: Annotated[i64, Tag(0)] = 0


@coordinator_key(key=21, versions="0", flexible="none")
class StreamsGroupTargetAssignmentMemberKey(Message):
    """StreamsGroupTargetAssignmentMemberKey."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=21, versions="0", flexible="0+")
class StreamsGroupTargetAssignmentMemberValue(Message):
    """StreamsGroupTargetAssignmentMemberValue."""

    class TaskIds(Struct):
        subtopology_id: str = ""
        partitions: list[i32] = []

    active_tasks: list[TaskIds] = []
    standby_tasks: list[TaskIds] = []
    warmup_tasks: list[TaskIds] = []


@coordinator_key(key=22, versions="0", flexible="none")
class StreamsGroupCurrentMemberAssignmentKey(Message):
    """StreamsGroupCurrentMemberAssignmentKey."""

    group_id: str = ""
    member_id: str = ""


@coordinator_value(key=22, versions="0", flexible="0+")
class StreamsGroupCurrentMemberAssignmentValue(Message):
    """StreamsGroupCurrentMemberAssignmentValue."""

    class TaskIds(Struct):
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
    """StreamsGroupTopologyKey."""

    group_id: str = ""


@coordinator_value(key=23, versions="0", flexible="0+")
class StreamsGroupTopologyValue(Message):
    """StreamsGroupTopologyValue."""

    class Subtopology(Struct):
        subtopology_id: str = ""
        source_topics: list[str] = []
        source_topic_regex: list[str] = []
        state_changelog_topics: list["StreamsGroupTopologyValue.TopicInfo"] = []
        repartition_sink_topics: list[str] = []
        repartition_source_topics: list["StreamsGroupTopologyValue.TopicInfo"] = []
        copartition_groups: list["StreamsGroupTopologyValue.CopartitionGroup"] = []

    class TopicInfo(Struct):
        name: str = ""
        partitions: i32 = 0
        replication_factor: i16 = 0
        topic_configs: list["StreamsGroupTopologyValue.TopicConfig"] = []

    class TopicConfig(Struct):
        key: str = ""
        value: str = ""

    class CopartitionGroup(Struct):
        source_topics: list[i16] = []
        source_topic_regex: list[i16] = []
        repartition_source_topics: list[i16] = []

    epoch: i32 = 0
    subtopologies: list[Subtopology] = []
