"""DescribeQuorum, API key 55. Asked by: admin; controller.

Brokers forward it to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@request(key=55, versions="0-2", flexible="0+", listeners="broker controller")
class DescribeQuorumRequest(Message):
    """The state of the Raft quorum (KIP-642)."""

    class TopicData(Struct):
        """The partitions of one topic."""

        topic_name: str = ""
        partitions: list["DescribeQuorumRequest.PartitionData"] = []

    class PartitionData(Struct):
        """What the request says about one partition."""

        partition_index: i32 = 0

    topics: list[TopicData] = []


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    """Leader, voters and observers with their log ends; from version 2 their addresses (KIP-853)."""

    class TopicData(Struct):
        """The results for one topic."""

        topic_name: str = ""
        partitions: list["DescribeQuorumResponse.PartitionData"] = []

    class PartitionData(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: Annotated[str | None, Since(2), Ignorable] = ""
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        high_watermark: i64 = 0
        current_voters: list["DescribeQuorumResponse.ReplicaState"] = []
        observers: list["DescribeQuorumResponse.ReplicaState"] = []

    class ReplicaState(Struct):
        """Says how far one replica of the quorum has come."""

        replica_id: i32 = 0
        replica_directory_id: Annotated[Uuid, Since(2)] = ZERO_UUID
        log_end_offset: i64 = 0
        last_fetch_timestamp: Annotated[i64, Since(1), Ignorable] = -1
        last_caught_up_timestamp: Annotated[i64, Since(1), Ignorable] = -1

    class Node(Struct):
        """A coordinator's address."""

        node_id: i32 = 0
        listeners: list["DescribeQuorumResponse.Listener"] = []

    class Listener(Struct):
        """One address of the node, with the listener that it belongs to."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    error_code: i16 = 0
    error_message: Annotated[str | None, Since(2), Ignorable] = ""
    topics: list[TopicData] = []
    nodes: Annotated[list[Node], Since(2)] = []
