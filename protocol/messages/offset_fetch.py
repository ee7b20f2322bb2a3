"""OffsetFetch, API key 9. Asked by: client (consumer, admin)."""

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
    """How far a group has read.

    From version 2 null topics mean all; 7 may insist on stable offsets (KIP-447); 8 asks for several groups;
    9 carries the member epoch (KIP-848), 10 topic ids.
    """

    class OffsetFetchRequestTopic(Struct):
        """Partitions of one topic, up to version 7."""

        name: str = ""
        partition_indexes: list[i32] = []

    class OffsetFetchRequestGroup(Struct):
        """A group, and the topics whose offsets are wanted; null means all."""

        group_id: str = ""
        member_id: Annotated[str | None, Since(9), Ignorable] = None
        member_epoch: Annotated[i32, Since(9), Ignorable] = -1
        topics: list["OffsetFetchRequest.OffsetFetchRequestTopics"] | None = []

    class OffsetFetchRequestTopics(Struct):
        """Partitions of one topic, from version 8 on."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partition_indexes: list[i32] = []

    group_id: Annotated[str, Until(7)] = ""
    topics: Annotated[list[OffsetFetchRequestTopic] | None, Until(7), NullableSince(2)] = []
    groups: Annotated[list[OffsetFetchRequestGroup], Since(8)] = []
    require_stable: Annotated[bool, Since(7)] = False


@response(key=9, versions="1-10", flexible="6+")
class OffsetFetchResponse(Message):
    """Committed offsets, -1 where there is none.

    From version 8 an answer per group.
    """

    class OffsetFetchResponseTopic(Struct):
        """Offsets of one topic, up to version 7."""

        name: str = ""
        partitions: list["OffsetFetchResponse.OffsetFetchResponsePartition"] = []

    class OffsetFetchResponsePartition(Struct):
        """The offset of one partition, up to version 7."""

        partition_index: i32 = 0
        committed_offset: i64 = 0
        committed_leader_epoch: Annotated[i32, Since(5), Ignorable] = -1
        metadata: str | None = ""
        error_code: i16 = 0

    class OffsetFetchResponseGroup(Struct):
        """The result for one group."""

        group_id: str = ""
        topics: list["OffsetFetchResponse.OffsetFetchResponseTopics"] = []
        error_code: i16 = 0

    class OffsetFetchResponseTopics(Struct):
        """Offsets of one topic, from version 8 on."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partitions: list["OffsetFetchResponse.OffsetFetchResponsePartitions"] = []

    class OffsetFetchResponsePartitions(Struct):
        """The offset of one partition, from version 8 on."""

        partition_index: i32 = 0
        committed_offset: i64 = 0
        committed_leader_epoch: i32 = -1
        metadata: str | None = ""
        error_code: i16 = 0

    throttle_time_ms: Annotated[i32, Since(3), Ignorable] = 0
    topics: Annotated[list[OffsetFetchResponseTopic], Until(7)] = []
    error_code: Annotated[i16, Between(2, 7), Ignorable] = 0
    groups: Annotated[list[OffsetFetchResponseGroup], Since(8)] = []
