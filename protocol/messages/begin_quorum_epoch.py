"""BeginQuorumEpoch, API key 53. Asked by: controller (raft leader)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=53, versions="0-1", flexible="1+", listeners="controller")
class BeginQuorumEpochRequest(Message):
    """A new leader makes itself known to voters (KIP-595)."""

    class TopicData(Struct):
        """The partitions of one topic."""

        topic_name: str = ""
        partitions: list["BeginQuorumEpochRequest.PartitionData"] = []

    class PartitionData(Struct):
        """What the request says about one partition."""

        partition_index: i32 = 0
        voter_directory_id: Annotated[Uuid, Since(1), Ignorable] = ZERO_UUID
        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class LeaderEndpoint(Struct):
        """One address of the leader."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    cluster_id: str | None = None
    voter_id: Annotated[i32, Since(1), Ignorable] = -1
    topics: list[TopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], Since(1), Ignorable] = []


@response(key=53, versions="0-1", flexible="1+")
class BeginQuorumEpochResponse(Message):
    """Says whether the leader was accepted, and who leads."""

    class TopicData(Struct):
        """The results for one topic."""

        topic_name: str = ""
        partitions: list["BeginQuorumEpochResponse.PartitionData"] = []

    class PartitionData(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0

    class NodeEndpoint(Struct):
        """The address of a leader that is named in this answer."""

        node_id: i32 = 0
        host: str = ""
        port: u16 = 0

    error_code: i16 = 0
    topics: list[TopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=1)] = []
