"""UpdateRaftVoter, API key 82. Asked by: controller."""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Message, Struct, Tag, request, response
from protocol.primitives import Uuid, i16, i32, u16
from protocol.values import ZERO_UUID


@request(key=82, versions="0", flexible="0+", listeners="controller")
class UpdateRaftVoterRequest(Message):
    """A voter's new addresses and versions (KIP-853)."""

    class Listener(Struct):
        """One address of the node, with the listener that it belongs to."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    class KRaftVersionFeature(Struct):
        """The kraft.version levels that the voter can run."""

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
        """The leader of the quorum, and its address."""

        leader_id: i32 = -1
        leader_epoch: i32 = -1
        host: str = ""
        port: i32 = 0

    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    current_leader: Annotated[CurrentLeader | None, Tag(0)] = None
