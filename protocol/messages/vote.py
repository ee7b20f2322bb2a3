"""Vote, API key 52. Asked by: controller (raft voter)."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@request(key=52, versions="0-2", flexible="0+", listeners="controller")
class VoteRequest(Message):
    """A candidate's request for a vote (KIP-595); from version 2 also before it stands (KIP-996)."""

    class TopicData(Struct):
        """The partitions of one topic."""

        topic_name: str = ""
        partitions: list["VoteRequest.PartitionData"] = []

    class PartitionData(Struct):
        """What the request says about one partition."""

        partition_index: i32 = 0
        replica_epoch: i32 = 0
        replica_id: i32 = 0
        replica_directory_id: Annotated[Uuid, Since(1), Ignorable] = ZERO_UUID
        voter_directory_id: Annotated[Uuid, Since(1), Ignorable] = ZERO_UUID
        last_offset_epoch: i32 = 0
        last_offset: i64 = 0
        pre_vote: Annotated[bool, Since(2)] = False

    cluster_id: str | None = None
    voter_id: Annotated[i32, Since(1), Ignorable] = -1
    topics: list[TopicData] = []


@response(key=52, versions="0-2", flexible="0+")
class VoteResponse(Message):
    """Whether the vote was given.

    From version 1 with the leader's address (KIP-853).
    """

    class TopicData(Struct):
        """The results for one topic."""

        topic_name: str = ""
        partitions: list["VoteResponse.PartitionData"] = []

    class PartitionData(Struct):
        """The result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        vote_granted: bool = False

    class NodeEndpoint(Struct):
        """The address of a leader that is named in this answer."""

        node_id: i32 = 0
        host: str = ""
        port: u16 = 0

    error_code: i16 = 0
    topics: list[TopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=1)] = []
