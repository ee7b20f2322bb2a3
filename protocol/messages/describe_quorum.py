"""DescribeQuorum, API key 55. It is sent by admin clients and controllers.

Brokers forward the request to the controller.
"""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, request, response
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@request(key=55, versions="0-2", flexible="0+", listeners="broker controller")
class DescribeQuorumRequest(Message):
    """Asks for the state of the metadata quorum (KIP-642)."""

    class TopicData(Struct):
        """Names partitions of one topic."""

        topic_name: str = ""
        partitions: list["DescribeQuorumRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names a partition of the metadata topic."""

        partition_index: i32 = 0

    topics: list[TopicData] = []


@response(key=55, versions="0-2", flexible="0+")
class DescribeQuorumResponse(Message):
    """Tells the leader, the voters and the observers of the quorum, with the log end offset of each.

    From version 2 on it tells the addresses of the voters (KIP-853).
    """

    class TopicData(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        partitions: list["DescribeQuorumResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Describes the quorum of one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        error_message: Annotated[str | None, Since(2), Ignorable] = ""
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        high_watermark: i64 = 0
        current_voters: list["DescribeQuorumResponse.ReplicaState"] = []
        observers: list["DescribeQuorumResponse.ReplicaState"] = []

    class ReplicaState(Struct):
        """Says how far one replica of the quorum has replicated the log."""

        replica_id: i32 = 0
        replica_directory_id: Annotated[Uuid, Since(2)] = ZERO_UUID
        log_end_offset: i64 = 0
        last_fetch_timestamp: Annotated[i64, Since(1), Ignorable] = -1
        last_caught_up_timestamp: Annotated[i64, Since(1), Ignorable] = -1

    class Node(Struct):
        """Lists the listeners of one voter."""

        node_id: i32 = 0
        listeners: list["DescribeQuorumResponse.Listener"] = []

    class Listener(Struct):
        """Names a listener of the node, and the address at which it is reached."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    error_code: i16 = 0
    error_message: Annotated[str | None, Since(2), Ignorable] = ""
    topics: list[TopicData] = []
    nodes: Annotated[list[Node], Since(2)] = []
