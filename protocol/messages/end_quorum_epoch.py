"""EndQuorumEpoch, API key 54. Asked by: controller (raft leader)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, Until, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=54, versions="0-1", flexible="1+", listeners="controller")
class EndQuorumEpochRequest(Message):
    """A leader resigns and names whom it prefers (KIP-595)."""

    class TopicData(Struct):
        """The partitions of one topic."""

        topic_name: str = ""
        partitions: list["EndQuorumEpochRequest.PartitionData"] = []

    class PartitionData(Struct):
        """What the request says about one partition."""

        partition_index: i32 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        preferred_successors: Annotated[list[i32], Until(0), Ignorable] = []
        preferred_candidates: Annotated[list["EndQuorumEpochRequest.ReplicaInfo"], Since(1), Ignorable] = []

    class ReplicaInfo(Struct):
        """Says how far one replica has come."""

        candidate_id: i32 = 0
        candidate_directory_id: Uuid = ZERO_UUID

    class LeaderEndpoint(Struct):
        """One address of the leader."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    cluster_id: str | None = None
    topics: list[TopicData] = []
    leader_endpoints: Annotated[list[LeaderEndpoint], Since(1), Ignorable] = []


@response(key=54, versions="0-1", flexible="1+")
class EndQuorumEpochResponse(Message):
    """Says whether the resignation was accepted."""

    class TopicData(Struct):
        """The results for one topic."""

        topic_name: str = ""
        partitions: list["EndQuorumEpochResponse.PartitionData"] = []

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
