"""EndQuorumEpoch, API key 54. It is sent by the leader of the metadata quorum."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=54, versions="0-1", flexible="1+", listeners="controller")
class EndQuorumEpochRequest(Message):
    """Tells the voters that the leader resigns, and which of them it prefers as its successor (KIP-595)."""

    class TopicData(Struct):
        """Names partitions of one topic."""

        topic_name: str = ""
        partitions: list["EndQuorumEpochRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Names the leader that resigns, its epoch, and the preferred successors."""

        partition_index: i32 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        preferred_successors: Annotated[list[i32], Until(0), Ignorable] = []
        preferred_candidates: Annotated[list["EndQuorumEpochRequest.ReplicaInfo"], Since(1), Ignorable] = []

    class ReplicaInfo(Struct):
        """Names a preferred successor of the leader."""

        candidate_id: i32 = 0
        candidate_directory_id: Uuid = ZERO_UUID

    class LeaderEndpoint(Struct):
        """Names a listener of the leader, and the address at which it is reached."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    cluster_id: str | None = None
    topics: list[TopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], Since(1), Ignorable] = []


@response(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse(Message):
    """Says whether the voter has accepted the resignation."""

    class TopicData(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        partitions: list["EndQuorumEpochResponse.PartitionData"] = []

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
