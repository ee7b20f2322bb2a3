"""StreamsGroupHeartbeat, API key 88. It is sent by Kafka Streams clients (KIP-1071)."""

from msgspec import field

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i8, i16, i32, i64, u16


@request(key=88, versions="0", flexible="0+", listeners="broker")
class StreamsGroupHeartbeatRequest(Message):
    """Joins, stays in or leaves a Streams group (KIP-1071).

    Fields that have not changed since the last heartbeat are null. The first heartbeat holds the topology.
    """

    class Topology(Struct):
        """Describes the topology of the group by its subtopologies."""

        epoch: i32 = 0
        subtopologies: list["StreamsGroupHeartbeatRequest.Subtopology"] = []

    class Subtopology(Struct):
        """Describes a part of the topology that runs as tasks of its own."""

        subtopology_id: str = ""
        source_topics: list[str] = []
        source_topic_regex: list[str] = []
        state_changelog_topics: list["StreamsGroupHeartbeatRequest.TopicInfo"] = []
        repartition_sink_topics: list[str] = []
        repartition_source_topics: list["StreamsGroupHeartbeatRequest.TopicInfo"] = []
        copartition_groups: list["StreamsGroupHeartbeatRequest.CopartitionGroup"] = []

    class TopicInfo(Struct):
        """Describes an internal topic that the topology needs."""

        name: str = ""
        partitions: i32 = 0
        replication_factor: i16 = 0
        topic_configs: list["StreamsGroupHeartbeatRequest.KeyValue"] = []

    class KeyValue(Struct):
        """Holds a name and its value."""

        key: str = ""
        value: str = ""

    class CopartitionGroup(Struct):
        """Names source topics by their indexes; they must have the same number of partitions."""

        source_topics: list[i16] = []
        source_topic_regex: list[i16] = []
        repartition_source_topics: list[i16] = []

    class TaskIds(Struct):
        """Names tasks of one subtopology by their partitions."""

        subtopology_id: str = ""
        partitions: list[i32] = []

    class Endpoint(Struct):
        """Holds a host and a port."""

        host: str = ""
        port: u16 = 0

    class TaskOffset(Struct):
        """Holds the offset that a task has reached."""

        subtopology_id: str = ""
        partition: i32 = 0
        offset: i64 = 0

    group_id: str = ""
    member_id: str = ""
    member_epoch: i32 = 0
    endpoint_information_epoch: i32 = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: i32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: str | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False


@response(key=88, versions="0", flexible="0+")
class StreamsGroupHeartbeatResponse(Message):
    """Tells the member its epoch and its tasks, and what is wrong with the group."""

    class Status(Struct):
        """Names a problem of the group by a code and a message."""

        status_code: i8 = 0
        status_detail: str = ""

    class TaskIds(Struct):
        """Names tasks of one subtopology by their partitions."""

        subtopology_id: str = ""
        partitions: list[i32] = []

    class EndpointToPartitions(Struct):
        """Names the partitions that can be queried at the address of one member."""

        user_endpoint: "StreamsGroupHeartbeatResponse.Endpoint" = field(
            default_factory=lambda: StreamsGroupHeartbeatResponse.Endpoint()
        )
        active_partitions: list["StreamsGroupHeartbeatResponse.TopicPartition"] = []
        standby_partitions: list["StreamsGroupHeartbeatResponse.TopicPartition"] = []

    class Endpoint(Struct):
        """Holds a host and a port."""

        host: str = ""
        port: u16 = 0

    class TopicPartition(Struct):
        """Names partitions of one topic."""

        topic: str = ""
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: i32 = 0
    heartbeat_interval_ms: i32 = 0
    acceptable_recovery_lag: i32 = 0
    task_offset_interval_ms: i32 = 0
    status: list[Status] | None = []
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: i32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
