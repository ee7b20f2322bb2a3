"""TxnOffsetCommit, API key 28. It is sent by transactional producers."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import i16, i32, i64


@request(key=28, versions="0-5", flexible="3+", listeners="broker")
class TxnOffsetCommitRequest(Message):
    """Commits the offsets of a group as part of a transaction.

    From version 3 on it names the member and its generation (KIP-447). From version 5 on it adds the
    partition of the offsets to the transaction (KIP-890).
    """

    class TxnOffsetCommitRequestTopic(Struct):
        """Holds the offsets of one topic's partitions."""

        name: str = ""
        partitions: list["TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition"] = []

    class TxnOffsetCommitRequestPartition(Struct):
        """Holds the offset that is committed for one partition."""

        partition_index: i32 = 0
        committed_offset: i64 = 0
        committed_leader_epoch: Annotated[i32, Since(2), Ignorable] = -1
        committed_metadata: str | None = ""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: i64 = 0
    producer_epoch: i16 = 0
    generation_id: Annotated[i32, Since(3)] = -1
    member_id: Annotated[str, Since(3)] = ""
    group_instance_id: Annotated[str | None, Since(3)] = None
    topics: list[TxnOffsetCommitRequestTopic] = []


@response(key=28, versions="0-5", flexible="3+")
class TxnOffsetCommitResponse(Message):
    """Says for each partition whether the offset was committed."""

    class TxnOffsetCommitResponseTopic(Struct):
        """Holds the results for the partitions of one topic."""

        name: str = ""
        partitions: list["TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition"] = []

    class TxnOffsetCommitResponsePartition(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0

    throttle_time_ms: i32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = []
