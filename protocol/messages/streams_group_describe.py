"""StreamsGroupDescribe, API key 89. It is sent by admin clients."""

from msgspec import field

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import i16, i32, i64, u16


@request(key=89, versions="0", flexible="0+", listeners="broker")
class StreamsGroupDescribeRequest(Message):
    """Asks for a description of Streams groups (KIP-1071)."""

    group_ids: list[str] = []
    include_authorized_operations: bool = False


@response(key=89, versions="0", flexible="0+")
class StreamsGroupDescribeResponse(Message):
    """Describes the groups: their topologies, and their members with the tasks of each."""

    class DescribedGroup(Struct):
        """Describes one group, or says why it cannot be described."""

        error_code: i16 = 0
        error_message: str | None = None
        group_id: str = ""
        group_state: str = ""
        group_epoch: i32 = 0
        assignment_epoch: i32 = 0
        topology: "StreamsGroupDescribeResponse.Topology | None" = None
        members: list["StreamsGroupDescribeResponse.Member"] = []
        authorized_operations: i32 = -2147483648

    class Topology(Struct):
        """Describes the topology of the group by its subtopologies."""

        epoch: i32 = 0
        subtopologies: list["StreamsGroupDescribeResponse.Subtopology"] | None = None

    class Subtopology(Struct):
        """Describes a part of the topology that runs as tasks of its own."""

        subtopology_id: str = ""
        source_topics: list[str] = []
        repartition_sink_topics: list[str] = []
        state_changelog_topics: list["StreamsGroupDescribeResponse.TopicInfo"] = []
        repartition_source_topics: list["StreamsGroupDescribeResponse.TopicInfo"] = []

    class TopicInfo(Struct):
        """Describes an internal topic that the topology needs."""

        name: str = ""
        partitions: i32 = 0
        replication_factor: i16 = 0
        topic_configs: list["StreamsGroupDescribeResponse.KeyValue"] = []

    class KeyValue(Struct):
        """Holds a name and its value."""

        key: str = ""
        value: str = ""

    class Member(Struct):
        """Describes one member of the group."""

        member_id: str = ""
        member_epoch: i32 = 0
        instance_id: str | None = None
        rack_id: str | None = None
        client_id: str = ""
        client_host: str = ""
        topology_epoch: i32 = 0
        process_id: str = ""
        user_endpoint: "StreamsGroupDescribeResponse.Endpoint | None" = None
        client_tags: list["StreamsGroupDescribeResponse.KeyValue"] = []
        task_offsets: list["StreamsGroupDescribeResponse.TaskOffset"] = []
        task_end_offsets: list["StreamsGroupDescribeResponse.TaskOffset"] = []
        assignment: "StreamsGroupDescribeResponse.Assignment" = field(
            default_factory=lambda: StreamsGroupDescribeResponse.Assignment()
        )
        target_assignment: "StreamsGroupDescribeResponse.Assignment" = field(
            default_factory=lambda: StreamsGroupDescribeResponse.Assignment()
        )
        is_classic: bool = False

    class Endpoint(Struct):
        """Holds a host and a port."""

        host: str = ""
        port: u16 = 0

    class TaskOffset(Struct):
        """Holds the offset that a task has reached."""

        subtopology_id: str = ""
        partition: i32 = 0
        offset: i64 = 0

    class Assignment(Struct):
        """Holds the tasks that are assigned to the member."""

        active_tasks: list["StreamsGroupDescribeResponse.TaskIds"] = []
        standby_tasks: list["StreamsGroupDescribeResponse.TaskIds"] = []
        warmup_tasks: list["StreamsGroupDescribeResponse.TaskIds"] = []

    class TaskIds(Struct):
        """Names tasks of one subtopology by their partitions."""

        subtopology_id: str = ""
        partitions: list[i32] = []

    throttle_time_ms: i32 = 0
    groups: list[DescribedGroup] = []
