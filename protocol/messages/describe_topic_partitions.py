"""DescribeTopicPartitions, API key 75. It is sent by admin clients."""

from protocol.codec.message import Message, Struct, request, response
from protocol.primitives import Uuid, i16, i32
from protocol.values import ZERO_UUID


@request(key=75, versions="0", flexible="0+", listeners="broker")
class DescribeTopicPartitionsRequest(Message):
    """Asks for a description of topics page by page, with their eligible leader replicas (KIP-966)."""

    class TopicRequest(Struct):
        """Names a topic."""

        name: str = ""

    class Cursor(Struct):
        """Names the topic and the partition with which a page starts."""

        topic_name: str = ""
        partition_index: i32 = 0

    topics: list[TopicRequest] = []
    response_partition_limit: i32 = 2000
    cursor: Cursor | None = None


@response(key=75, versions="0", flexible="0+")
class DescribeTopicPartitionsResponse(Message):
    """Holds one page of topics, and says where the next page starts."""

    class DescribeTopicPartitionsResponseTopic(Struct):
        """Describes one topic by those of its partitions that fit into the page."""

        error_code: i16 = 0
        name: str | None = ""
        topic_id: Uuid = ZERO_UUID
        is_internal: bool = False
        partitions: list["DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition"] = []
        topic_authorized_operations: i32 = -2147483648

    class DescribeTopicPartitionsResponsePartition(Struct):
        """Describes one partition and its replicas."""

        error_code: i16 = 0
        partition_index: i32 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = -1
        replica_nodes: list[i32] = []
        isr_nodes: list[i32] = []
        eligible_leader_replicas: list[i32] | None = None
        last_known_elr: list[i32] | None = None
        offline_replicas: list[i32] = []

    class Cursor(Struct):
        """Names the topic and the partition with which a page starts."""

        topic_name: str = ""
        partition_index: i32 = 0

    throttle_time_ms: i32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor: Cursor | None = None
