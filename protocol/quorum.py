"""What KRaft itself writes: the control records of the metadata log and of its snapshots, the key that every
control record has, and the JSON of the file `quorum-state`.
"""

from typing import Annotated

from msgspec import field

from protocol.codec.message import Message, Since, Struct, Until, data
from protocol.primitives import Uuid, i16, i32, i64, u16
from protocol.values import ZERO_UUID


@data(versions="0", flexible="none")
class ControlRecordTypeSchema(Message):
    """The key of every control record: its version, and which kind of control record it is."""

    type: i16 = 0


@data(versions="0-1", flexible="0+")
class LeaderChangeMessage(Message):
    """The first record of each Raft epoch: who leads it, and who voted (KIP-595)."""

    class Voter(Struct):
        """One voter, from version 1 with its directory id."""

        voter_id: i32 = 0
        voter_directory_id: Annotated[Uuid, Since(1)] = ZERO_UUID

    version: i16 = 0
    leader_id: i32 = 0
    voters: list[Voter] = []
    granting_voters: list[Voter] = []


@data(versions="0", flexible="0+")
class SnapshotHeaderRecord(Message):
    """The first record of a snapshot (KIP-630)."""

    version: i16 = 0
    last_contained_log_timestamp: i64 = 0


@data(versions="0", flexible="0+")
class SnapshotFooterRecord(Message):
    """The last record of a snapshot: it is whole (KIP-630)."""

    version: i16 = 0


@data(versions="0", flexible="0+")
class KRaftVersionRecord(Message):
    """The kraft.version in force from here on; 1 lets voters change (KIP-853)."""

    version: i16 = 0
    k_raft_version: i16 = 0


@data(versions="0", flexible="0+")
class VotersRecord(Message):
    """The voters in force from here on, with addresses and versions (KIP-853)."""

    class Voter(Struct):
        """One voter."""

        voter_id: i32 = 0
        voter_directory_id: Uuid = ZERO_UUID
        endpoints: list["VotersRecord.Endpoint"] = []
        k_raft_version_feature: "VotersRecord.KRaftVersionFeature" = field(
            default_factory=lambda: VotersRecord.KRaftVersionFeature()
        )

    class Endpoint(Struct):
        """One address of the voter."""

        name: str = ""
        host: str = ""
        port: u16 = 0

    class KRaftVersionFeature(Struct):
        """The kraft.version levels that the voter can run."""

        min_supported_version: i16 = 0
        max_supported_version: i16 = 0

    version: i16 = 0
    voters: list[Voter] = []


@data(versions="0-1", flexible="0+")
class QuorumStateData(Message):
    """Holds what a replica may not forget over a restart: its epoch, its vote and the leader it follows."""

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
