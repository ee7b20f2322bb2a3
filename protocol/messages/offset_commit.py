"""OffsetCommit, API key 8. It is sent by consumers and admin clients."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=8, versions="2-10", flexible="8+", listeners="broker")
class OffsetCommitRequest(Message):
    """Commits the offsets up to which a group has read.

    The versions have added: 6 leader epochs, 7 static members, 9 the member epoch of the newer groups
    (KIP-848), 10 topic ids.
    """

    class OffsetCommitRequestTopic(Struct):
        """Holds the offsets of one topic's partitions."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partitions: list["OffsetCommitRequest.OffsetCommitRequestPartition"] = []

    class OffsetCommitRequestPartition(Struct):
        """Holds the offset that is committed for one partition."""

        partition_index: i32 = 0
        committed_offset: i64 = 0
        committed_leader_epoch: Annotated[i32, Since(6), Ignorable] = -1
        committed_metadata: str | None = ""

    group_id: str = ""
    generation_id_or_member_epoch: i32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, Since(7)] = None
    retention_time_ms: Annotated[i64, Until(4), Ignorable] = -1
    topics: list[OffsetCommitRequestTopic] = []


@response(key=8, versions="2-10", flexible="8+")
class OffsetCommitResponse(Message):
    """Says for each partition whether the offset was committed."""

    class OffsetCommitResponseTopic(Struct):
        """Holds the results for the partitions of one topic."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partitions: list["OffsetCommitResponse.OffsetCommitResponsePartition"] = []

    class OffsetCommitResponsePartition(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: Annotated[i32, Since(3), Ignorable] = 0
    topics: list[OffsetCommitResponseTopic] = []
