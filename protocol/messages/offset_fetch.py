"""OffsetFetch, API key 9. It is sent by consumers and admin clients."""

from typing import Annotated

from protocol.codec.message import (
    Between,
    Ignorable,
    Message,
    NullableSince,
    Since,
    Struct,
    Until,
    request,
    response,
)
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=9, versions="1-10", flexible="6+", listeners="broker")
class OffsetFetchRequest(Message):
    """Asks for the committed offsets of a group.

    From version 2 on null topics mean all topics. Version 7 has added the wish for stable offsets only
    (KIP-447), 8 several groups in one request, 9 the member epoch (KIP-848) and 10 topic ids.
    """

    class OffsetFetchRequestTopic(Struct):
        """Names partitions of one topic, up to version 7."""

        name: str = ""
        partition_indexes: list[i32] = []

    class OffsetFetchRequestGroup(Struct):
        """Names a group and the topics whose offsets are asked for. Null means all topics."""

        group_id: str = ""
        member_id: Annotated[str | None, Since(9), Ignorable] = None
        member_epoch: Annotated[i32, Since(9), Ignorable] = -1
        topics: list["OffsetFetchRequest.OffsetFetchRequestTopics"] | None = []

    class OffsetFetchRequestTopics(Struct):
        """Names partitions of one topic, from version 8 on."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partition_indexes: list[i32] = []

    group_id: Annotated[str, Until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), NullableSince(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = []
    require_stable: Annotated[bool, Since(7)] = False


@response(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    """Tells the committed offsets, or -1 where there is none.

    From version 8 on it holds results for several groups.
    """

    class OffsetFetchResponseTopic(Struct):
        """Holds the committed offsets of one topic's partitions, up to version 7."""

        name: str = ""
        partitions: list["OffsetFetchResponse.OffsetFetchResponsePartition"] = []

    class OffsetFetchResponsePartition(Struct):
        """Holds the committed offset of one partition, up to version 7."""

        partition_index: i32 = 0
        committed_offset: i64 = 0
        committed_leader_epoch: Annotated[i32, Since(5), Ignorable] = -1
        metadata: str | None = ""
        error_code: i16 = 0

    class OffsetFetchResponseGroup(Struct):
        """Holds the committed offsets of one group."""

        group_id: str = ""
        topics: list["OffsetFetchResponse.OffsetFetchResponseTopics"] = []
        error_code: i16 = 0

    class OffsetFetchResponseTopics(Struct):
        """Holds the committed offsets of one topic's partitions, from version 8 on."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partitions: list["OffsetFetchResponse.OffsetFetchResponsePartitions"] = []

    class OffsetFetchResponsePartitions(Struct):
        """Holds the committed offset of one partition, from version 8 on."""

        partition_index: i32 = 0
        committed_offset: i64 = 0
        committed_leader_epoch: i32 = -1
        metadata: str | None = ""
        error_code: i16 = 0

    throttle_time_ms: Annotated[i32, Since(3), Ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = []
    error_code: Annotated[i16, Between(2, 7), Ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = []
