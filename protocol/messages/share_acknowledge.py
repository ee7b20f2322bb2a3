"""ShareAcknowledge, API key 79. It is sent by share consumers."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i8, i16, i32, i64
from protocol.values import ZERO_UUID


@request(key=79, versions="1-2", flexible="0+", listeners="broker")
class ShareAcknowledgeRequest(Message):
    """Acknowledges records that a share group has acquired: they are accepted, released, rejected, or from
    version 2 on renewed (KIP-932)."""

    class AcknowledgeTopic(Struct):
        """Holds the acknowledgements for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ShareAcknowledgeRequest.AcknowledgePartition"] = []

    class AcknowledgePartition(Struct):
        """Holds the acknowledgements for one partition."""

        partition_index: i32 = 0
        acknowledgement_batches: list["ShareAcknowledgeRequest.AcknowledgementBatch"] = []

    class AcknowledgementBatch(Struct):
        """Acknowledges a range of offsets, with one type for all of its records or with one for each."""

        first_offset: i64 = 0
        last_offset: i64 = 0
        acknowledge_types: list[i8] = []

    group_id: str | None = None
    member_id: str | None = ""
    share_session_epoch: i32 = 0
    is_renew_ack: Annotated[bool, Since(2)] = False
    topics: list[AcknowledgeTopic] = []


@response(key=79, versions="1-2", flexible="0+")
class ShareAcknowledgeResponse(Message):
    """Says for each partition whether the acknowledgements were recorded."""

    class ShareAcknowledgeTopicResponse(Struct):
        """Holds the results for the partitions of one topic."""

        topic_id: Uuid = ZERO_UUID
        partitions: list["ShareAcknowledgeResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: str | None = None
        current_leader: "ShareAcknowledgeResponse.LeaderIdAndEpoch" = field(
            default_factory=lambda: ShareAcknowledgeResponse.LeaderIdAndEpoch()
        )

    class LeaderIdAndEpoch(Struct):
        """Names the current leader of the partition, and its leader epoch."""

        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: i32 = 0
        rack: str | None = None

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: Annotated[i32, Since(2), Ignorable] = 0
    responses: list[ShareAcknowledgeTopicResponse] = []
    node_endpoints: list[NodeEndpoint] = []
