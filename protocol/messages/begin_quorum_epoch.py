"""BeginQuorumEpoch, API key 53. It is sent by the leader of the metadata quorum."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=53, versions="0-1", flexible="1+", listeners="controller")
class BeginQuorumEpochRequest(Message):
    """Tells a voter that the sender leads a new epoch (KIP-595)."""

    class TopicData(Struct):
        """Names partitions of one topic."""

        topic_name: str = ""
        partitions: list["BeginQuorumEpochRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names the leader of the partition, and its epoch."""

        partition_index: i32 = 0
        voter_directory_id: Annotated[Uuid, Since(1), Ignorable] = ZERO_UUID
        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class LeaderEndpoint(Struct):
        """Names a listener of the leader, and the address at which it is reached."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    cluster_id: str | None = None
    voter_id: Annotated[i32, Since(1), Ignorable] = -1
    topics: list[TopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], Since(1), Ignorable] = []


@response(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse(Message):
    """Says whether the voter follows the leader, and which leader it knows."""

    class TopicData(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        partitions: list["BeginQuorumEpochResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: u16 = 0

    error_code: i16 = 0
    topics: list[TopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=1)] = []
