"""DescribeShareGroupOffsets, API key 90. It is sent by admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=90, versions="0-1", flexible="0+", listeners="broker")
class DescribeShareGroupOffsetsRequest(Message):
    """Asks for the start offsets of share groups (KIP-932)."""

    class DescribeShareGroupOffsetsRequestGroup(Struct):
        """Names a group and the topics whose offsets are asked for. Null means all topics."""

        group_id: str = ""
        topics: list["DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestTopic"] | None = []

    class DescribeShareGroupOffsetsRequestTopic(Struct):
        """Names partitions of one topic."""

        topic_name: str = ""
        partitions: list[i32] = []

    groups: list[DescribeShareGroupOffsetsRequestGroup] = []


@response(key=90, versions="0-1", flexible="0+")
class DescribeShareGroupOffsetsResponse(Message):
    """Tells the start offsets of the groups, and from version 1 on their lag."""

    class DescribeShareGroupOffsetsResponseGroup(Struct):
        """Holds the offsets of one group."""

        group_id: str = ""
        topics: list["DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic"] = []
        error_code: i16 = 0
        error_message: str | None = None

    class DescribeShareGroupOffsetsResponseTopic(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        topic_id: Uuid = ZERO_UUID
        partitions: list["DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponsePartition"] = []

    class DescribeShareGroupOffsetsResponsePartition(Struct):
        """Holds the start offset that the group has in one partition."""

        partition_index: i32 = 0
        start_offset: i64 = 0
        leader_epoch: i32 = 0
        lag: Annotated[i64, Since(1), Ignorable] = -1
        error_code: i16 = 0
        error_message: str | None = None

    throttle_time_ms: i32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = []
