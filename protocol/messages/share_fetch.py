"""ShareFetch, API key 78. It is sent by share consumers."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Ignorable, Message, Since, Struct, Until, request, response
from protocol.primitives import Records, Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=78, versions="1-2", flexible="0+", listeners="broker")
class ShareFetchRequest(Message):
    """Acquires records for a member of a share group, and acknowledges earlier ones (KIP-932).

    From version 2 on it says how strictly the limits on records are kept (KIP-1206).
    """

    class FetchTopic(Struct):
        """Names partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ShareFetchRequest.FetchPartition"] = []

    class FetchPartition(Struct):
        """Names a partition, and acknowledges records that were acquired from it."""

        partition_index: i32 = 0
        partition_max_bytes: Annotated[i32, Until(0)] = 0
        acknowledgement_batches: list["ShareFetchRequest.AcknowledgementBatch"] = []

    class AcknowledgementBatch(Struct):
        """Acknowledges a range of offsets, with one type for all of its records or with one for each."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        acknowledge_types: list[i8] = []

    class ForgottenTopic(Struct):
        """Names partitions that leave the share session."""

        topic_id: Uuid = ZERO_UUID
        partitions: list[i32] = []

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: i32 = 0
    max_wait_ms: i32 = 0
    min_bytes: i32 = 0
    max_bytes: i32 = 0x7FFFFFFF
    max_records: i32 = 0
    batch_size: i32 = 0
    share_acquire_mode: Annotated[i8, Since(2), Ignorable] = 0
    is_renew_ack: Annotated[bool, Since(2)] = False
    topics: list[FetchTopic] = []
    forgotten_topics_data: list[ForgottenTopic] = []


@response(key=78, versions="1-2", flexible="0+")
class ShareFetchResponse(Message):
    """Holds records, and says which of them the member has acquired."""

    class ShareFetchableTopicResponse(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ShareFetchResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the records of one partition, and says which of them were acquired."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None
        acknowledge_error_code: i16 = 0
        acknowledge_error_message: str | None = None
        current_leader: "ShareFetchResponse.LeaderIdAndEpoch" = field(
            default_factory=lambda: ShareFetchResponse.LeaderIdAndEpoch()
        )
        records: Records = b""
        acquired_records: list["ShareFetchResponse.AcquiredRecords"] = []

    class LeaderIdAndEpoch(Struct):
        """Names the current leader of the partition, and its leader epoch."""

        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class AcquiredRecords(Struct):
        """Names a range of offsets that the member has acquired, and how often its records were delivered."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        delivery_count: i16 = 0

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: i32 = 0
    responses: list[ShareFetchableTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []
