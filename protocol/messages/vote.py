"""Vote, API key 52. It is sent by the voters of the metadata quorum."""

from typing import Annotated

from protocol.codec.message import Ignorable, Message, Since, Struct, Tag, request, response
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@request(key=52, versions="0-2", flexible="0+", listeners="controller")
class VoteRequest(Message):
    """Asks a voter for its vote in an epoch (KIP-595). From version 2 on a replica can ask before it raises
    the epoch (KIP-996)."""

    class TopicData(Struct):
        """Names partitions of one topic."""

        topic_name: str = ""
        partitions: list["VoteRequest.PartitionData"] = []

    class PartitionData(Struct):
        """Describes the candidate: its epoch, its id, and the end of its log."""

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
    """Says whether the vote was granted.

    From version 1 on it tells the address of the leader (KIP-853).
    """

    class TopicData(Struct):
        """Holds the results for the partitions of one topic."""

        topic_name: str = ""
        partitions: list["VoteResponse.PartitionData"] = []

    class PartitionData(Struct):
        """Holds the result for one partition."""

        partition_index: i32 = 0
        error_code: i16 = 0
        leader_id: i32 = 0
        leader_epoch: i32 = 0
        vote_granted: bool = False

    class NodeEndpoint(Struct):
        """Gives the address of a leader that this response names."""

        node_id: i32 = 0
        host: str = ""
        port: u16 = 0

    error_code: i16 = 0
    topics: list[TopicData] = []
    node_endpoints: Annotated[list[NodeEndpoint], Tag(0, since=1)] = []
