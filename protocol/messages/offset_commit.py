"""OffsetCommit, API key 8. Asked by: client (consumer, admin)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import Uuid, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=8, versions="2-10", flexible="8+", listeners="broker")
class OffsetCommitRequest(Message):
    """Record how far a group has read.

    From version 6 leader epochs, 7 static members, 9 the member epoch of the newer groups (KIP-848), 10 topic
    ids.
    """

    class OffsetCommitRequestTopic(Struct):
        """Offsets of one topic."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partitions: list["OffsetCommitRequest.OffsetCommitRequestPartition"] = []

    class OffsetCommitRequestPartition(Struct):
        """The offset of one partition."""

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
        """The results for one topic."""

        name: Annotated[str, Until(9), Ignorable] = ""
        topic_id: Annotated[Uuid, Since(10), Ignorable] = ZERO_UUID
        partitions: list["OffsetCommitResponse.OffsetCommitResponsePartition"] = []

    class OffsetCommitResponsePartition(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: Annotated[i32, Since(3), Ignorable] = 0
    topics: list[OffsetCommitResponseTopic] = []
