"""What lies, as JSON, in the file `quorum-state`."""

from typing import Annotated

from protocol.codec.message import Message, Since, Struct, Until, data
from protocol.primitives import Uuid, i32, i64
from protocol.values import ZERO_UUID


@data(versions="0-1", flexible="0+")
class QuorumStateData(Message):
    """What a replica may not forget over a restart: its epoch, its vote and the leader it follows."""

    class Voter(Struct):
        """One voter."""

        voter_id: i32 = 0

    cluster_id: Annotated[str, Until(0)] = ""
    leader_id: i32 = -1
    leader_epoch: i32 = -1
    voted_id: i32 = -1
    voted_directory_id: Annotated[Uuid, Since(1)] = ZERO_UUID
    applied_offset: Annotated[i64, Until(0)] = 0
    current_voters: Annotated[list[Voter] | None, Until(0)] = []
