"""UpdateRaftVoter, API key 82. It is sent by controllers."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Message, Struct, Tag, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=82, versions="0", flexible="0+", listeners="controller")
class UpdateRaftVoterRequest(Message):
    """Tells the leader of the quorum the addresses and kraft.version levels of a voter (KIP-853)."""

    class Listener(Struct):
        """Names a listener of the node, and the address at which it is reached."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    class KRaftVersionFeature(Struct):
        """Tells the kraft.version levels that the voter can run."""

        min_supported_version: i16 = 0
        max_supported_version: i16 = 0

    cluster_id: str | None = ""
    current_leader_epoch: i32 = 0
    voter_id: i32 = 0
    voter_directory_id: Uuid = ZERO_UUID
    listeners: list[Listener] = []
    k_raft_version_feature: KRaftVersionFeature = field(default_factory=KRaftVersionFeature)


@response(key=82, versions="0", flexible="0+")
class UpdateRaftVoterResponse(Message):
    """Says whether the voter's addresses were recorded, and who leads."""

    class CurrentLeader(Struct):
        """Names the leader of the quorum, and its address."""

        leader_id: i32 = -1
        leader_epoch: i32 = -1
        host: str = ""
        port: i32 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    current_leader: Annotated[CurrentLeader | None, Tag(0)] = None
